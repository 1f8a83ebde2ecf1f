"""New fields in deltas: how fast they are collected, applied, skipped and read, and what they weigh.

`python benchmarks/append.py` measures at the settings of the document that proposed them (10,000 records, 5 fields,
half of the ordinals kept: 454,545 ordinals/s collected, 555,556 applied), and with a million records (`--large 0`
leaves that out). Times are CPU times of the fastest round: neighbours on the machine slow the others. `--json` prints
figures for programs. The exit code is 1 if an aim is missed.
"""

import argparse
import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.limits import DEFAULT_LIMITS
from deltaic.producer import Producer, SchemaAppend
from deltaic.schema.text import parse_schemas
from deltaic.state.append import prepare_types
from deltaic.state.append_model import plan_append
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import Column, VariableColumn
from deltaic.wire.append import AppendFlags, AppendMode, read_append

DOCUMENT_COLLECTED, DOCUMENT_APPLIED = 454_545, 555_556
FACTOR = 20
OLD = {"id": "int", "a": "int", "b": "long", "c": "double", "d": "string"}
NEW = {"i": "int", "l": "long", "t": "boolean", "x": "double", "s": "string"}
WORDS = (
    "amber",
    "basalt",
    "cobalt",
    "dune",
    "ember",
    "fjord",
    "granite",
    "harbor",
    "island",
    "jungle",
    "kelp",
    "lagoon",
)


@dataclass(frozen=True)
class Figure:
    """One line: what was measured, and the aim if there is one."""

    what: str
    value: float
    unit: str
    aim: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """True or False; None without an aim."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.at_least else self.value <= self.aim

    def __str__(self) -> str:
        aim = "" if self.aim is None else f"{'≥' if self.at_least else '≤'} {self.aim:,.4g}"
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return f"{self.what:<62} {self.value:>16,.4g} {self.unit:<11} {aim:<14} {verdict}"


def schema(fields: dict[str, str]) -> str:
    return "T { " + " ".join(f"{kind} {name};" for name, kind in fields.items()) + " }"


def columns(ids: np.ndarray, fields: dict[str, str]) -> dict[str, Any]:
    """Values that depend on the record alone, so that a record that stays is the same record."""
    made: dict[str, Any] = {}
    for number, (name, kind) in enumerate(fields.items()):
        mixed = (ids * (2654435761 + 2 * number)) & 0xFFFFF
        match kind:
            case "int" | "long":
                made[name] = Column((ids if name == "id" else mixed).astype(np.int64))
            case "boolean":
                made[name] = Column(mixed % 2 == 0)
            case "double":
                made[name] = Column((mixed / 8.0).view(np.uint64))
            case "float":
                made[name] = Column((mixed / 8.0).astype(np.float32).view(np.uint32))
            case "string":
                made[name] = texts([f"{WORDS[m % 12]} {WORDS[m // 12 % 12]} {m:06d}" for m in mixed.tolist()])
            case "bytes":
                source = random.Random(7)
                made[name] = texts([source.randbytes(32) for _ in range(len(ids))])
    return made


def texts(values: list[Any]) -> VariableColumn:
    data = [value.encode() if isinstance(value, str) else value for value in values]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(piece) for piece in data])))
    return VariableColumn(offsets, np.frombuffer(b"".join(data), np.uint8), None, units=False)


def chain(count: int, old: dict[str, str], new: dict[str, str], kept: float) -> tuple[bytes, WriteState]:
    """A snapshot, and a write state that was restored from it and holds the next version."""
    first = WriteState(parse_schemas(schema(old)))
    ids = np.arange(count, dtype=np.int64)
    first.add_objects("T", columns(ids, old))
    blob = io.BytesIO()
    first.write_snapshot(blob)
    state = WriteState(parse_schemas(schema({**old, **new})))
    state.restore(ReadState.load(blob.getvalue()), exact=True)
    ids = np.concatenate((ids[: int(count * kept)], ids[int(count * kept) :] + count))
    state.add_objects("T", columns(ids, {**old, **new}))
    state.prepare()
    return blob.getvalue(), state


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The CPU seconds of the fastest call, and the last result."""
    spent, result = [], None
    for _ in range(rounds):
        started = time.process_time_ns()
        result = call()
        spent.append(time.process_time_ns() - started)
    return min(spent) / 1e9, result


def delta_of(state: WriteState, options: SchemaAppend) -> bytes:
    blob = io.BytesIO()
    state.write_delta(blob, append=options)
    return blob.getvalue()


def take_section(before: ReadState, delta: bytes) -> Any:
    """What a refresh does for the section: read it, change the model, make the records with their new values."""
    cursor = Cursor(delta)
    cursor.position = len(delta) - SECTIONS[id(delta)]
    section = read_append(cursor, AppendFlags(packed=False, extended=False), AppendMode.FULL)
    schemas = {name: data.schema for name, data in before.types.items()}
    plan = plan_append(schemas, section, AppendMode.FULL, None, "delta")
    return prepare_types(before.types, plan, section, DEFAULT_LIMITS, "delta")


SECTIONS: dict[int, int] = {}
"""Bytes of the section of each delta: where it starts is known once the types before it are read."""


def collection_and_application(count: int, rounds: int) -> list[Figure]:
    kept = count // 2
    figures = []
    label = f"{count:,} records, half kept"
    for name, new, options in (
        ("5 new fields", NEW, SchemaAppend()),
        ("all 5 fields again", {}, SchemaAppend(all_fields=True)),
    ):
        snapshot, state = chain(count, OLD, new, 0.5)
        before = ReadState.load(snapshot)
        delta = delta_of(state, options)
        SECTIONS[id(delta)] = state.collect_append(options).size_bytes
        collected, _ = timed(lambda state=state, options=options: state.collect_append(options), rounds)
        applied, _ = timed(lambda before=before, delta=delta: take_section(before, delta), rounds)
        whole, _ = timed(lambda before=before, delta=delta: before.apply(delta, schema_append="full"), rounds)
        off, _ = timed(lambda before=before, delta=delta: before.apply(delta), rounds)
        aims = {"at_least": True} if count == 10_000 else {}
        collect_aim = FACTOR * DOCUMENT_COLLECTED if aims else None
        apply_aim = FACTOR * DOCUMENT_APPLIED if aims else None
        figures += [
            Figure(f"collect, {name}, {label}", kept / collected, "ordinals/s", collect_aim, at_least=True),
            Figure(f"apply, {name}, {label}", kept / applied, "ordinals/s", apply_aim, at_least=True),
            Figure(f"whole refresh with / without the section, {name}", whole / off, "times"),
        ]
    return figures


def read_speed(count: int, rounds: int) -> list[Figure]:
    """Appended fields beside the same fields of the snapshot."""
    snapshot, state = chain(count, OLD, NEW, 1.0)
    appended = ReadState.load(snapshot).apply(delta_of(state, SchemaAppend()), schema_append="full")
    blob = io.BytesIO()
    state.write_snapshot(blob)
    fresh = ReadState.load(blob.getvalue())
    figures = []
    wanted = [random.Random(1).randrange(count) for _ in range(min(count, 20_000))]
    for what, read in (
        ("columns of all new fields", lambda one: [one["T"].column(name) for name in NEW]),
        ("single reads of all new fields", lambda one: [getattr(one["T"][o], name) for o in wanted for name in NEW]),
    ):
        ratios = []
        for _ in range(rounds):
            first, _ = timed(lambda read=read: read(appended), 3)
            second, _ = timed(lambda read=read: read(fresh), 3)
            ratios.append(first / second)
        figures.append(Figure(f"{what}, appended / snapshot", statistics.median(ratios), "times", 1.1))
    assert appended.checksum() == fresh.checksum()
    return figures


def skip_time(rounds: int) -> list[Figure]:
    """The same small delta with sections from 1 KB to 10 MB, read by someone who does not want them."""
    figures, spent = [], []
    for size in (1 << 10, 100 << 10, 10 << 20):
        old, new = {"id": "int"}, {"y": "bytes"}
        count = max(size // 36, 8)
        _, state = chain(count, old, new, 1.0)
        section = delta_of(state, SchemaAppend())[-state.collect_append(SchemaAppend()).size_bytes :]
        # The same small delta for all sizes: only the section differs.
        small, small_state = chain(8, old, new, 1.0)
        own = small_state.collect_append(SchemaAppend()).size_bytes
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "delta-1-2"
            path.write_bytes(delta_of(small_state, SchemaAppend())[:-own] + section)
            before = ReadState.load(small)
            seconds, _ = timed(lambda before=before, path=path: [before.apply(path) for _ in range(20)], rounds)
        spent.append(seconds / 20)
        figures.append(Figure(f"apply without the section, which has {len(section):,} bytes", seconds / 20 * 1e6, "µs"))
    figures.append(Figure("the same, 10 MB / 1 KB", spent[-1] / spent[0], "times", 1.25))
    return figures


def sizes(count: int) -> list[Figure]:
    """One new field on a type of ten, every record kept."""
    old = {"id": "int", **{f"f{n}": "int" for n in range(9)}}
    figures = []
    for kind in ("int", "long", "boolean", "float", "double", "string", "bytes"):
        _, state = chain(count, old, {"n": kind}, 1.0)
        plain = state.collect_append(SchemaAppend()).size_bytes
        packed = state.collect_append(SchemaAppend(compression="zstd")).size_bytes
        # Random bytes do not shrink, and numbers here are spread over 20 bits: the aim is for texts of a few words.
        aim = 0.5 if kind == "string" else None
        figures.append(Figure(f"section of one {kind} field, {count:,} records", plain, "bytes"))
        figures.append(Figure("  compressed, of that", packed / plain, "times", aim))
    return figures


def share_of_cycle(count: int, rounds: int) -> list[Figure]:
    """A cycle of a producer whose model gains one field on a type of five: what appending adds to it."""
    shares, checks = [], []
    one = {"x": "double"}
    ids = np.arange(count, dtype=np.int64)
    first, second = columns(ids, OLD), columns(ids + count // 10, {**OLD, **one})

    def add(rows: dict[str, Any]) -> Callable[[Any], None]:
        return lambda cycle: cycle.write_state.add_objects("T", rows).size and None

    for _ in range(rounds):
        with Producer("memory:", parse_schemas(schema(OLD))) as producer:
            producer.cycle(add(first))
            producer.change_model(parse_schemas(schema({**OLD, **one})))
            cycle = producer.cycle(add(second))
        shares.append(cycle.appended.seconds / cycle.total_seconds)
        checks.append(cycle.appended.values)
    assert min(checks) > 0
    return [Figure(f"collecting, of a cycle of {count:,} records", statistics.median(shares), "of 1", 0.10)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=1_000_000, help="records of the large runs; 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = collection_and_application(10_000, 4 * options.rounds)
    figures += read_speed(10_000, options.rounds) + skip_time(options.rounds) + sizes(10_000)
    figures += share_of_cycle(10_000, max(options.rounds // 3, 3))
    if options.large:
        figures += collection_and_application(options.large, 5) + share_of_cycle(options.large, 3)
    if options.json:
        print(json.dumps([{**figure.__dict__, "met": figure.met} for figure in figures], indent=2))
    else:
        print("\n".join(map(str, figures)))
    return 0 if all(figure.met is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
