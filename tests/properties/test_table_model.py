"""Random operations against a plain dictionary, at every version, through every form of checkpoint."""

import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaic.errors import CommitConflictError, NotFoundError
from deltaic.table import AddFile, Settings, Table, column
from deltaic.table.manifest import ManifestCache
from deltaic.testing.stores import SimulatedStore

DAYS = ("1", "2", "10", None)
FORMS = {
    "avro": Settings(max_manifests=3, entries_per_manifest=4, tombstone_threshold=0.3),
    "avro, one list": Settings(max_manifests=1, tombstone_threshold=0.0),
    "avro, snappy": Settings(state_compression="snappy", max_manifests=2, tombstone_threshold=0.9),
    "literal": Settings(form="literal", max_manifests=3, tombstone_threshold=0.5),
    "json": Settings(state_format="json", checkpoint_interval=3),
    "json in parts": Settings(state_format="json", checkpoint_interval=2, actions_per_part=2),
    "none": Settings(checkpoint_enabled=False),
    "plain": Settings(compress_versions=False),
}

operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(DAYS), min_size=1, max_size=4)),
        st.tuples(st.just("again"), st.integers(0, 30)),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(st.just("merge"), st.integers(0, 30)),
        st.tuples(st.just("update"), st.integers(0, 30)),
        st.tuples(st.just("overwrite"), st.sampled_from(DAYS[:3])),
        st.tuples(st.just("drop"), st.sampled_from(DAYS[:3])),
        st.tuples(st.just("restore"), st.integers(0, 30)),
        st.tuples(st.just("key"), st.integers(0, 2)),
        st.tuples(st.just("stale append"), st.integers(0, 30)),
        st.tuples(st.just("checkpoint"), st.sampled_from(["avro", "json", None])),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("lose state"), st.none()),
        st.tuples(st.just("truncate"), st.none()),
        st.tuples(st.just("held append"), st.none()),
        st.tuples(st.just("held look"), st.none()),
    ),
    max_size=14,
)


class Model:
    """The table as a plain list of dictionaries."""

    def __init__(self, store):
        self.store, self.number = store, 0
        self.versions = [{}]
        self.oldest = 0
        """The oldest version that was not forgotten."""

    def chosen(self, value):
        return self.oldest + value % (len(self.versions) - self.oldest)

    def file(self, day, path=None):
        self.number += 1
        name = path or f"f{self.number}"
        self.store.put(name, b"x")
        low = str(self.number)
        return AddFile(
            name, {"month": day}, self.number, int(time.time() * 1000), min_values={"id": low}, max_values={"id": low}
        )

    @property
    def live(self):
        return self.versions[-1]

    def step(self, *, gone=(), new=()):
        after = {path: file for path, file in self.live.items() if path not in gone}
        after |= {file.path: file for file in new}
        self.versions.append(after)


def run(table, model, kind, value):
    live = sorted(model.live)
    chosen = live[value % len(live)] if live and isinstance(value, int) else None
    if kind == "append":
        files = [model.file(day) for day in value]
        table.append(files)
        model.step(new=files)
    elif kind == "again":
        every = sorted({path for version in model.versions for path in version})
        if every:
            file = model.file("2", every[value % len(every)])
            table.append([file])
            model.step(new=[file])
    elif kind == "remove" and chosen:
        table.remove([chosen])
        model.step(gone=[chosen])
    elif kind == "merge" and len(live) > 1:
        pair = [chosen, live[(live.index(chosen) + 1) % len(live)]]
        file = model.file("1")
        table.merge(pair, [file])
        model.step(gone=pair, new=[file])
    elif kind == "update" and chosen:
        file = model.file("1")
        table.rewrite([chosen], [file], reads=column("month").equals(1))
        model.step(gone=[chosen], new=[file])
    elif kind == "overwrite":
        file = model.file(value)
        table.overwrite([file], where=column("month").equals(int(value)))
        model.step(
            gone=[path for path, one in model.live.items() if one.partition_values["month"] == value], new=[file]
        )
    elif kind == "drop":
        table.drop_partitions(column("month").equals(int(value)))
        model.step(gone=[path for path, one in model.live.items() if one.partition_values["month"] == value])
    elif kind == "restore":
        version = model.chosen(value)
        table.restore(version=version)
        # A path that is live stays as it is now: a path names one file for ever.
        model.versions.append({path: model.live.get(path, one) for path, one in model.versions[version].items()})
    elif kind == "key":
        table.configure({f"k{value}": str(model.number)})
        model.step()
    elif kind == "stale append":
        version = model.chosen(value)
        file = model.file("1")
        table.append([file], snapshot=table.at(version=version))
        model.step(new=[file])


def contents(files):
    return sorted((file.path, file.size_bytes, file.partition_values["month"]) for file in files)


@pytest.mark.parametrize("form", sorted(FORMS))
@given(steps=operations)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_version_is_what_a_plain_model_says(form, steps):
    store = SimulatedStore()
    chosen = replace(FORMS[form], retry_base_delay_ms=0)
    table = Table.create(
        store,
        columns={"id": "long", "month": "integer"},
        partition_by=("month",),
        settings=chosen,
        cache=ManifestCache(),
    )
    model = Model(store)
    # Another process that opened the table in the beginning and looks at it now and then.
    held = Table.open(store, settings=chosen, cache=ManifestCache())
    for kind, value in steps:
        if kind == "reopen":
            table = Table.open(store, settings=chosen, cache=ManifestCache())
        elif kind == "truncate":
            table.truncate(dry_run=False)
            model.oldest = len(model.versions) - 1
        elif kind == "held append":
            path, values = held.new_path({"month": 2})
            file = model.file(values["month"], path)
            held.append([file])
            model.step(new=[file])
        elif kind == "held look":
            assert contents(held.snapshot().files()) == contents(model.live.values())
        elif kind == "lose state":
            if model.oldest == len(model.versions) - 1:
                continue  # nothing else tells of this version
            # As if the writer had crashed between its version file and its state.
            for info in list(store.list(f"_transaction_log/state-v{table.version:020}/")):
                store.delete(info.key)
            table = Table.open(store, settings=chosen, cache=ManifestCache())
        elif kind == "checkpoint":
            before = table.version
            table.checkpoint(format=value)
            model.versions += [model.live] * (table.version - before)
        else:
            run(table, model, kind, value)
        assert contents(table.snapshot().files()) == contents(model.live.values())
    fresh = Table.open(store, cache=ManifestCache())
    assert fresh.version == len(model.versions) - 1
    assert fresh.versions() == tuple(range(model.oldest, len(model.versions)))
    for version, expected in enumerate(model.versions):
        if version < model.oldest:
            with pytest.raises(NotFoundError):
                fresh.at(version=version)
        else:
            assert contents(fresh.at(version=version).files()) == contents(expected.values())
    for month in (1, 2, 10):
        found = {file.path for file in fresh.files(column("month").equals(month))}
        assert found == {path for path, file in model.live.items() if file.partition_values["month"] == str(month)}
    some = fresh.plan((column("id") > 3) & (column("id") <= 6)).paths()
    assert sorted(some) == sorted(path for path, file in model.live.items() if 3 < file.size_bytes <= 6)
    assert fresh.verify().findings == () or all(one.code == "WrongSize" for one in fresh.verify().findings)


def test_a_model_that_lies_is_noticed():
    # The property above can fail: a file that the model does not know is a difference.
    store = SimulatedStore()
    table = Table.create(store, columns={"id": "long", "month": "integer"}, partition_by=("month",))
    model = Model(store)
    run(table, model, "append", ["1"])
    model.versions[-1] = {}
    assert contents(table.snapshot().files()) != contents(model.live.values())
    with pytest.raises(CommitConflictError):
        table.remove(["nowhere"])
