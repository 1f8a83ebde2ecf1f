"""What patches do, said in plain Python: records as dicts by key, patched one by one. Knows nothing of the package but
the values that it is given."""

from typing import Any

from deltaic.wire.patches import ABSENT, MISSING, Operation, Patch
from deltaic.wire.patches.places import split_place
from deltaic.wire.references import Index, Indices, MapKey, Range, Ranges

MAPS = {"ratings", "counts"}
SETS = {"genres": None, "awards": "name"}


class Refused(Exception):
    """A patch that does not fit what it meets."""


class Plain:
    """Records by key."""

    def __init__(self, records: dict[Any, dict[str, Any]]) -> None:
        self.records = {key: dict(record) for key, record in records.items()}

    def patch(self, patch: Patch) -> None:
        key, record = patch.key, self.records.get(patch.key)
        if patch.operation is Operation.PUT:
            if patch.previous is ABSENT and record is not None:
                raise Refused
            self.records[key] = dict(patch.value)
            return
        if record is None:
            raise Refused
        if patch.operation is Operation.REMOVE:
            del self.records[key]
            return
        steps = taken_apart(str(patch.path))
        if patch.previous is not MISSING and found(record, steps) != patch.previous:
            raise Refused
        self.records[key] = changed(record, steps, patch)


def taken_apart(place: str) -> list[Any]:
    """Field names, and a selector for each placeholder."""
    path, selectors = split_place(place)
    left, steps = list(selectors), []
    for part in path.split("."):
        name = part.split("[")[0].split("{")[0]
        steps.append(name)
        for _ in range(part.count("[]") + part.count("{}")):
            steps.append(left.pop(0))
    return steps


def found(value: Any, steps: list[Any]) -> Any:
    last = ""
    for step in steps:
        if value is None:
            return ABSENT
        if isinstance(step, str):
            value, last = value.get(step), step
        elif isinstance(step, Index):
            if step.element >= len(value):
                return ABSENT
            value = value[step.element]
        elif last in SETS:
            members = [each for each in value if name_of(last, each) == step.key]
            if not members:
                return ABSENT
            value = members[0]
        else:
            entries = {str(key): each for key, each in value.items()}
            if step.key not in entries:
                return ABSENT
            value = entries[step.key]
    return value


def name_of(field: str, element: Any) -> str:
    inner = SETS[field]
    return str(element if inner is None else element[inner])


def changed(value: Any, steps: list[Any], patch: Patch, field: str = "") -> Any:
    gone = patch.operation is Operation.DELETE
    if not steps:
        return patch.value
    step, rest = steps[0], steps[1:]
    if value is None and gone:
        raise Refused
    if isinstance(step, str):
        record = dict(value or {})
        record[step] = None if gone and not rest else changed(record.get(step), rest, patch, step)
        return record
    if isinstance(step, MapKey):
        if field in SETS:
            members = list(value or [])
            places = [place for place, each in enumerate(members) if name_of(field, each) == step.key]
            if gone and not rest:
                if not places:
                    raise Refused
                return [each for place, each in enumerate(members) if place not in places]
            if not places:
                if gone:
                    raise Refused
                return [*members, changed(None, rest, patch)]
            members[places[0]] = changed(members[places[0]], rest, patch)
            return members
        entries = dict(value or {})
        keys = {str(key): key for key in entries}
        if gone and step.key not in keys:
            raise Refused
        key = keys.get(step.key, int(step.key) if field == "counts" else step.key)
        if gone and not rest:
            del entries[key]
        else:
            entries[key] = changed(entries.get(key), rest, patch)
        return entries
    elements = list(value or [])
    if isinstance(step, Range) and not rest and not gone:
        if step.start > len(elements):
            raise Refused
        return elements[: step.start] + list(patch.value) + elements[max(step.start, step.end) :]
    if isinstance(step, Index) and step.element == len(elements) and not gone:
        return [*elements, changed(None, rest, patch)]
    match step:
        case Index(element):
            places = [element]
        case Range(start, end):
            places = list(range(start, min(end, len(elements))))
        case Indices(chosen):
            places = list(chosen)
        case Ranges(ranges):
            places = [place for start, end in ranges for place in range(start, min(end, len(elements)))]
    if any(place >= len(elements) for place in places):
        raise Refused
    if gone and not rest:
        return [each for place, each in enumerate(elements) if place not in places]
    for place in places:
        elements[place] = changed(elements[place], rest, patch)
    return elements


def canonical(value: Any, field: str = "") -> Any:
    """Missing and null alike, sets in one order."""
    if isinstance(value, dict):
        if field in MAPS:
            return sorted((str(key), canonical(each)) for key, each in value.items())
        return {name: canonical(each, name) for name, each in sorted(value.items()) if each is not None}
    if isinstance(value, list):
        made = [canonical(each) for each in value]
        return sorted({repr(each) for each in made}) if field in SETS else made
    return repr(value) if isinstance(value, float) else value
