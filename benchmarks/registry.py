"""The field registry and references: name, encode, decode, add a million fields, optimise; patches beside their rivals.

    python benchmarks/registry.py [--fields 1000000] [--patches 100000] [--rounds 3] [--json FILE]

One reference at a time goes through Python; blocks go through kernels. Times are the best of the rounds in CPU time of
one process. Fields are added to a registry in memory and to one in a local folder, whose journal is on disk before
anything returns. Patches: 70 % scalar fields, 20 % nested fields, elements and entries, 10 % dimensions of a vector
(`_patch_rivals.py`), as deltaic sends them beside JSON Patch, protobuf's FieldMask and Avro; what each leaves is
compared.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _patch_rivals import patch_data, rivals
from _patch_rows import patch_rows
from _patch_table import print_rows, rival_row
from harness import machine

from deltaic.kernels import COMPILED
from deltaic.schema.registry import Registry, ValueType
from deltaic.schema.registry_store import open_registry
from deltaic.wire.references import (
    Index,
    MapKey,
    ParameterColumn,
    Parent,
    Reference,
    ReferenceBlock,
    decode_exact,
    encode,
    name_field,
    resolve,
)

_LINE = "{:<58} {:>14} {}"
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
ONE_BY_ONE = 20_000
BLOCK = 100_000


class Table:
    """Prints figures as they come, and keeps them."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.figures: dict[str, float] = {}

    def each(self, what: str, operations: int, work: Callable[[], Any], note: str = "") -> Any:
        """The best CPU time per operation."""
        best, result = float("inf"), None
        for _ in range(self.rounds):
            start = time.process_time_ns()
            result = work()
            best = min(best, (time.process_time_ns() - start) / operations)
        self.figures[what] = best
        size, unit = next((pair for pair in _UNITS if best >= pair[0]), _UNITS[-1])
        print(_LINE.format(what, f"{best / size:,.2f} {unit}", note), flush=True)
        return result

    def size(self, what: str, value: float, note: str = "") -> None:
        """A number of bytes."""
        self.figures[what] = value
        print(_LINE.format(what, f"{value:,.1f} bytes", note), flush=True)


def one_by_one(table: Table) -> None:
    registry = Registry()
    paths = [f"Movie.group{number % 40}.field{number}" for number in range(2_000)]
    registry.register_many((path, ValueType.STRING) for path in paths)
    registry.register_many([("Movie.cast[].name", ValueType.STRING), ("Movie.ratings{}", ValueType.FLOAT64)])
    view = registry.view
    asked = [paths[number % 100] for number in range(ONE_BY_ONE)]
    table.each("name a field: path to index", ONE_BY_ONE, lambda: [view.lookup(path) for path in asked])
    texts = [f"Movie.cast[{number % 100}].name" for number in range(ONE_BY_ONE)]
    table.each("name an element: text to reference", ONE_BY_ONE, lambda: [name_field(text, view) for text in texts])

    usual = [Reference(0, number % 100) for number in range(ONE_BY_ONE)]
    cast, ratings = view.lookup("Movie.cast[].name"), view.lookup("Movie.ratings{}")
    assert cast is not None and ratings is not None
    element = [Reference(0, cast, (Index(number % 300),)) for number in range(ONE_BY_ONE)]
    three = [Reference(0, cast, (Parent(ratings), MapKey("imdb"), Index(number % 300))) for number in range(ONE_BY_ONE)]
    for name, references in (("usual", usual), ("an element", element), ("parent, key and element", three)):
        sent = table.each(f"encode one: {name}", ONE_BY_ONE, lambda found=references: [encode(one) for one in found])
        table.size(f"its bytes: {name}", len(sent[0]))
        read = table.each(f"decode one: {name}", ONE_BY_ONE, lambda found=sent: [decode_exact(one) for one in found])
        assert read == references
        table.each(f"resolve one: {name}", ONE_BY_ONE, lambda found=references: [resolve(one, view) for one in found])


def blocks(table: Table) -> None:
    chance = np.random.default_rng(11)
    hot = np.minimum(chance.zipf(1.3, BLOCK), 2_000) - 1
    elements, keys = chance.integers(0, 300, BLOCK), [f"key {number % 50}".encode() for number in range(BLOCK)]
    offsets, text = np.cumsum([0, *map(len, keys)]), np.frombuffer(b"".join(keys), np.uint8)
    shapes: dict[str, tuple[ParameterColumn, ...]] = {
        "fields": (),
        "elements": (ParameterColumn.elements(elements),),
        "keys and elements": (ParameterColumn.keys(offsets, text), ParameterColumn.elements(elements)),
    }
    for name, columns in shapes.items():
        block = table.each(
            f"encode a block of {BLOCK:,} {name}, each", BLOCK,
            lambda found=columns: ReferenceBlock.of_columns(2, hot, *found),
        )  # fmt: skip
        data = block.to_bytes()
        table.size(f"bytes of a reference in a block: {name}", len(data) / BLOCK)
        found = table.each(
            f"decode a block of {BLOCK:,} {name}, each", BLOCK, lambda sent=data: ReferenceBlock.decode_exact(sent)
        )
        assert found == block
    table.each("numbers of parameters as columns, each", BLOCK, block.numbers)
    table.each("uses of fields by a block, each", BLOCK, block.uses)


def million(table: Table, fields: int) -> None:
    named = [(f"type{number % 500}.field{number}", ValueType.STRING) for number in range(fields)]
    registry: Registry = table.each(f"add {fields:,} fields in one call", 1, lambda: _added(Registry(), named))
    alone = named[: min(fields, 100_000)]
    table.each(f"add {len(alone):,} fields one by one, each", len(alone), lambda: _one_by_one(alone))

    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(1_000))

        def stored() -> Registry:
            return _added(open_registry(str(Path(folder) / str(next(names)))), named)

        kept: Registry = table.each(f"add {fields:,} fields in one call, journal in a folder", 1, stored)
        kept.close()
        place = str(Path(folder) / str(next(names) - 1))
        opened = table.each(f"open a registry of {fields:,} fields", 1, lambda: open_registry(place, read_only=True))
        assert len(opened.view.table()) == fields
        one = open_registry(str(Path(folder) / "single"))
        count = 500
        table.each("add one durable field (local disk), each", count, lambda: _durable(one, count, next(names)))

    chance = np.random.default_rng(11)
    used = chance.permutation(fields)[np.minimum(chance.zipf(1.2, 1_000_000), fields) - 1]
    table.each("count 1,000,000 uses, each", 1_000_000, lambda: registry.touch_many(used))
    plan = registry.plan()
    gain = 1 - plan.bytes_after / plan.bytes_before
    table.each(
        f"plan the order of {fields:,} fields", 1, registry.plan, f"{plan.moved:,} move, {gain:.0%} of the bytes saved"
    )
    table.rounds = 1
    assert table.each(f"optimise {fields:,} fields", 1, registry.optimize) == 1


def _added(registry: Registry, named: list[tuple[str, ValueType]]) -> Registry:
    registry.register_many(named)
    return registry


def _one_by_one(named: list[tuple[str, ValueType]]) -> None:
    registry = Registry()
    for path, value_type in named:
        registry.register(path, value_type)


def _durable(registry: Registry, count: int, number: int) -> None:
    for place in range(count):
        registry.register(f"round{number}.field{place}", ValueType.INT64)


def patches(count: int, rounds: int) -> dict[str, Any]:
    data = patch_data(count, max(1, count // 5))
    found, missing = rivals()
    rows = [*patch_rows(data, rounds), *(rival_row(rival, data, rounds) for rival in found)]
    for line in missing:
        print(line)
    return print_rows(rows, count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fields", type=int, default=1_000_000)
    parser.add_argument("--patches", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("references", "registry", "patches"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"kernels: {'compiled' if COMPILED else 'plain'}; CPU time, best of {options.rounds}\n")
    table = Table(options.rounds)
    if options.only in (None, "references"):
        one_by_one(table)
        blocks(table)
    if options.only in (None, "registry"):
        million(table, options.fields)
    beside: dict[str, Any] = {}
    if options.only in (None, "patches"):
        print()
        beside = patches(options.patches, options.rounds)
    if options.json:
        made = {"machine": machine(), "figures": table.figures, "patches": beside}
        options.json.write_text(json.dumps(made, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
