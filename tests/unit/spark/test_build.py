"""Versions built by Spark have the bytes of the embedded producer, and nothing but counts comes to the driver."""

import logging
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaic import Model
from deltaic.errors import ChecksumError, InputError, NotFoundError, ValidationError
from deltaic.producer import DuplicateKeys, Producer, RecordCountVariance, count_up
from deltaic.spark.build import Sizes, choose_engine, publish, publish_changes
from deltaic.spark.build_sources import Input
from deltaic.storage.local import LocalStore
from tests.unit.spark.build_chains import MODEL, blobs, embedded_blobs, producer, tables, write_files

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TINY = Sizes(sorted_rows=1, range_bytes=1, group_bytes=1, restore_bytes=1)


def frames(spark, version):
    return {name: spark.createDataFrame(table) for name, table in tables(version).items()}


def test_a_history_from_dataframes_has_the_bytes_of_the_embedded_producer(spark, tmp_path):
    with producer(tmp_path / "built") as built:
        for version in range(3):
            assert publish(spark, built, frames(spark, version), tasks=2, sizes=TINY).published
    assert blobs(tmp_path / "built") == embedded_blobs(tmp_path / "embedded", 3)
    assert not (tmp_path / "built" / "staging").exists()


def test_a_history_from_files_and_with_restarts_has_them_too(spark, tmp_path):
    for version in range(2):
        sources = write_files(tmp_path, version)
        with producer(tmp_path / "built", seed=version) as built:
            publish(spark, built, sources, tasks=3, sizes=TINY, scratch=str(tmp_path / "scratch"))
        with producer(tmp_path / "embedded", seed=version) as embedded:
            embedded.publish(tables=tables(version))
    assert blobs(tmp_path / "built") == blobs(tmp_path / "embedded")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_packed_blobs_and_snapshots_now_and_then(spark, tmp_path):
    options = {"compression": "zstd", "snapshot_every": 2, "integrity": "full"}
    with producer(tmp_path / "built", **options) as built:
        for version in range(3):
            publish(spark, built, write_files(tmp_path, version), tasks=2)
    assert blobs(tmp_path / "built") == embedded_blobs(tmp_path / "embedded", 3, **options)


def test_changes_alone_give_the_bytes_of_an_incremental_cycle(spark, tmp_path):
    before, after = tables(0)["Movie"], tables(1)["Movie"]
    old = {row["id"]: row for row in before.to_pylist()}
    new = {row["id"]: row for row in after.to_pylist()}
    changed = after.filter(pa.array([repr(old.get(row["id"])) != repr(row) for row in new.values()]))
    gone = sorted(set(old) - set(new))
    assert 0 < len(changed) < len(after) and gone
    with producer(tmp_path / "built") as built:
        publish(spark, built, write_files(tmp_path, 0))
        keys = spark.createDataFrame([(key,) for key in gone], "id long")
        report = publish_changes(spark, built, {"Movie": spark.createDataFrame(changed)}, {"Movie": keys}, tasks=2)
    with producer(tmp_path / "embedded") as embedded:
        embedded.publish(tables=tables(0))
        with embedded.incremental() as changes:
            changes.add_or_modify(changed, "Movie")
            changes.delete_many("Movie", gone)
    assert report.types == changes.cycle.types
    assert blobs(tmp_path / "built") == blobs(tmp_path / "embedded")


def test_changes_without_a_key_are_refused(spark, tmp_path):
    with producer(tmp_path / "chain") as built:
        built.publish(tables=tables(0))
        with pytest.raises(InputError, match="Review has no primary key"):
            publish_changes(spark, built, {"Review": spark.createDataFrame([(1,)], "movie long")}, {})
        with pytest.raises(InputError, match="no column 'id'"):
            publish_changes(spark, built, {}, {"Movie": spark.createDataFrame([(1,)], "movie long")})


def test_the_same_rows_make_no_version(spark, tmp_path):
    sources = write_files(tmp_path, 0)
    with producer(tmp_path / "chain") as built:
        first = publish(spark, built, sources)
        again = publish(spark, built, sources)
    assert (again.version, again.from_version) == (None, first.version)
    assert again.types["Movie"].records == first.types["Movie"].records


def test_embedded_cycles_and_built_ones_follow_each_other_in_one_chain(spark, tmp_path):
    with producer(tmp_path / "chain") as mixed:
        mixed.publish(tables=tables(0))
        publish(spark, mixed, write_files(tmp_path, 1))
        assert mixed.state is None
        last = mixed.publish(tables=tables(2))
        assert mixed.state is not None
    with producer(tmp_path / "embedded") as embedded:
        for version in range(3):
            report = embedded.publish(tables=tables(version))
    assert last.types == report.types
    assert {name: len(blob) for name, blob in blobs(tmp_path / "chain").items()} == {
        name: len(blob) for name, blob in blobs(tmp_path / "embedded").items()
    }


def test_the_driver_receives_less_than_a_hundredth_of_the_data(spark, tmp_path):
    """Counted: what jobs return to the driver, and what the driver itself reads from the store."""
    chance, count = random.Random(3), 150_000
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "title": [f"title {number} {chance.random()}" for number in range(count)],
            "cast": [[{"name": f"actor {chance.randrange(20_000)}", "home": None}] for _ in range(count)],
        }
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    received = []
    with producer(tmp_path / "chain", target_shard_bytes=1 << 20) as built:
        read = _count_reads(built)
        for sources in ([str(tmp_path / "rows.parquet")], [str(tmp_path / "rows.parquet")] * 2):
            report = publish(
                spark, built, {"Movie": sources, "Review": []}, progress=lambda *job: received.append(job[2]), tasks=2
            )
    assert report.version is None  # the same rows twice are the same records
    data_bytes = sum(len(blob) for blob in blobs(tmp_path / "chain").values())
    assert data_bytes > 7_000_000
    assert sum(received) + sum(read) < data_bytes / 100, (received, read)


def _count_reads(built):
    """The sizes of everything that the producer's own store hands to this process."""
    read = []
    store = built.store
    original_get, original_range = store.get, store.get_range

    def get(key, **options):
        blob = original_get(key, **options)
        read.append(len(blob.data))
        return blob

    def get_range(key, start, length):
        data = original_range(key, start, length)
        read.append(len(data))
        return data

    store.get, store.get_range = get, get_range
    return read


def test_validators_judge_in_a_task_and_a_refusal_leaves_nothing(spark, tmp_path):
    sources = write_files(tmp_path, 0)
    with producer(tmp_path / "chain", validators=[DuplicateKeys("Movie")]) as built:
        report = publish(spark, built, sources)
        assert [result.passed for result in report.validations] == [True]
        sources["Movie"] += write_files(tmp_path, 1)["Movie"]
        with pytest.raises(ValidationError, match="keys are there more than once"):
            publish(spark, built, sources)
        assert [entry.version for entry in built.announcements.read().record.versions] == [report.version]
    assert sorted(blobs(tmp_path / "chain")) == ["header-1", "snapshot-1"]
    assert not (tmp_path / "chain" / "staging").exists()
    few = {"Movie": write_files(tmp_path, 0, parts=3)["Movie"][:1], "Review": []}
    with (
        producer(tmp_path / "chain", seed=6, validators=[RecordCountVariance("Movie", 1.0)]) as built,
        pytest.raises(ValidationError, match="Movie"),
    ):
        publish(spark, built, few)


def test_a_value_that_cannot_be_kept_is_the_callers_error(spark, tmp_path):
    frame = spark.createDataFrame([(1, "x")], "id string, title string")
    with (
        producer(tmp_path / "chain") as built,
        pytest.raises(InputError, match="column 'id' is string, its field is int64"),
    ):
        publish(spark, built, {"Movie": frame})
    assert blobs(tmp_path / "chain") == {}


def test_a_damaged_staged_blob_is_found_by_the_check(spark, tmp_path, monkeypatch):
    from deltaic.spark import build_engine

    original = build_engine.SparkEngine.stage

    def damaged(self, cycle_id, plans):
        staged = original(self, cycle_id, plans)
        blob = next(iter(staged.values()))
        path = tmp_path / "chain" / blob.key
        data = bytearray(path.read_bytes())
        data[-3000] ^= 1
        path.write_bytes(data)
        return staged

    monkeypatch.setattr(build_engine.SparkEngine, "stage", damaged)
    with producer(tmp_path / "chain") as built, pytest.raises(ChecksumError):
        publish(spark, built, write_files(tmp_path, 0))
    assert blobs(tmp_path / "chain") == {}


def test_types_that_refer_to_themselves_are_refused_with_a_way_out(spark, tmp_path):
    model = Model.parse("Node { int id; Node next; }")
    with (
        Producer(tmp_path / "chain", model, order="canonical") as built,
        pytest.raises(InputError, match="Node refer to themselves.*engine='embedded'"),
    ):
        publish(spark, built, {"Node": spark.createDataFrame([(1,)], "id int")})
    rows = Input((), ())
    assert choose_engine(rows, model).engine == "embedded"


def test_given_order_and_memory_stores_are_refused(spark, tmp_path):
    with Producer(tmp_path / "chain", MODEL) as given, pytest.raises(InputError, match="order='canonical'"):
        publish(spark, given, {"Review": []})
    with Producer("memory:", MODEL, order="canonical") as hidden, pytest.raises(InputError, match="cannot see it"):
        publish(spark, hidden, {"Review": []})
    with producer(tmp_path / "other") as built, pytest.raises(NotFoundError, match="no type 'Film'"):
        publish(spark, built, {"Film": []})


def test_auto_takes_the_embedded_path_when_the_data_fit_and_says_so(spark, tmp_path, caplog):
    sources = write_files(tmp_path, 0)
    jobs = []
    with producer(tmp_path / "chain") as built, caplog.at_level(logging.INFO, "deltaic.spark"):
        publish(spark, built, sources, engine="auto", progress=lambda *job: jobs.append(job))
    assert jobs == []
    assert "engine embedded" in caplog.text and "fit" in caplog.text
    assert blobs(tmp_path / "chain") == embedded_blobs(tmp_path / "embedded", 1)
    rows = Input.of(sources, MODEL)
    assert choose_engine(rows, MODEL, free_bytes=1000).engine == "spark"
    assert choose_engine(rows, MODEL, free_bytes=1 << 40).engine == "embedded"
    unknown = Input.of(
        {"Review": spark.createDataFrame(spark.sparkContext.parallelize([(1, "x")]), "movie long, text string")}, MODEL
    )
    assert choose_engine(unknown, MODEL, free_bytes=1 << 40).reason == "the size of a DataFrame is not known"
    known = Input.of({"Movie": spark.read.parquet(*sources["Movie"])}, MODEL)
    assert choose_engine(known, MODEL, free_bytes=1 << 40).engine == "embedded"
    with pytest.raises(InputError, match="engine 'fast'"):
        choose_engine(rows, MODEL, engine="fast")


def test_a_first_version_of_one_flat_type(spark, tmp_path):
    model = Model.parse("Point { int x; long y; }")
    table = pa.table({"x": pa.array(range(1000), pa.int32()), "y": pa.array([n % 7 for n in range(1000)], pa.int64())})
    for name, run in {
        "built": lambda to: publish(spark, to, {"Point": spark.createDataFrame(table)}, tasks=2, sizes=TINY),
        "embedded": lambda to: to.publish(table),
    }.items():
        with Producer(
            tmp_path / name, model, order="canonical", versions=count_up, random=random.Random(1), clock=lambda: 1.0
        ) as to:
            run(to)
    assert blobs(tmp_path / "built") == blobs(tmp_path / "embedded")


def test_files_that_need_the_records_here_are_refused(spark, tmp_path):
    class Nothing:
        name = "nothing"

    with (
        producer(tmp_path / "chain", attachments=[Nothing()]) as built,
        pytest.raises(InputError, match="engine='embedded'"),
    ):
        publish(spark, built, {"Review": []})


def test_a_chain_in_a_folder_of_a_store_is_built_there(spark, tmp_path):
    with producer(LocalStore(tmp_path).child("built")) as built:
        publish(spark, built, write_files(tmp_path, 0))
    assert blobs(tmp_path / "built") == embedded_blobs(tmp_path / "embedded", 1)
