"""`dataset.patch`: the table first where there is one, one version for all patches, references, several sources."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaic.dataset import Dataset, patch_clocks
from deltaic.dataset.feed import field_numbers
from deltaic.dataset.patch_clocks import Clocks
from deltaic.errors import CommitConflictError, DecodeError, InputError, PatchConflictError, RegistryError
from deltaic.schema.model import Model
from deltaic.wire.patches import ABSENT, Operation, Patch, PatchBatch, hybrid_timestamp
from deltaic.wire.references import Index, Reference, Unknown

MODEL = Model.parse(
    """
String { string value; }
Actor { String name; int age; }
ListOfActor List<Actor>;
MapOfStringToString Map<String, String> @HashKey(value);
SetOfString Set<String> @HashKey(value);
Movie @PrimaryKey(id) {
  int id; String title; int year; ListOfActor cast; MapOfStringToString links; SetOfString genres;
}
"""
)
ROWS = [
    {"id": number, "title": f"t{number}", "year": 1900 + number, "cast": [{"name": "a", "age": number}],
     "links": [("x", "y")], "genres": ["g"]}
    for number in range(5)
]  # fmt: skip
Make = Callable[[str], Dataset]


@pytest.fixture(params=["chain", "table"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> Dataset:
    if request.param == "chain":
        made = Dataset.create(str(tmp_path / "data"), MODEL)
        with made.producer() as producer:
            producer.publish(ROWS, type_name="Movie")
        return made
    made = Dataset.create(str(tmp_path / "data"), MODEL, table=True)
    made.table.append(ROWS)
    made.publish()
    return made


def movies(dataset: Dataset) -> dict[int, dict[str, Any]]:
    with dataset.consumer() as consumer:
        consumer.refresh()
        rows = consumer.state["Movie"].to_arrow().to_pyarrow().to_pylist()
    found = {row["id"]: row for row in rows}
    if dataset.has_table:
        assert {row["id"]: row for row in dataset.table.to_arrow().to_pylist()} == found, "table and chain agree"
    return found


def test_all_patches_of_a_call_are_one_commit_and_one_version(dataset: Dataset) -> None:
    versions, before = len(dataset.versions()), dataset.table.version if dataset.has_table else None
    report = dataset.patch(
        [
            Patch("Movie", 1, "title", "Solaris"),
            Patch("Movie", 1, "cast[0].age", 77, previous=1),
            Patch("Movie", 1, "cast[1]", {"name": "b"}),
            Patch("Movie", 2, 'links{"k"}', "v"),
            Patch("Movie", 2, 'genres{"g"}', operation=Operation.DELETE),
            Patch("Movie", 3, operation=Operation.REMOVE),
            Patch("Movie", 9, value={"id": 9, "title": "new"}, operation=Operation.PUT, previous=ABSENT),
        ],
        note="by hand",
    )
    found = movies(dataset)
    assert found[1]["title"] == "Solaris"
    assert found[1]["cast"] == [{"name": "a", "age": 77}, {"name": "b", "age": None}]
    assert sorted(found[2]["links"]) == [("k", "v"), ("x", "y")] and found[2]["genres"] == []
    assert set(found) == {0, 1, 2, 4, 9} and found[9]["title"] == "new"
    assert (report.patches, report.applied, report.records) == (7, 7, 4)
    assert len(dataset.versions()) == versions + 1 and report.version == dataset.versions()[0].version
    if before is not None:
        assert report.table_version == dataset.table.version == before + 1


def test_a_refused_patch_leaves_table_and_chain_as_they_were(dataset: Dataset) -> None:
    before, versions = movies(dataset), dataset.versions()
    table = dataset.table.version if dataset.has_table else None
    for bad, error in (
        (Patch("Movie", 2, "title", "x", previous="y"), PatchConflictError),
        (Patch("Movie", 77, "title", "x"), PatchConflictError),
        (Patch("Movie", 2, "year", "x"), InputError),
        (Patch("Movie", 2, "nope", "x"), InputError),
    ):
        with pytest.raises(error):
            dataset.patch([Patch("Movie", 1, "title", "never"), bad])
    assert movies(dataset) == before and dataset.versions() == versions
    assert table is None or dataset.table.version == table
    report = dataset.patch([Patch("Movie", 2, "title", "x", previous="y")], on_mismatch="skip", on_missing="skip")
    assert report.mismatched == 1 and report.version is None and movies(dataset) == before


def test_with_a_table_rows_can_wait_for_a_later_publish(tmp_path: Path) -> None:
    dataset = Dataset.create(str(tmp_path / "data"), MODEL, table=True)
    dataset.table.append(ROWS)
    dataset.publish()
    report = dataset.patch([Patch("Movie", 1, "year", 5)], publish=False)
    assert report.version is None and report.table_version == dataset.table.version
    with dataset.consumer() as consumer:
        consumer.refresh()
        assert consumer["Movie"][1].year == 1901
    dataset.publish()
    assert movies(dataset)[1]["year"] == 5


def test_columns_that_no_patch_is_about_stay_as_the_table_has_them(tmp_path: Path) -> None:
    import pyarrow as pa

    dataset = Dataset.create(str(tmp_path / "data"), MODEL, table=True)
    dataset.table.append(ROWS)
    dataset.table.add_column("extra", pa.string())
    dataset.table.update({"extra": "kept"})
    dataset.patch([Patch("Movie", 1, "year", 5)], publish=False)
    rows = {row["id"]: row for row in dataset.table.to_arrow().to_pylist()}
    assert rows[1]["year"] == 5 and {row["extra"] for row in rows.values()} == {"kept"}


def test_types_that_are_not_the_table_s_have_no_place_in_it(tmp_path: Path) -> None:
    dataset = Dataset.create(str(tmp_path / "data"), MODEL, table=True)
    with pytest.raises(InputError, match="rows of the table are of type Movie"):
        dataset.patch([Patch("Actor", 1, "age", 1)])


def test_references_are_read_with_the_registry_and_paths_without(dataset: Dataset) -> None:
    batch = PatchBatch.of([Patch("Movie", 1, "cast[0].age", 50), Patch("Movie", 2, "year", 51)])
    numbered = batch.to_bytes(field_numbers(dataset))
    assert PatchBatch.from_bytes(numbered).has_references and not PatchBatch.from_bytes(batch.to_bytes()).has_references
    dataset.patch(numbered)
    assert movies(dataset)[1]["cast"][0]["age"] == 50 and movies(dataset)[2]["year"] == 51
    index = dataset.registry.lookup("Movie.cast[].age")
    assert index is not None
    reference = Reference(dataset.registry.version, index, (Index(0),))
    dataset.patch([Patch("Movie", 1, reference, 52)])
    assert movies(dataset)[1]["cast"][0]["age"] == 52
    for bad, code in (
        (Reference(dataset.registry.version, 9_999), "UnknownField"),
        (Reference(99, 0), "UnknownVersion"),
        (Reference(dataset.registry.version, index, (Unknown(7, b""),)), "UnknownCriticalParam"),
    ):
        with pytest.raises(RegistryError) as caught:
            dataset.patch([Patch("Movie", 1, bad, 1)])
        assert caught.value.code == code
    actor = dataset.registry.lookup("Movie.year")
    assert actor is not None
    with pytest.raises(RegistryError, match="no field of type Actor"):
        PatchBatch.of([Patch("Actor", 1, Reference(0, actor), 1)]).resolved(lambda _: "Movie.year")


def at(time: int) -> int:
    return hybrid_timestamp(1_700_000_000_000 + time)


def test_of_several_sources_the_last_writer_of_a_field_wins_whatever_arrives_first(dataset: Dataset) -> None:
    dataset.patch([Patch("Movie", 1, "title", "late", timestamp=at(5), source="a")])
    report = dataset.patch(
        [
            Patch("Movie", 1, "title", "early", timestamp=at(4), source="z"),
            Patch("Movie", 1, "year", 1, timestamp=at(4), source="z"),
            Patch("Movie", 1, operation=Operation.REMOVE, timestamp=at(3), source="z"),
            Patch("Movie", 2, operation=Operation.REMOVE, timestamp=at(3), source="z"),
        ]
    )
    assert (report.applied, report.stale, report.patches) == (2, 2, 4)
    found = movies(dataset)
    assert found[1]["title"] == "late" and found[1]["year"] == 1 and 2 not in found
    assert dataset.patch([Patch("Movie", 1, "title", "tie a", timestamp=at(5), source="0")]).stale == 1
    assert dataset.patch([Patch("Movie", 1, "title", "tie b", timestamp=at(5), source="b")]).stale == 0
    assert movies(dataset)[1]["title"] == "tie b"
    put = Patch("Movie", 2, value={"id": 2}, operation=Operation.PUT, timestamp=at(2), source="a")
    assert dataset.patch([put]).stale == 1, "what was removed later does not come back"
    reopened = Dataset.open(dataset.store)
    assert reopened.patch([Patch("Movie", 1, "title", "old", timestamp=at(1), source="a")]).stale == 1
    assert reopened.patch([Patch("Movie", 1, "title", "no time")]).stale == 0
    assert movies(reopened)[1]["title"] == "no time"


def test_any_order_of_stamped_patches_leads_to_the_same_record() -> None:
    from itertools import permutations

    patches = [
        Patch("Movie", 1, "title", "a", timestamp=at(1), source="x"),
        Patch("Movie", 1, "title", "b", timestamp=at(2), source="x"),
        Patch("Movie", 1, "title", "c", timestamp=at(2), source="y"),
        Patch("Movie", 1, "year", 7, timestamp=at(1), source="y"),
    ]
    for order in permutations(patches):
        clocks, last = Clocks(), {}
        for patch in order:
            batch, _ = clocks.winners(PatchBatch.of([patch]))
            for winner in batch:
                last[winner.path] = winner.value
        assert last == {"title": "c", "year": 7}


def test_a_write_counts_for_what_is_below_it_and_what_holds_it() -> None:
    clocks = Clocks()

    def wins(place: str, time: int, operation: Operation = Operation.SET) -> bool:
        batch = PatchBatch.of([Patch("Movie", 1, place, None, timestamp=at(time), source="a", operation=operation)])
        return not clocks.winners(batch)[1]

    assert wins("cast[0].name", 5)
    assert not wins("cast", 4), "an older whole does not take back a newer part"
    assert wins("cast", 6)
    assert not wins("cast[0].name", 5) and not wins("cast[1].age", 5) and wins("castle", 5)
    assert len(clocks) == 2, "what is below a later write need not be remembered"
    assert not wins("", 5, Operation.REMOVE) and wins("", 7, Operation.REMOVE)
    assert not wins("title", 6) and wins("title", 7)


def test_clocks_are_bounded_and_honest_about_what_they_forgot() -> None:
    clocks = Clocks()
    clocks.winners(PatchBatch.of([Patch("Movie", n, "year", n, timestamp=at(n), source="a") for n in range(100)]))
    clocks.forget(most=10)
    assert len(clocks) == 10 and clocks.floor == at(89)
    read = Clocks.from_bytes(clocks.to_bytes())
    assert len(read) == 10 and read.floor == clocks.floor
    _, lost = read.winners(PatchBatch.of([Patch("Movie", 500, "year", 1, timestamp=at(89), source="a")]))
    assert lost == 1, "older than what is remembered"
    _, lost = read.winners(PatchBatch.of([Patch("Movie", 500, "year", 1, timestamp=at(90), source="a")]))
    assert lost == 0
    read.winners(PatchBatch.of([Patch("Movie", 1, "year", 1, timestamp=at(10 * patch_clocks.KEEP_MS), source="a")]))
    read.forget()
    assert len(read) == 1
    data = bytearray(clocks.to_bytes())
    for place in (0, 5, 13, 40):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(DecodeError):
            Clocks.from_bytes(bytes(damaged))


def test_clocks_that_another_process_wrote_meanwhile_are_not_overwritten(dataset: Dataset) -> None:
    clocks, etag = patch_clocks.read_clocks(dataset.store)
    patch_clocks.write_clocks(dataset.store, clocks, etag)
    with pytest.raises(CommitConflictError, match="patched meanwhile"):
        patch_clocks.write_clocks(dataset.store, clocks, etag)


def test_a_bare_chain_takes_patches(tmp_path: Path) -> None:
    from deltaic.producer import Producer

    with Producer(str(tmp_path), MODEL) as producer:
        producer.publish(ROWS, type_name="Movie")
    dataset = Dataset.open(str(tmp_path))
    assert dataset.is_bare
    dataset.patch([Patch("Movie", 1, "title", "bare")])
    assert movies(dataset)[1]["title"] == "bare"


def test_patches_go_on_between_other_versions(dataset: Dataset) -> None:
    for number in range(3):
        dataset.patch([Patch("Movie", 1, "year", number)])
        if dataset.has_table:
            dataset.table.update({"title": f"title {number}"}, "id = 2")
            dataset.publish()
        else:
            with dataset.producer() as producer, producer.incremental() as changes:
                changes.add_or_modify({**ROWS[2], "title": f"title {number}"}, "Movie")
    found = movies(dataset)
    assert found[1]["year"] == 2 and found[2]["title"] == "title 2"


def test_two_writers_of_one_row_lose_nothing_of_each_other(tmp_path: Path) -> None:
    from threading import Thread

    url = str(tmp_path / "data")
    dataset = Dataset.create(url, MODEL, table=True)
    dataset.table.append(ROWS)
    failed: list[BaseException] = []

    def count(path: str, start: int) -> None:
        mine = Dataset.open(url)
        try:
            for number in range(start, start + 6):
                mine.patch([Patch("Movie", 1, path, number + 1, previous=number)], publish=False)
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=count, args=("year", 1901)), Thread(target=count, args=("cast[0].age", 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    (row,) = (row for row in Dataset.open(url).table.to_arrow().to_pylist() if row["id"] == 1)
    assert row["year"] == 1907 and row["cast"][0]["age"] == 7
