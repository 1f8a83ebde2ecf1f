"""A Delta table as the source of a companion."""

import datetime
import json

import pyarrow as pa
import pytest

from deltaic.errors import InputError, NotFoundError, StorageError
from deltaic.table.companion import Companion, StaleCompanionError
from deltaic.table.split import ColumnIndex
from tests.unit.table.companion.making import cache, ids, make, opened, rows

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")


def write(tmp_path, table, **more):
    deltalake.write_deltalake(tmp_path / "source", table, **more)


def known(tmp_path):
    return deltalake.DeltaTable(tmp_path / "source").to_pyarrow_table().to_pylist()


def agrees(companion, tmp_path):
    everything = known(tmp_path)
    assert ids(companion.search(k=None)) == sorted(row["id"] for row in everything)
    word = sorted(row["id"] for row in everything if row["plot"] and "stone" in row["plot"].split())
    assert ids(companion.search("plot:stone", k=None)) == word
    return True


def test_a_delta_table_is_found_and_followed(tmp_path):
    write(tmp_path, rows(0, 60))
    companion = make(tmp_path)
    assert companion.source.description.kind == "delta" and agrees(companion, tmp_path)
    (add,) = companion.files.snapshot().files()
    assert add.companion_delta_version == 0
    write(tmp_path, rows(100, 30), mode="append")
    status = companion.status()
    assert (status.indexed_version, status.source_version, len(status.new)) == (0, 1, 1)
    done = companion.refresh()
    assert (done.added, done.removed, done.source_version) == (1, 0, 1)
    assert agrees(opened(tmp_path), tmp_path)
    deltalake.DeltaTable(tmp_path / "source").delete("id < 10")
    done = companion.refresh()
    assert done.removed == 1 and done.added == 1 and agrees(companion, tmp_path)
    write(tmp_path, rows(500, 10), mode="overwrite")
    assert companion.refresh().source_version == 3 and agrees(companion, tmp_path)
    assert companion.status().indexed_version == 3 and not companion.refresh().committed


def test_files_that_the_log_dropped_are_not_searched_even_if_they_are_there(tmp_path):
    write(tmp_path, rows(0, 20))
    write(tmp_path, rows(50, 20), mode="overwrite")
    assert len(list((tmp_path / "source").glob("*.parquet"))) == 2
    companion = make(tmp_path)
    assert companion.count() == 20 and agrees(companion, tmp_path)


def test_an_old_version_can_be_indexed(tmp_path):
    write(tmp_path, rows(0, 20))
    write(tmp_path, rows(50, 20), mode="append")
    companion = make(tmp_path, version=0)
    assert companion.count() == 20 and not companion.status(version=0).stale and companion.status().stale
    companion.refresh()
    assert companion.count() == 40
    with pytest.raises((StorageError, NotFoundError)):
        companion.refresh(version=17)


def test_vacuumed_files_are_stale(tmp_path):
    write(tmp_path, rows(0, 20))
    companion = make(tmp_path)
    write(tmp_path, rows(50, 20), mode="overwrite")
    assert len(companion.search("id:3")) == 1, "the old file is still there"
    deltalake.DeltaTable(tmp_path / "source").vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(StaleCompanionError):
        companion.search("id:3", columns=["title"])


def test_partition_values_come_from_the_log(tmp_path):
    count = 12
    table = rows(0, count).append_column("kind", pa.array(["a b", "x/ü", None] * 4))
    table = table.append_column("day", pa.array([datetime.date(2024, 1, 1 + n % 2) for n in range(count)]))
    write(tmp_path, table, partition_by=["kind", "day"])
    companion = make(tmp_path)
    assert companion.table_schema.partition_by == ("kind", "day")
    assert companion.count(where="kind = 'x/ü'") == 4 and companion.count(where="kind is null") == 4
    assert companion.count(where="day = '2024-01-02'") == 6
    row = companion.search("id:1", columns=["kind", "day"]).table.to_pylist()[0]
    assert (row["kind"], row["day"]) == ("x/ü", datetime.date(2024, 1, 2))
    assert agrees(companion, tmp_path)


def test_a_column_that_came_later_is_null_in_older_files(tmp_path):
    write(tmp_path, rows(0, 10))
    later = rows(10, 10).append_column("extra", pa.array([f"e{n}" for n in range(10)]))
    write(tmp_path, later, mode="append", schema_mode="merge")
    companion = make(tmp_path)
    assert companion.count("extra:e3") == 1
    assert companion.search("id:3", columns=["extra"]).table["extra"].to_pylist() == [None]


def changed_log(tmp_path, actions):
    log = tmp_path / "source/_delta_log"
    number = len(list(log.glob("*.json")))
    (log / f"{number:020}.json").write_text("".join(json.dumps(one) + "\n" for one in actions))


def first_action(tmp_path, key):
    text = (tmp_path / "source/_delta_log" / f"{0:020}.json").read_text()
    return next(found[key] for line in text.splitlines() if key in (found := json.loads(line)))


def test_column_mapping_is_refused(tmp_path):
    write(tmp_path, rows(0, 10))
    metadata = first_action(tmp_path, "metaData")
    metadata["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "5"}
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"]):
        field["metadata"] = {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": f"col-{number}"}
    metadata["schemaString"] = json.dumps(schema)
    changed_log(tmp_path, [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata}])
    with pytest.raises((InputError, StorageError), match="map|column"):
        make(tmp_path)
    assert not (tmp_path / "index").exists()


def test_deletion_vectors_are_refused(tmp_path):
    write(tmp_path, rows(0, 10))
    add = first_action(tmp_path, "add")
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    changed_log(
        tmp_path,
        [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {"remove": remove},
            {"add": {**add, "deletionVector": vector}},
        ],
    )
    with pytest.raises(InputError, match="deletion vectors"):
        make(tmp_path)


def test_a_table_that_may_have_deletion_vectors_and_has_none_is_taken(tmp_path):
    write(tmp_path, rows(0, 10))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    changed_log(tmp_path, [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}])
    assert make(tmp_path).count() == 10


def test_an_unknown_feature_is_refused(tmp_path):
    write(tmp_path, rows(0, 10))
    features = {"readerFeatures": ["rowsFromTheMoon"], "writerFeatures": ["rowsFromTheMoon"]}
    changed_log(tmp_path, [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}])
    with pytest.raises((InputError, StorageError), match="rowsFromTheMoon|eature"):
        make(tmp_path)


def test_a_path_outside_of_the_delta_table_is_refused(tmp_path):
    write(tmp_path, rows(0, 10))
    add = first_action(tmp_path, "add")
    changed_log(tmp_path, [{"add": {**add, "path": f"file://{tmp_path}/elsewhere.parquet"}}])
    with pytest.raises(InputError, match="outside"):
        make(tmp_path)


def test_a_folder_without_a_log_is_no_delta_table(tmp_path):
    (tmp_path / "source").mkdir()
    with pytest.raises((NotFoundError, StorageError), match="Delta"):
        make(tmp_path, kind="delta")


def test_partitions_of_a_delta_table_are_not_given(tmp_path):
    write(tmp_path, rows(0, 10))
    with pytest.raises(InputError, match="itself"):
        Companion.create(
            tmp_path / "index",
            tmp_path / "source",
            partitions=["id"],
            index={"plot": ColumnIndex(kind="text")},
            split_cache=cache(tmp_path),
        )
