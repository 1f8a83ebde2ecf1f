"""The change feed of any step, replayed by `dataset.patch` on the older version, gives the newer one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.dataset import Dataset
from deltaic.producer import Producer, count_up
from deltaic.wire.patches import PatchBatch
from tests.properties.test_patches import MODEL, content, records

movies = st.lists(records(), max_size=5, unique_by=lambda record: (record["id"], record["part"]))


@given(st.lists(movies, min_size=2, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_the_feed_of_a_step_replayed_on_the_older_version_gives_the_newer_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[dict[str, Any]]], before: bool, numbered: bool
) -> None:
    folder = Path(tmp_path_factory.mktemp("replay"))
    source = Dataset.create(str(folder / "source"), MODEL)
    stays = {"id": 9, "part": "z", "title": "stays"}
    with (
        source.producer(versions=count_up) as producer,
        Producer(str(folder / "copy"), MODEL, versions=count_up) as copy,
    ):
        producer.publish([stays, *steps[0]], type_name="Movie")
        copy.publish([stays, *steps[0]], type_name="Movie")
        copy.close()
        replayed = Dataset.open(str(folder / "copy"))
        for rows in steps[1:]:
            version = producer.version
            assert version is not None
            if producer.publish([stays, *rows], type_name="Movie").version is None:
                continue
            feed = source.changes(version, before=before, references=numbered)
            batch = PatchBatch.from_bytes(feed.to_bytes())
            if numbered:
                from deltaic.dataset.patching import path_of

                batch = batch.resolved(lambda reference: path_of(source.registry, reference))
            report = replayed.patch(batch)
            assert report.applied == len(batch)
            found = replayed._publisher
            assert found is not None
            assert content(found[1]) == content(producer)
