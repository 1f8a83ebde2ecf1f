"""Chains on disk: written by Java from a random history, walked by deltaic, and what both saw on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from histories import History, Op

from deltaic.state.dump import dump_records, dump_state
from deltaic.state.read import ReadState
from tools.java import Batch


def java_chain(java: Batch, folder: Path, history: History) -> list[Op]:
    """Let Java write the chain of a history; returns its calls with the ordinals that Java gave."""
    calls = folder.with_suffix(".jsonl")
    calls.write_text("".join(json.dumps(op) + "\n" for op in history.ops()))
    java.run("write", calls, folder)
    return [json.loads(line) for line in (folder / "ops.jsonl").read_text().splitlines()]


def java_walk(java: Batch, folder: Path, first: int = 1) -> list[dict[str, Any]]:
    """What Java reads along a chain, forward and back: State JSON, ghosts and the blob's name, per step."""
    return [_with_nulls(step) for step in java.run("follow", "--states", folder, str(first))]


def our_walk(folder: Path, blobs: list[str]) -> Iterator[dict[str, Any]]:
    """What deltaic reads along the same blobs."""
    state: ReadState | None = None
    for blob in blobs:
        parts = parts_of(folder, blob)
        path = folder / blob
        state = ReadState.load(path, parts=parts) if state is None else state.apply(path, parts=parts)
        ghosts = {}
        for name, data in sorted(state.types.items()):
            gone = dump_records(data, data.previous.difference(data.populated))
            if gone:
                ghosts[name] = {str(ordinal): record for ordinal, record in gone.items()}
        dumped = {"blob": blob, **dump_state(state), "ghosts": ghosts}
        del dumped["version"]
        yield dumped


def parts_of(folder: Path, blob: str) -> dict[str, Path]:
    """The optional parts beside a blob, by name."""
    kind, _, rest = blob.partition("-")
    beside = sorted(folder.glob(f"{kind}_*-{rest}"))
    return {path.name[len(kind) + 1 : -len(rest) - 1]: path for path in beside}


def _with_nulls(step: dict[str, Any]) -> dict[str, Any]:
    """A FLOAT that a later model dropped is all ones in records added since: a NaN to Java, null to us."""
    blank = {("FLOAT", "f" * 8), ("DOUBLE", "f" * 16)}
    for name, made in step["types"].items():
        kinds = [kind for _, kind, *_ in made.get("fields", ())]
        groups = [made["records"], step["ghosts"].get(name, {}).values()] if kinds else []
        for record in (record for group in groups for record in group):
            record[:] = [None if (kind, value) in blank else value for kind, value in zip(kinds, record, strict=True)]
    return step
