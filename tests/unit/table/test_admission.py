"""What a commit may not put into a table: refused by name, and nothing was written."""

import logging
import time

import pytest

from deltaic.errors import InputError, SchemaError
from deltaic.storage import open_store
from deltaic.table import AddFile, Changes, Settings, Table
from tests.unit.table.making import make_file, make_table, paths

DAY = "2024-01-01"

BAD_FILES = {
    "twice": [make_file("a", day=DAY), make_file("a", day="2024-01-02")],
    "no partition value": [make_file("a")],
    "a value of no partition column": [AddFile("a", {"day": DAY, "id": "1"}, 1, 1)],
    "a value that is no date": [make_file("a", day="soon")],
    "a value that is no text": [AddFile("a", {"day": 5}, 1, 1)],
    "a negative size": [make_file("a", day=DAY, size=-1)],
    "a negative count": [make_file("a", day=DAY, num_records=-1)],
    "a size beyond 64 bits": [AddFile("a", {"day": DAY}, 2**63, 1 << 43)],
    "a min that is no text": [make_file("a", day=DAY, min_values={"id": 1})],
    "a text that is none": [make_file("a", day=DAY, max_values={"id": "\ud800"})],
    "unknown members that overwrite known ones": [make_file("a", day=DAY, unknown={"path": "b"})],
    "unknown members of no kind that JSON has": [make_file("a", day=DAY, unknown={"x": object()})],
    "the log's own folder": [make_file("_transaction_log/00000000000000000009.json", day=DAY)],
}


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_a_file_that_would_shut_the_table_is_refused_before_anything_is_written(name):
    table = make_table(partition_by=("day",))
    table.append([make_file("fine", day=DAY)])
    before = sorted(info.key for info in table.store.list())
    with pytest.raises(InputError):
        table.append(BAD_FILES[name])
    assert sorted(info.key for info in table.store.list()) == before
    assert table.append([make_file("after", day=DAY)]).version == 2
    assert paths(Table.open(table.store).snapshot()) == ["after", "fine"]


@pytest.mark.parametrize(
    "terms",
    [
        {"note": 5},
        {"note": "\ud800"},
        {"user": {"a": 5}},
        {"user": {5: "a"}},
        {"transaction": ("app", "7")},
        {"transaction": ("app", True)},
        {"transaction": ("", 7)},
        {"transaction": ("app",)},
        {"transaction": "ab"},
    ],
    ids=str,
)
def test_what_cannot_be_kept_beside_a_commit_is_refused(terms):
    table = make_table()
    with pytest.raises(InputError):
        table.append([make_file()], **terms)
    assert Table.open(table.store).version == 0


@pytest.mark.parametrize(
    "key",
    [
        "deltaic.commit",
        "deltaic.form",
        "deltaic.note",
        "deltaic.user.x",
        "deltaic.token",
        "deltaic.tag.x",
        "deltaic.transaction.x",
        "docMappingSchema.gC45RGOqJ_Grt0xH",
    ],
)
@pytest.mark.parametrize("value", ["x", None])
def test_keys_that_commits_keep_are_not_set_by_hand(key, value):
    table = make_table()
    with pytest.raises(InputError) as refused:
        table.configure({key: value})
    assert refused.value.code == "ReservedKey"
    assert table.configure({"deltaic.other": "x"}).version == 1


def test_a_setting_that_is_none_is_not_carried_and_one_that_is_carried_harms_nobody(caplog):
    table = make_table()
    for key, value in (("state.compression", "bogus"), ("checkpoint.interval", "often"), ("state.compression", 5)):
        with pytest.raises(InputError):
            table.configure({f"spark.indextables.{key}": value})
    # Another writer knows no such checks: for one of them an interval of 0 switches checkpoints off.
    carried = {"spark.indextables.checkpoint.interval": "0", "spark.indextables.state.compression": "bogus"}
    table.commit(Changes("configure", configuration=carried))
    with caplog.at_level(logging.WARNING, "deltaic.table"):
        again = Table.open(table.store)
        again.append([make_file("a")])
    assert [add.path for add in again.files()] == ["a"]
    assert "checkpoint_interval" in caplog.text and "state_compression" in caplog.text


def test_a_given_setting_wins_over_the_tables_own_even_where_it_is_the_default():
    table = make_table()
    table.configure({"spark.indextables.state.compression": "snappy"})
    assert Table.open(table.store).settings.state_compression == "snappy"
    assert Table.open(table.store, settings={"state_compression": "zstd"}).settings.state_compression == "zstd"
    assert Settings.of({"max_manifests": 5}, base=Settings.of({"state_compression": "zstd"})).given == {
        "max_manifests",
        "state_compression",
    }
    with pytest.raises(InputError):
        Settings.of({"given": "x"})


def test_a_schema_keeps_its_partition_columns():
    table = make_table(partition_by=("day",))
    for change in (
        {"schema": '{"type":"struct","fields":[{"name":"id","type":"long"}]}'},
        {"schema": '{"type":"struct","fields":[{"name":"day","type":"date"},{"name":"day","type":"date"}]}'},
        {"partition_by": ("nowhere",)},
        {"partition_by": ("day", "day")},
        {"schema": "no JSON"},
    ):
        with pytest.raises((InputError, SchemaError)):
            table.change_schema(**change)
    assert Table.open(table.store).version == 0


def test_an_absolute_path_is_added_only_if_asked():
    table = make_table()
    outside = make_file("s3://other/part.split", modified_ms=1 << 43)
    with pytest.raises(InputError):
        table.append([outside])
    allowed = Table.open(table.store, settings={"allow_absolute_paths": True})
    assert allowed.append([outside]).version == 1


@pytest.mark.parametrize(
    "given",
    [
        {"configuration": {"key": 5}},
        {"configuration": {"key": "\ud800"}},
        {"name": 5},
        {"partition_by": ("nowhere",)},
        {"partition_by": ("day", "day")},
        {
            "schema": '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}',
            "columns": None,
        },
    ],
    ids=str,
)
def test_a_table_that_nobody_could_open_is_not_made(given):
    store = open_store(f"memory:{time.time_ns()}")
    with pytest.raises(InputError):
        Table.create(store, **{"columns": {"day": "date"}, **given})
    assert list(store.list()) == []
