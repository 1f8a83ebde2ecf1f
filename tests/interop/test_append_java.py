"""Deltas with appended sections stay readable by released Java Hollow: it sees what a reader without them sees."""

import random
from pathlib import Path

import pytest
from chains import java_walk, our_walk

from deltaic.binary.cursor import Cursor
from deltaic.state.append_write import SchemaAppend
from deltaic.wire.header import read_header
from tests.properties.test_append_histories import RandomHistory
from tools.java import Batch

pytestmark = pytest.mark.interop

OPTIONS = {
    "base layout": SchemaAppend(),
    "all fields": SchemaAppend(all_fields=True),
    "values only": SchemaAppend(include_definitions=False),
    "zstd": SchemaAppend(compression="zstd"),
    "zlib": SchemaAppend(compression="zlib"),
}


@pytest.mark.parametrize("layout", OPTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_java_reads_deltas_with_sections_as_if_there_were_none(
    java: Batch, tmp_path: Path, seed: int, layout: str
) -> None:
    made = RandomHistory(random.Random(seed), OPTIONS[layout])
    made.ids = list(range(12))
    for _ in range(5):
        made.step()
    flagged = 0
    for number, version in enumerate(made.history.versions, 1):
        (tmp_path / f"snapshot-{number}").write_bytes(version.snapshot)
        if version.delta is not None and version.reverse is not None:
            (tmp_path / f"delta-{number - 1}-{number}").write_bytes(version.delta)
            (tmp_path / f"reversedelta-{number}-{number - 1}").write_bytes(version.reverse)
            flagged += bool(read_header(Cursor(version.delta)).extra)
    steps = java_walk(java, tmp_path)
    assert len(steps) == 9 and flagged
    for theirs, ours in zip(steps, our_walk(tmp_path, [step["blob"] for step in steps]), strict=True):
        assert ours == theirs, theirs["blob"]
