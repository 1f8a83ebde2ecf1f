"""Text search from a consumer: the table's splits at exactly the state's version, or the chain's own index."""

import datetime
import pathlib
from dataclasses import dataclass

import pyarrow as pa
import pytest

from deltaic.consumer.consumer import Consumer
from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, NotFoundError
from deltaic.producer.cleaner import clean_chain
from deltaic.producer.producer import Producer
from deltaic.schema.model import Model
from deltaic.table.split import ColumnIndex, SplitCache

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("title", pa.string()), ("plot", pa.string()), ("year", pa.int32())]
)
FILMS = [
    {"id": 1, "title": "The Matrix", "plot": "a hacker learns the truth", "year": 1999},
    {"id": 2, "title": "Matrix Reloaded", "plot": "the hacker fights on, hacker against machine", "year": 2003},
    {"id": 3, "title": "Amélie", "plot": "a waitress in Paris", "year": 2001},
]
INDEX = {"title": ColumnIndex(kind="text"), "plot": ColumnIndex(kind="text")}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "splits"))


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> Dataset:
    made = Dataset.create(tmp_path / "films", Model.from_arrow(SCHEMA, "Film", key="id"), table=True, index=INDEX)
    made.table.append(FILMS)
    made.publish()
    return made


def consumer_of(dataset: Dataset) -> Consumer:
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    return consumer


def test_hits_are_records_of_the_loaded_state_best_first(dataset: Dataset) -> None:
    hits = consumer_of(dataset).search("Film", "plot:hacker", k=10, snippets=["plot"])
    assert [hit.record.id for hit in hits] == [2, 1]
    assert hits[0].score > hits[1].score > 0
    assert "<b>hacker</b>" in hits[0].snippets["plot"]
    assert (hits.total, hits.limited, hits.table_version) == (2, False, dataset.table.version)


def test_what_was_committed_since_is_not_found_and_what_was_deleted_is(dataset: Dataset) -> None:
    consumer = consumer_of(dataset)
    dataset.table.append([{"id": 4, "title": "Matrix Revolutions", "plot": "hacker", "year": 2003}])
    dataset.table.delete("id = 1")
    assert [hit.record.id for hit in consumer.search("Film", "title:matrix")] == [1, 2]
    dataset.publish()
    assert [hit.record.id for hit in consumer.search("Film", "title:matrix")] == [1, 2]
    consumer.refresh()
    assert sorted(hit.record.id for hit in consumer.search("Film", "title:matrix")) == [2, 4]


def test_predicates_and_limits_are_part_of_the_search(dataset: Dataset) -> None:
    consumer = consumer_of(dataset)
    hits = consumer.search("Film", "title:matrix", where="year > 2000")
    assert [hit.record.title for hit in hits] == ["Matrix Reloaded"]
    one = consumer.search("Film", "title:matrix", k=1)
    assert len(one) == 1 and one.limited


def test_a_version_that_the_table_forgot_is_an_error_that_says_so(dataset: Dataset) -> None:
    consumer = consumer_of(dataset)
    dataset.table.append([{"id": 9, "title": "x", "plot": "y", "year": 1}])
    dataset.table.files.truncate(dry_run=False)
    with pytest.raises(NotFoundError, match="gone from its history"):
        consumer.search("Film", "title:matrix")


def test_keys_that_are_dates_find_their_records(tmp_path: pathlib.Path) -> None:
    schema = pa.schema(
        [pa.field("day", pa.date32(), nullable=False), pa.field("n", pa.int32(), nullable=False), ("text", pa.string())]
    )
    dataset = Dataset.create(
        tmp_path / "d",
        Model.from_arrow(schema, "Entry", key=("day", "n")),
        table=True,
        index={"text": ColumnIndex(kind="text")},
    )
    day = datetime.date(2024, 2, 29)
    dataset.table.append([{"day": day, "n": 1, "text": "leap day"}, {"day": day, "n": 2, "text": "other"}])
    dataset.publish()
    (hit,) = consumer_of(dataset).search("Entry", "text:leap")
    assert hit.record.n == 1


def test_a_type_without_a_key_cannot_be_searched_through_a_table(tmp_path: pathlib.Path) -> None:
    dataset = Dataset.create(tmp_path / "d", Model.from_arrow(SCHEMA, "Film"), table=True, index=INDEX)
    dataset.table.append(FILMS)
    dataset.publish()
    with pytest.raises(InputError, match="no primary key"):
        consumer_of(dataset).search("Film", "title:matrix")


@dataclass
class Film:
    id: int
    title: str
    plot: str


def published(folder: pathlib.Path, *batches: list[Film], **options: object) -> Producer:
    producer = Producer(folder, Film, text_index={"Film": INDEX}, **options)  # type: ignore[arg-type]
    for films in batches:
        producer.publish(films)
    producer.close()
    return producer


def films(*numbers: int) -> list[Film]:
    return [Film(number, f"film number {number}", "a story" if number % 2 else "a tale") for number in numbers]


def test_a_chain_without_a_table_carries_its_own_index(tmp_path: pathlib.Path) -> None:
    published(tmp_path, films(1, 2, 3))
    consumer = Consumer(tmp_path, share=False)
    consumer.refresh()
    assert sorted(hit.record.id for hit in consumer.search("Film", "plot:story")) == [1, 3]
    published(tmp_path, films(2, 3, 5))
    consumer.refresh()
    assert sorted(hit.record.id for hit in consumer.search("Film", "plot:story")) == [3, 5]
    with pytest.raises(NotFoundError, match="no text index"):
        consumer.search("String", "x")


def test_the_index_of_a_chain_is_announced_with_its_checksum_and_cleaned_with_its_version(
    tmp_path: pathlib.Path,
) -> None:
    producer = published(tmp_path, films(1), films(1, 2), films(1, 2, 3))
    names = sorted(path.name for path in tmp_path.glob("text-*.split"))
    assert len(names) == 3
    listed = [artifact for entry in producer.announcements.read().record.versions for artifact in entry.artifacts]
    assert sorted(artifact.name for artifact in listed if artifact.kind == "text") == names
    done = clean_chain(producer.store, keep_snapshots=1, keep_versions=1, older_than_seconds=-1, dry_run=False)
    assert [name for name in done.remove if name.startswith("text-")] == names[:2]
    assert [path.name for path in tmp_path.glob("text-*.split")] == names[2:]


def test_a_version_that_is_refused_leaves_no_index_behind(tmp_path: pathlib.Path) -> None:
    class Refuses:
        name = "refuses"

        def validate(self, candidate: object) -> object:
            raise RuntimeError("no")

    with pytest.raises(Exception, match="no"):
        published(tmp_path, films(1), validators=[Refuses()])
    assert not list(tmp_path.rglob("text-*"))


def test_columns_and_types_that_are_not_there_are_refused_at_once(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotFoundError, match="no field 'nope'"):
        Producer(tmp_path, Film, text_index={"Film": {"nope": ColumnIndex(kind="text")}})
    with pytest.raises(NotFoundError, match="Nope"):
        Producer(tmp_path, Film, text_index={"Nope": INDEX})
    with pytest.raises(InputError, match="no column"):
        Producer(tmp_path, Film, text_index={"Film": {}})


def test_a_damaged_index_of_a_chain_is_refused(tmp_path: pathlib.Path) -> None:
    from deltaic.errors import DecodeError

    published(tmp_path, films(1, 2, 3))
    (path,) = tmp_path.glob("text-*.split")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    consumer = Consumer(tmp_path, share=False)
    consumer.refresh()
    SplitCache()
    with pytest.raises(DecodeError):
        consumer.search("Film", "plot:story")
