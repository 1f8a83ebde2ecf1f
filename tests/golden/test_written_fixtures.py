"""Recorded write calls, made again, give the blobs that Java made of them, bit for bit, order of tags included."""

from pathlib import Path

import pytest

from deltaic.testing.replay import expected_blob, replay_case, same_blob

GOLDEN = Path(__file__).parent / "hollow"
CASES = [
    "collections",
    "empty-types",
    "envelopes",
    "focus-holes",
    "hash-keys",
    "header-tags",
    "movie-catalog",
    "nested",
    "optional-parts",
    "ordinal-reuse",
    "partitioned-ordinals",
    "resharding",
    "restore",
    "scalar-edges",
    "scalars",
    "schema-evolution",
    "shards",
]


def written_and_recorded(folder):
    """The names of all blobs that were compared; fails on the first one that differs."""
    names = []
    for version in replay_case(folder):
        for name, blob in version.blobs.items():
            recorded = expected_blob(folder, name)
            if recorded is not None:
                assert blob == recorded, f"{name}: {same_blob(recorded, blob) or 'only the order of header tags'}"
                names.append(name)
    return names


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir() if (path / "ops.jsonl").is_file()))
def test_a_clone_alone_writes_what_java_wrote(name):
    assert written_and_recorded(GOLDEN / name)


@pytest.mark.parametrize("name", CASES)
def test_every_recorded_case_is_written_bit_for_bit(name, hollow_fixtures):
    folder = hollow_fixtures / name
    compared = set(written_and_recorded(folder))
    blobs = ("snapshot", "delta", "reversedelta")
    recorded = {path.name.removesuffix(".gz") for path in folder.iterdir() if path.name.startswith(blobs)}
    assert compared == recorded


def test_no_recorded_case_is_left_out(hollow_fixtures):
    assert CASES == sorted({path.parent.name for path in hollow_fixtures.glob("*/ops.jsonl*")})
