"""Chains that Java writes, read by Java and by us: every record, ghost, tag and checksum, forward and back."""

from pathlib import Path

import pytest
from chains import java_chain, java_walk, our_walk
from histories import History

from tools.java import Batch

pytestmark = pytest.mark.interop


def walks_agree(java: Batch, folder: Path) -> None:
    steps = java_walk(java, folder)
    for theirs, ours in zip(steps, our_walk(folder, [step["blob"] for step in steps]), strict=True):
        for name, records in theirs["types"].items():
            assert ours["types"][name] == records, f"{theirs['blob']}: type {name}"
        assert ours == theirs, theirs["blob"]


@pytest.mark.parametrize("seed", range(25))
def test_we_read_every_state_of_a_random_chain_as_java_does(java: Batch, tmp_path: Path, seed: int) -> None:
    java_chain(java, tmp_path / "chain", History(seed))
    walks_agree(java, tmp_path / "chain")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_we_read_every_state_of_a_longer_random_chain_as_java_does(java: Batch, tmp_path: Path, seed: int) -> None:
    java_chain(java, tmp_path / "chain", History(seed, versions=10, records=120))
    walks_agree(java, tmp_path / "chain")


def test_we_read_the_movie_catalogue_as_java_does(java: Batch, tmp_path: Path) -> None:
    java.run("movies", "2000", "3", tmp_path / "chain")
    steps = java_walk(java, tmp_path / "chain", first=0)
    assert [step["blob"] for step in steps][-1] == "reversedelta-1-0"
    for theirs, ours in zip(steps, our_walk(tmp_path / "chain", [step["blob"] for step in steps]), strict=True):
        assert ours == theirs, theirs["blob"]
