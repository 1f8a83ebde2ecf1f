"""`deltaic nearest`: the records whose vectors are nearest to that of one of them, or to a vector from a file."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from deltaic.cli.opening import open_state
from deltaic.compare.export import record_json
from deltaic.compare.json_text import as_json as plain_json
from deltaic.compare.keys import declared_key, find_by_key, key_values
from deltaic.errors import InputError, NotFoundError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors
from deltaic.vector.metric import Metric, check_count
from deltaic.vector.nearest import nearest as nearest_vectors

app = typer.Typer(help="Find the nearest records.", no_args_is_help=True)

_WIDE = 160


@app.command("nearest")
def nearest(
    url: Annotated[str, typer.Argument(metavar="URL", help="A dataset, the folder of a chain, or a snapshot file.")],
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The name of a type.")],
    field: Annotated[str, typer.Argument(metavar="FIELD", help="Its vector column.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", help="Those like this record; once for each path of the key.")
    ] = None,
    vector: Annotated[
        Path | None, typer.Option("--vector", help="Those near to a vector: a JSON file with a list of numbers.")
    ] = None,
    count: Annotated[int, typer.Option("-k", "--count", help="How many.", min=1)] = 10,
    metric: Annotated[str, typer.Option("--metric", help="cosine, dot or l2.")] = "cosine",
    version: Annotated[
        int | None, typer.Option("--version", help="The version to read; by default the announced one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print the records whose vectors are nearest, nearest first. Exit 1 if there are none."""
    if (key is None) == (vector is None):
        raise InputError("give either --key or --vector")
    chosen = Metric.named(metric)
    state = open_state(url, version)
    column = state[type_name].vectors(field)
    own = None if key is None else _ordinal(state, type_name, field, column, tuple(key))
    query = _read_vector(vector) if vector is not None else column[own or 0]
    where = None if own is None else column.present.difference(_only(own))
    ordinals, scores = nearest_vectors(column, query, check_count(count), metric=chosen, where=where).of(0)
    found = [
        {"key": key, "score": score, "distance": distance, "record": _plain(state, type_name, ordinal)}
        for key, ordinal, score, distance in zip(
            _keys(state, type_name, ordinals),
            ordinals.tolist(),
            scores.tolist(),
            chosen.distances(scores).tolist(),
            strict=True,
        )
    ]
    if as_json:
        print(json.dumps({"metric": str(chosen), "nearest": found}, ensure_ascii=False))
    else:
        for one in found:
            text = json.dumps(one["record"], ensure_ascii=False)
            shown = text if len(text) <= _WIDE else f"{text[:_WIDE]}…"
            print(f"{one['score']:>10.6f}  {one['key']}  {shown}")
        if not found:
            print(f"deltaic: no other {type_name} has a {field}", file=sys.stderr)
    raise typer.Exit(0 if found else 1)


def _only(ordinal: int) -> OrdinalSet:
    return OrdinalSet.from_ordinals(np.array([ordinal], np.int64))


def _ordinal(state: ReadState, type_name: str, field: str, column: StoredVectors, key: tuple[str, ...]) -> int:
    found = find_by_key(state, type_name, key, None).tolist()
    if not found:
        raise NotFoundError(f"type {type_name} has no record with the key {', '.join(key)}")
    if found[0] not in column.present:
        raise NotFoundError(f"the {type_name} with the key {', '.join(key)} has no {field}")
    return int(found[0])


def _read_vector(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path} is no JSON: {error}") from error


def _keys(state: ReadState, type_name: str, ordinals: NDArray[np.int64]) -> list[Any]:
    """The keys of records, their ordinals where the type has no key."""
    if declared_key(state, type_name) is None:
        return list(ordinals.tolist())
    keys = key_values(state, type_name, ordinals) if len(ordinals) else []
    return [plain_json(key[0] if len(key) == 1 else list(key)) for key in keys]


def _plain(state: ReadState, type_name: str, ordinal: int) -> Any:
    """A record without its vectors, which are long and say nothing to people."""
    record = record_json(state, type_name, ordinal)
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if (type_name, name) not in state.vectors}
