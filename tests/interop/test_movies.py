"""The movie catalogue of the benchmarks: Python's by column, Java's by object, the same movies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.movies import ACTORS, Catalogue, actor_columns
from tools.java import Batch

pytestmark = pytest.mark.interop


def test_the_catalogue_made_by_column_is_the_one_java_writes(java: Batch, tmp_path: Path) -> None:
    java.run("movies", "1500", "3", tmp_path)
    catalogue = Catalogue.first(1500)
    for version in range(4):
        if version:
            catalogue, _ = catalogue.advance()
        blobs = ["snapshot-0", *(f"delta-{before}-{before + 1}" for before in range(version))]
        (dumped,) = java.run("dump", *(tmp_path / blob for blob in blobs))
        assert dumped["randomizedTag"] == f"{catalogue.tag:016x}"
        assert movies_in(dumped["types"]) == movies_of(catalogue)


def movies_in(types: dict[str, Any]) -> list[Any]:
    records = {name: dict(zip(made["populated"], made["records"], strict=True)) for name, made in types.items()}
    texts, actors, lists = records["String"], records["Actor"], records["ListOfActor"]
    found = []
    for number, year, rating, title, cast in records["Movie"].values():
        people = [(actors[at][0], texts[actors[at][1]][0], actors[at][2]) for at in lists[cast]]
        found.append((number, year, rating, texts[title][0], people))
    return sorted(found)


def movies_of(catalogue: Catalogue) -> list[Any]:
    movies, actors = catalogue.columns(), actor_columns()
    found: list[Any] = []
    for row, number in enumerate(movies.id.tolist()):
        cast = movies.cast[movies.cast_offsets[row] : movies.cast_offsets[row + 1]].tolist()
        people = [(actor, actors.name[actor], int(actors.birth_year[actor])) for actor in cast]
        rating = f"{movies.rating[row : row + 1].view(np.uint32)[0]:08x}"
        found.append((number, int(movies.year[row]), rating, movies.title[row], people))
    return found


def test_a_step_says_exactly_which_movies_changed() -> None:
    before = Catalogue.first(20_000)
    after, step = before.advance()
    assert len(step.changed) and len(step.removed) and len(step.added) == 20
    assert set(before.ids) - set(after.ids) == set(step.removed)
    assert set(after.ids) - set(before.ids) == set(step.added)
    old, new = before.columns(), after.only(before.ids[np.isin(before.ids, after.ids)]).columns()
    kept = np.isin(old.id, after.ids)
    differs = new.id[old.rating[kept] != new.rating]
    assert set(differs) <= set(step.changed)
    assert len(differs) > 0.9 * len(step.changed)


def test_the_arrow_table_holds_the_cast_inline() -> None:
    pa = pytest.importorskip("pyarrow")
    catalogue = Catalogue.first(1000)
    table = catalogue.as_arrow()
    assert table.schema.field("cast").type == pa.list_(
        pa.struct([("id", pa.int64()), ("name", pa.string()), ("birthYear", pa.int32())])
    )
    movies, row = catalogue.columns(), table.slice(7, 1).to_pylist()[0]
    assert row["title"] == movies.title[7] and row["id"] == 7
    assert [actor["id"] for actor in row["cast"]] == movies.cast[
        movies.cast_offsets[7] : movies.cast_offsets[8]
    ].tolist()
    assert all(0 <= actor["id"] < ACTORS and actor["name"].endswith(f" {actor['id']}") for actor in row["cast"])
