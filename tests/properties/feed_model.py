"""What patches do, said in plain Python: tables of dicts by key, patched one by one. Slow and obvious."""

import json
from collections import Counter
from typing import Any

from deltaic.compare.diff import record_value
from deltaic.compare.keys import declared_key, key_values
from deltaic.compare.links import root_types
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed
from deltaic.wire.patches import ABSENT, MISSING, Operation, Patch
from deltaic.wire.patches.places import split_place
from deltaic.wire.references import Index, MapKey


def text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class Tables:
    """The records of a state by type: by key where there is one, else as a bag."""

    def __init__(self, state: ReadState) -> None:
        self.schemas: dict[str, Schema] = {name: data.schema for name, data in state.types.items()}
        self.vectors = set(state.vectors)
        self.keyed: dict[str, dict[Any, Any]] = {}
        self.bags: dict[str, list[Any]] = {}
        self.alone: set[str] = set()
        """Types that no other type refers to: their records come and go by themselves."""
        referenced = {link for schema in self.schemas.values() for link in schema.references() if link != schema.name}
        for name in root_types(self.schemas.values()):
            ordinals = state[name].populated.ordinals()
            values = [record_value(state, name, ordinal) for ordinal in ordinals.tolist()]
            if name not in referenced:
                self.alone.add(name)
            if declared_key(state, name) is None:
                self.bags[name] = values
            else:
                keys = key_values(state, name, ordinals) if values else []
                self.keyed[name] = dict(zip(keys, values, strict=True))

    def become(self, state: ReadState) -> None:
        """Go on with the model of a state; nothing has values yet that is new in it, what it lacks is gone."""
        self.schemas = {name: data.schema for name, data in state.types.items()}
        self.vectors = set(state.vectors)

    def patch(self, patch: Patch) -> None:
        name = patch.type_name
        if patch.previous is not MISSING:
            self._expect(patch)
        if not patch.key_parts:
            bag = self.bags.setdefault(name, [])
            if patch.operation is Operation.PUT:
                bag.append(patch.value)
            else:
                wanted = self.canonical(name, patch.value)
                place = next(i for i, each in enumerate(bag) if self.canonical(name, each) == wanted)
                del bag[place]
            return
        table = self.keyed.setdefault(name, {})
        if patch.operation is Operation.PUT:
            assert patch.key_parts not in table
            table[patch.key_parts] = patch.value
        elif patch.operation is Operation.REMOVE:
            del table[patch.key_parts]
        else:
            assert isinstance(patch.path, str)
            path, selectors = split_place(patch.path)
            steps = [step for part in path.split(".") for step in _parts(part)]
            table[patch.key_parts] = self._set(name, table[patch.key_parts], steps, list(selectors), patch)

    def _expect(self, patch: Patch) -> None:
        """Look that the place holds what the patch says was there."""
        if not patch.key_parts:
            return
        record = self.keyed.get(patch.type_name, {}).get(patch.key_parts, ABSENT)
        if patch.operation.of_record:
            here, link = record, patch.type_name
        else:
            assert isinstance(patch.path, str)
            path, selectors = split_place(patch.path)
            here, link = self._get(patch.type_name, record, path, list(selectors))
        if patch.previous is ABSENT:
            assert here is ABSENT, (patch, here)
        else:
            assert self.canonical(link, here) == self.canonical(link, patch.previous), (patch, here)

    def _get(self, name: str, value: Any, path: str, selectors: list[Any]) -> tuple[Any, str]:
        for step in (step for part in path.split(".") for step in _parts(part)):
            schema = self.schemas[name]
            if step == "[]":
                assert isinstance(schema, ListSchema)
                value, name = value[selectors.pop(0).element], schema.element
            elif step != "{}":
                assert isinstance(schema, ObjectSchema)
                position = schema.position(step)
                value, name = value.get(step), (schema.fields[position].referenced or "") if position >= 0 else ""
            else:
                key = selectors.pop(0).key
                assert isinstance(schema, MapSchema | SetSchema)
                if isinstance(schema, MapSchema):
                    name, pairs = schema.value, [(text(each), one) for each, one in value.items()]
                else:
                    pairs, name = [(self._element(schema, each), each) for each in value], schema.element
                value = next((one for each, one in pairs if each == key), ABSENT)
        return value, name

    def _set(self, name: str | None, value: Any, steps: list[str], selectors: list[Any], patch: Patch) -> Any:
        if not steps:
            if patch.operation is Operation.VECTOR:
                import numpy as np

                return patch.value.apply(np.array(value, np.float32)).tolist()
            return patch.value
        step, rest = steps[0], steps[1:]
        schema = None if name is None else self.schemas[name]
        if step not in ("[]", "{}"):
            assert isinstance(schema, ObjectSchema) and isinstance(value, dict)
            position = schema.position(step)
            below = schema.fields[position].referenced if position >= 0 else None
            if patch.operation is Operation.DELETE and not rest:
                return {**value, step: None}
            return {**value, step: self._set(below, value.get(step), rest, selectors, patch)}
        selector = selectors.pop(0)
        if step == "[]":
            assert isinstance(schema, ListSchema) and isinstance(selector, Index)
            changed = list(value)
            changed[selector.element] = self._set(schema.element, changed[selector.element], rest, selectors, patch)
            return changed
        assert isinstance(selector, MapKey)
        gone = patch.operation is Operation.DELETE and not rest
        if isinstance(schema, MapSchema):
            found = next((key for key in value if text(key) == selector.key), None)
            if gone:
                return {key: each for key, each in value.items() if key != found}
            if found is None:
                found = self._typed(schema.key, selector.key)
            return {**value, found: self._set(schema.value, value.get(found), rest, selectors, patch)}
        assert isinstance(schema, SetSchema)
        place = next((i for i, each in enumerate(value) if self._element(schema, each) == selector.key), None)
        if gone:
            assert place is not None
            return [each for i, each in enumerate(value) if i != place]
        if place is None:
            return [*value, patch.value]
        return [
            self._set(schema.element, each, rest, selectors, patch) if i == place else each
            for i, each in enumerate(value)
        ]

    def _element(self, schema: SetSchema, value: Any) -> str:
        if is_boxed(self.schemas[schema.element]):
            return text(value)
        assert schema.hash_key is not None
        for part in schema.hash_key[0].removesuffix(".value").split("."):
            value = value[part]
        return text(value)

    def _typed(self, name: str, key: str) -> Any:
        schema = self.schemas[name]
        assert isinstance(schema, ObjectSchema)
        match schema.fields[0].type.name:
            case "STRING":
                return key
            case "BOOLEAN":
                return key == "true"
            case _:
                return int(key)

    def canonical(self, name: str, value: Any) -> Any:
        """A value in a form that equal ones share: sets in one order, null and missing alike."""
        schema = self.schemas.get(name)
        if value is None:
            return None
        match schema:
            case ObjectSchema() if isinstance(value, dict):
                links = {field.name: field.referenced or "" for field in schema.fields}
                links |= {field: "" for owner, field in self.vectors if owner == name}
                found = {each: self.canonical(link, value.get(each)) for each, link in sorted(links.items())}
                return {each: one for each, one in found.items() if one is not None}
            case SetSchema():
                return sorted((self.canonical(schema.element, each) for each in value), key=_order)
            case ListSchema():
                return [self.canonical(schema.element, each) for each in value]
            case MapSchema():
                pairs = value.items() if isinstance(value, dict) else value
                made = [(self.canonical(schema.key, key), self.canonical(schema.value, each)) for key, each in pairs]
                return sorted(made, key=_order)
        if isinstance(value, list):
            return [self.canonical("", each) for each in value]
        return _order(value) if isinstance(value, float) or type(value).__module__ == "numpy" else value

    def content(self) -> dict[str, Any]:
        """Everything, to compare."""
        found: dict[str, Any] = {}
        for name, table in self.keyed.items():
            found[name] = {key: self.canonical(name, value) for key, value in table.items()}
        for name, bag in self.bags.items():
            found[name] = Counter(_order(self.canonical(name, value)) for value in bag)
        return {name: each for name, each in found.items() if each}


def _order(value: Any) -> str:
    if type(value).__module__ == "numpy":
        value = float(value)
    return json.dumps(value, sort_keys=True, default=repr) if not isinstance(value, float) else repr(value)


def _parts(part: str) -> list[str]:
    steps = []
    while part.endswith(("[]", "{}")):
        steps.insert(0, part[-2:])
        part = part[:-2]
    return [part, *steps]
