"""Streams of patches into a dataset: every batch takes effect once, whatever is killed, and in the order it came."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, PatchConflictError, ValidationError
from deltaic.producer import count_up
from deltaic.producer.patch_records import PatchRules
from deltaic.schema.model import Model
from deltaic.spark.patch_stream import PatchedBatch, patch_progress, patch_stream, patches_of
from deltaic.wire.patches import Operation, Patch, PatchBatch, hybrid_timestamp
from deltaic.wire.references import Reference

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

REJECT = PatchRules()
MODEL = "Movie @PrimaryKey(id) { int id; string title; double score; }"


class Rows:
    """What Spark gives of a batch."""

    def __init__(self, *patches, wire=True):
        batch = PatchBatch.of(patches)
        self.table = pa.table({"patches": [batch.to_bytes()]}) if wire else batch.to_arrow()

    def toArrow(self):
        return self.table


def movies(dataset):
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    return {record.id: record.title for record in consumer.state["Movie"]}


@pytest.fixture
def dataset(tmp_path):
    made = Dataset.create(tmp_path / "movies", Model.parse(MODEL))
    with made.producer() as producer:
        producer.publish(tables={"Movie": [{"id": number, "title": "A", "score": 1.0} for number in (1, 2)]})
    return made


@pytest.fixture
def sink(dataset, tmp_path):
    def sink(checkpoint="checkpoint", rules=REJECT, **options):
        folder = tmp_path / checkpoint
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": f"query {checkpoint}"}))
        return PatchedBatch(dataset.store.url, "edits", str(folder), rules, **options)

    return sink


def title(number, text, **options):
    return Patch("Movie", number, "title", text, **options)


@pytest.mark.parametrize("wire", [True, False])
def test_the_patches_of_a_batch_apply_in_their_order(dataset, sink, wire):
    sink()(Rows(title(1, "B"), title(2, "C"), title(1, "D"), wire=wire), 0)
    assert movies(dataset) == {1: "D", 2: "C"}


def test_a_batch_that_spark_sends_again_is_left_out(dataset, sink):
    sink()(Rows(Patch("Movie", 3, value={"id": 3, "title": "new"}, operation=Operation.PUT)), 0)
    versions = dataset.versions()
    sink()(Rows(title(1, "never")), 0)
    assert dataset.versions() == versions and movies(dataset) == {1: "A", 2: "A", 3: "new"}
    sink()(Rows(title(1, "B")), 1)
    assert movies(dataset)[1] == "B"
    assert patch_progress(dataset.store.url, "edits").batch_id == 1


def test_an_old_checkpoint_and_a_new_one_are_refused(dataset, sink):
    sink()(Rows(title(1, "B")), 3)
    with pytest.raises(InputError, match="older than the table"):
        sink()(Rows(title(1, "C")), 2)
    with pytest.raises(InputError, match="another checkpoint"):
        sink("other")(Rows(title(1, "C")), 0)
    sink("other", resume_after=3)(Rows(title(1, "C")), 0)
    assert movies(dataset)[1] == "C"


def test_streams_do_not_forget_each_other(dataset, sink, tmp_path):
    sink()(Rows(title(1, "B")), 0)
    folder = tmp_path / "checkpoint"
    PatchedBatch(dataset.store.url, "other", str(folder), PatchRules())(Rows(title(2, "C")), 7)
    assert patch_progress(dataset.store.url, "edits").batch_id == 0
    assert patch_progress(dataset.store.url, "other").batch_id == 7
    assert patch_progress(dataset.store.url, "nobody") is None


def test_a_batch_that_does_not_fit_changes_nothing_unless_the_rules_say_so(dataset, sink):
    wrong = Rows(title(2, "B"), title(1, "C", previous="not this"))
    with pytest.raises(PatchConflictError):
        sink()(wrong, 0)
    assert movies(dataset) == {1: "A", 2: "A"} and patch_progress(dataset.store.url, "edits") is None
    sink(rules=PatchRules(on_mismatch="skip"))(wrong, 0)
    assert movies(dataset) == {1: "A", 2: "B"}


def test_a_driver_that_comes_late_is_refused(dataset, sink, monkeypatch):
    late = sink()
    import deltaic.spark.patch_stream as module

    made = module.patches_of

    def interrupted(rows, type_name):
        # Another driver takes the same batch while this one reads it.
        monkeypatch.setattr(module, "patches_of", made)
        sink()(Rows(title(1, "theirs")), 0)
        return made(rows, type_name)

    monkeypatch.setattr(module, "patches_of", interrupted)
    with pytest.raises(ValidationError, match="went on meanwhile"):
        late(Rows(title(1, "ours")), 0)
    assert movies(dataset)[1] == "theirs"


def test_rows_that_are_no_patches_are_said():
    with pytest.raises(InputError, match="no patches"):
        patches_of(pa.table({"id": [1]}))


def test_spark_has_timestamps_as_decimals():
    moment = hybrid_timestamp(1_700_000_000_000, 3)
    rows = PatchBatch.of([title(1, "B", timestamp=moment, source="eu")]).to_arrow()
    place = rows.column_names.index("timestamp")
    rows = rows.set_column(place, "timestamp", pa.array([Decimal(moment)], pa.decimal128(20, 0)))
    assert [(one.timestamp, one.source) for one in patches_of(rows)] == [(moment, "eu")]


@pytest.mark.parametrize("feed", ["wire", "patches"])
def test_a_feed_streamed_into_another_dataset_makes_it_the_same(spark, dataset, tmp_path, feed):
    copy = Dataset.create(tmp_path / "copy", Model.parse(MODEL))
    source = Dataset.create(tmp_path / "source", Model.parse(MODEL))
    first = {"Movie": [{"id": number, "title": "A", "score": 1.0} for number in range(5)]}
    with copy.producer() as producer:
        producer.publish(tables=first)
    with source.producer(versions=count_up) as producer:
        producer.publish(tables=first)
        producer.publish(tables={"Movie": [{**row, "title": f"B{row['id']}"} for row in first["Movie"][1:]]})
        producer.publish(tables={"Movie": [{"id": 9, "title": "new", "score": 2.0}, first["Movie"][2]]})

    def follow():
        frame = spark.readStream.format("deltaic").options(feed=feed, fromVersion=1).load(source.store.url)
        checkpoint = str(tmp_path / "stream")
        query = patch_stream(frame, copy.store.url, application="copy", checkpoint=checkpoint, once=True)
        assert query.awaitTermination(120)

    follow()
    assert movies(copy) == movies(source) == {9: "new", 2: "A"}
    versions = copy.versions()
    follow()
    assert copy.versions() == versions
    assert patch_progress(copy.store.url, "copy").offsets == ({"version": 3},)


def test_with_a_table_the_rows_change_first_and_the_commit_says_how_far_the_stream_is(tmp_path):
    dataset = Dataset.create(tmp_path / "films", Model.parse(MODEL), table=True)
    dataset.table.append([{"id": number, "title": "A", "score": 1.0} for number in (1, 2)])
    dataset.publish()
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    sink = PatchedBatch(dataset.store.url, "edits", str(folder), REJECT)
    sink(Rows(title(1, "B")), 0)
    version = Dataset.open(dataset.store.url).table.version
    sink(Rows(title(1, "never")), 0)
    found = Dataset.open(dataset.store.url)
    assert found.table.version == version
    assert sorted(found.table.to_arrow(["title"])["title"].to_pylist()) == ["A", "B"]
    assert movies(found) == {1: "B", 2: "A"}
    assert patch_progress(dataset.store.url, "edits").batch_id == 0


def test_a_batch_whose_publication_was_killed_is_published_when_spark_sends_it_again(tmp_path, monkeypatch):
    dataset = Dataset.create(tmp_path / "films", Model.parse(MODEL), table=True)
    dataset.table.append([{"id": 1, "title": "A", "score": 1.0}])
    dataset.publish()
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    sink = PatchedBatch(dataset.store.url, "edits", str(folder), REJECT)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Dataset, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            sink(Rows(title(1, "B")), 0)
    assert movies(dataset) == {1: "A"}
    sink(Rows(title(1, "B")), 0)
    assert movies(dataset) == {1: "B"}


def test_references_are_read_with_the_registry_of_the_dataset(dataset, sink):
    registry = dataset.registry
    index = registry.lookup("Movie.title")
    batch = PatchBatch.of([title(1, "B")])
    data = batch.to_bytes(lambda path: Reference(registry.version, index) if path == "Movie.title" else None)
    rows = Rows()
    rows.table = pa.table({"patches": [data]})
    sink()(rows, 0)
    assert movies(dataset)[1] == "B"
