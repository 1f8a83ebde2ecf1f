"""Random models and histories, changes of model and shards among them: deltas lead to the next snapshot and back.

A delta of a producer that changed its model speaks of that model, so that what its readers and the snapshot beside it
have in common is compared: the types and fields of both.
"""

import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from deltaic.state.dump import dump_state
from deltaic.state.read import ReadState
from tests.interop.histories import History
from tests.interop.replay import Replay

VERSIONS = 5


class Chain:
    """The blobs of a random history, written by one producer that restarts now and then."""

    def __init__(self, folder, seed, *, partitioned=False):
        self.folder = folder
        self.calls = History(seed, versions=VERSIONS, records=12).ops()
        Replay(folder, partitioned=partitioned, exact=True).run(self.calls)
        self.snapshots = {version: self.load(version) for version in range(1, VERSIONS + 1)}
        steps = [call for call in self.calls if call["op"] in ("restore", "write")]
        self.restarted = {after["version"] for before, after in pairwise(steps) if before["op"] == "restore"}

    def load(self, version):
        return ReadState.load(self.folder / f"snapshot-{version}")

    def forward(self, state, version):
        return state.apply(self.folder / f"delta-{version}-{version + 1}")

    def back(self, state, version):
        return state.apply(self.folder / f"reversedelta-{version}-{version - 1}")

    def models(self):
        """Per version the fields by type; collections have none."""
        return {
            version: {
                schema.name: {field.name for field in getattr(schema, "fields", ())} for schema in snapshot.schemas
            }
            for version, snapshot in self.snapshots.items()
        }


def shared(*models):
    """The types and fields that all models have."""
    names = set.intersection(*(set(model) for model in models))
    return {name: set.intersection(*(model[name] for model in models)) for name in names}


def content(state, model):
    """The populated records by type and ordinal, with the fields of a model by name."""
    found = {}
    for name, data in dump_state(state)["types"].items():
        if name not in model:
            continue
        records = data["records"]
        if "fields" in data:
            names = [field[0] for field in data["fields"]]
            records = [
                {field: value for field, value in zip(names, record, strict=True) if field in model[name]}
                for record in records
            ]
        found[name] = dict(zip(data["populated"], map(members, records), strict=True))
    return found


def members(record):
    """A set or map as what it holds.

    A restart knows sets by their elements alone, as Java's does. So one whose hash codes were given may go on under the
    ordinal of another with the same elements, and its readers then keep the other's buckets.
    """
    if not isinstance(record, dict) or set(record) != {"size", "buckets"}:
        return record
    return sorted(bucket for bucket in record["buckets"] if bucket not in (-1, None))


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
@example(0x1761, True)
def test_a_delta_leads_to_the_next_snapshot_and_its_reverse_back(seed, partitioned):
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(Path(folder), seed, partitioned=partitioned)
        models = chain.models()
        for before, after in pairwise(chain.snapshots):
            both = shared(models[before], models[after])
            event("the model changed" if models[before] != models[after] else "the model stayed")
            forward = chain.forward(chain.snapshots[before], before)
            assert forward.tag == chain.snapshots[after].tag
            assert content(forward, both) == content(chain.snapshots[after], both)
            back = chain.back(chain.snapshots[after], after)
            assert back.tag == chain.snapshots[before].tag
            assert content(back, both) == content(chain.snapshots[before], both)
            if after not in chain.restarted:
                # A checksum counts buckets: see `members`.
                assert forward.checksum() == chain.snapshots[after].checksum()
                assert back.checksum() == chain.snapshots[before].checksum()


@settings(max_examples=25)
@given(st.integers(0, 2**32))
@example(366_442)
def test_a_reader_that_walks_a_chain_to_its_end_and_back_sees_every_version(seed):
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(Path(folder), seed)
        models = chain.models()
        always = shared(*models.values())
        state = chain.snapshots[1]
        shards = {name: {len(data.shards)} for name, data in state.types.items()}
        for version in range(1, VERSIONS):
            state = chain.forward(state, version)
            assert content(state, always) == content(chain.snapshots[version + 1], always)
            for name, data in state.types.items():
                shards[name].add(len(data.shards))
        event("shards changed" if any(len(counts) > 1 for counts in shards.values()) else "shards stayed")
        for version in range(VERSIONS, 1, -1):
            state = chain.back(state, version)
            assert content(state, always) == content(chain.snapshots[version - 1], always)


def test_the_histories_do_change_models_and_shards(tmp_path):
    changed = resharded = restored = 0
    for seed in range(30):
        chain = Chain(tmp_path / str(seed), seed)
        models = chain.models()
        changed += any(models[before] != models[after] for before, after in pairwise(models))
        restored += any(call["op"] == "restore" for call in chain.calls)
        resharded += any(
            "hollow.type.resharding.invoked" in snapshot.header_tags for snapshot in chain.snapshots.values()
        )
    assert changed >= 8 and restored >= 12 and resharded >= 5
