"""How a model changes from one version to the next, and what that does to those who read (hollow-blob.md, section 15).

A reader keeps the model of the snapshot it loaded and matches fields by name, without checking their types. So a
changed type under an old name is misread, a changed hash key sends look-ups to the wrong bucket, and a removed field
or type is kept as it was until the next snapshot. Added and moved fields and added types do no harm.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from deltaic.errors import SchemaError
from deltaic.schema.printing import type_text
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema


class ChangeKind(StrEnum):
    """What changed."""

    TYPE_ADDED = "type added"
    TYPE_REMOVED = "type removed"
    KIND_CHANGED = "kind changed"
    FIELD_ADDED = "field added"
    FIELD_REMOVED = "field removed"
    FIELD_MOVED = "field moved"
    FIELD_RETYPED = "field retyped"
    FIELD_REREFERENCED = "field refers to another type"
    ELEMENT_CHANGED = "element type changed"
    MAP_KEY_CHANGED = "map key type changed"
    MAP_VALUE_CHANGED = "map value type changed"
    PRIMARY_KEY_CHANGED = "primary key changed"
    HASH_KEY_CHANGED = "hash key changed"


class Effect(StrEnum):
    """What a change does to a reader that follows deltas."""

    NONE = "none"
    """Nothing."""
    STALE = "stale"
    """It goes on with what it has until the next snapshot; what was removed is then gone."""
    BREAKS = "breaks"
    """It misreads records or misses them, or the producer cannot continue the chain."""


_EFFECTS: dict[ChangeKind, tuple[Effect, str]] = {
    ChangeKind.TYPE_ADDED: (Effect.NONE, "readers skip it until the next snapshot"),
    ChangeKind.TYPE_REMOVED: (Effect.STALE, "its records stay as they were until the next snapshot, then it is gone"),
    ChangeKind.KIND_CHANGED: (Effect.BREAKS, "readers would decode records of one kind as another"),
    ChangeKind.FIELD_ADDED: (Effect.NONE, "readers ignore it until the next snapshot"),
    ChangeKind.FIELD_REMOVED: (Effect.STALE, "kept records keep its value, new records have null; a snapshot lacks it"),
    ChangeKind.FIELD_MOVED: (Effect.NONE, "fields are matched by name"),
    ChangeKind.FIELD_RETYPED: (Effect.BREAKS, "readers match by name and would misread it; use another name"),
    ChangeKind.FIELD_REREFERENCED: (
        Effect.BREAKS,
        "readers would look its ordinals up in the old type; use another name",
    ),
    ChangeKind.ELEMENT_CHANGED: (Effect.BREAKS, "readers would look its ordinals up in the old type; use another name"),
    ChangeKind.MAP_KEY_CHANGED: (Effect.BREAKS, "readers would look its ordinals up in the old type; use another name"),
    ChangeKind.MAP_VALUE_CHANGED: (
        Effect.BREAKS,
        "readers would look its ordinals up in the old type; use another name",
    ),
    ChangeKind.PRIMARY_KEY_CHANGED: (Effect.STALE, "indexes of readers use the old key until the next snapshot"),
    ChangeKind.HASH_KEY_CHANGED: (Effect.BREAKS, "readers look up with the old key in buckets placed by the new one"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two models."""

    kind: ChangeKind
    type_name: str
    field_name: str | None = None
    old: str | None = None
    new: str | None = None

    @property
    def effect(self) -> Effect:
        """What it does to readers."""
        return _EFFECTS[self.kind][0]

    @property
    def reason(self) -> str:
        """Why it does that."""
        return _EFFECTS[self.kind][1]

    @property
    def where(self) -> str:
        """The type, or type and field."""
        return self.type_name if self.field_name is None else f"{self.type_name}.{self.field_name}"

    def __str__(self) -> str:
        values = f" ({self.old or 'none'} → {self.new or 'none'})" if self.old or self.new else ""
        return f"{self.where}: {self.kind}{values}"


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """All differences between two models, type by type in the order of the new one, removed types last."""

    changes: tuple[Change, ...]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def of(self, *kinds: ChangeKind) -> tuple[Change, ...]:
        """The changes of some kinds."""
        return tuple(change for change in self.changes if change.kind in kinds)

    @property
    def types_added(self) -> tuple[str, ...]:
        """Names of new types."""
        return tuple(change.type_name for change in self.of(ChangeKind.TYPE_ADDED))

    @property
    def types_removed(self) -> tuple[str, ...]:
        """Names of types that are gone."""
        return tuple(change.type_name for change in self.of(ChangeKind.TYPE_REMOVED))

    @property
    def types_changed(self) -> tuple[str, ...]:
        """Names of types in both models that differ."""
        whole = (ChangeKind.TYPE_ADDED, ChangeKind.TYPE_REMOVED)
        return tuple(dict.fromkeys(change.type_name for change in self.changes if change.kind not in whole))

    @property
    def breaks_readers(self) -> tuple[Change, ...]:
        """The changes that a reader on the old model does not survive; empty if all is well."""
        return tuple(change for change in self.changes if change.effect is Effect.BREAKS)


def compare(old: SchemaSet, new: SchemaSet) -> SchemaChanges:
    """What changed from one model to another. The order of types is no change."""
    changes: list[Change] = []
    for schema in new:
        before = old.get(schema.name)
        if before is None:
            changes.append(Change(ChangeKind.TYPE_ADDED, schema.name))
        else:
            changes.extend(_compare_type(before, schema))
    changes.extend(Change(ChangeKind.TYPE_REMOVED, schema.name) for schema in old if schema.name not in new)
    return SchemaChanges(tuple(changes))


def common_schema(old: Schema, new: Schema) -> Schema:
    """What a producer compares records by when it continues a chain under another model (hollow-blob.md, section 16).

    Of an OBJECT the fields in both, in the order of the new model; its primary key only if both have the same.

    Raises:
        SchemaError: the kinds, a field's type or a referenced type differ. The message names them all.
    """
    if old.name != new.name:
        raise SchemaError(f"types {old.name} and {new.name} have nothing in common: their names differ")
    clashes = [str(change) for change in _compare_type(old, new) if change.kind in _INCOMPATIBLE]
    if clashes:
        raise SchemaError(f"the model does not fit the chain: {'; '.join(clashes)}")
    if isinstance(old, ObjectSchema) and isinstance(new, ObjectSchema):
        shared = {field.name for field in old.fields}
        fields = tuple(field for field in new.fields if field.name in shared)
        return ObjectSchema(new.name, fields, new.primary_key if new.primary_key == old.primary_key else None)
    return new


def common_schemas(old: SchemaSet, new: SchemaSet) -> SchemaSet:
    """The common schema of every type in both models, in the order of the new one."""
    pairs = ((old.get(schema.name), schema) for schema in new)
    return SchemaSet(common_schema(before, after) for before, after in pairs if before is not None)


_INCOMPATIBLE = (
    ChangeKind.KIND_CHANGED,
    ChangeKind.FIELD_RETYPED,
    ChangeKind.FIELD_REREFERENCED,
    ChangeKind.ELEMENT_CHANGED,
    ChangeKind.MAP_KEY_CHANGED,
    ChangeKind.MAP_VALUE_CHANGED,
)


def _compare_type(old: Schema, new: Schema) -> Iterator[Change]:
    name = new.name
    match old, new:
        case ObjectSchema(), ObjectSchema():
            yield from _compare_fields(old, new)
            if old.primary_key != new.primary_key:
                yield _key_change(ChangeKind.PRIMARY_KEY_CHANGED, name, old.primary_key, new.primary_key)
        case ListSchema(), ListSchema():
            yield from _type_change(ChangeKind.ELEMENT_CHANGED, name, old.element, new.element)
        case SetSchema(), SetSchema():
            yield from _type_change(ChangeKind.ELEMENT_CHANGED, name, old.element, new.element)
            if old.hash_key != new.hash_key:
                yield _key_change(ChangeKind.HASH_KEY_CHANGED, name, old.hash_key, new.hash_key)
        case MapSchema(), MapSchema():
            yield from _type_change(ChangeKind.MAP_KEY_CHANGED, name, old.key, new.key)
            yield from _type_change(ChangeKind.MAP_VALUE_CHANGED, name, old.value, new.value)
            if old.hash_key != new.hash_key:
                yield _key_change(ChangeKind.HASH_KEY_CHANGED, name, old.hash_key, new.hash_key)
        case _:
            yield Change(ChangeKind.KIND_CHANGED, name, None, old.kind, new.kind)


def _compare_fields(old: ObjectSchema, new: ObjectSchema) -> Iterator[Change]:
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    places = {name: place for place, name in enumerate(before)}
    moved = _moved([name for name in before if name in after], [name for name in after if name in before])
    for place, field in enumerate(new.fields):
        was = before.get(field.name)
        if was is None:
            yield Change(ChangeKind.FIELD_ADDED, new.name, field.name, None, type_text(field))
            continue
        if was.type is not field.type:
            yield Change(ChangeKind.FIELD_RETYPED, new.name, field.name, type_text(was), type_text(field))
        elif was.referenced != field.referenced:
            yield Change(ChangeKind.FIELD_REREFERENCED, new.name, field.name, was.referenced, field.referenced)
        if field.name in moved:
            yield Change(ChangeKind.FIELD_MOVED, new.name, field.name, str(places[field.name]), str(place))
    for field in old.fields:
        if field.name not in after:
            yield Change(ChangeKind.FIELD_REMOVED, new.name, field.name, type_text(field), None)


def _moved(before: list[str], after: list[str]) -> set[str]:
    """Fields that changed their place among those that stayed, so that an insertion moves nobody.

    The fewest: all outside one longest rising run of old places.
    """
    places = {name: place for place, name in enumerate(before)}
    order = [places[name] for name in after]
    lowest: list[int] = []  # the lowest place that a rising run of each length ends on
    lengths = []
    for place in order:
        length = bisect_left(lowest, place)
        lowest[length : length + 1] = [place]
        lengths.append(length)
    stayed, wanted = set(), len(lowest) - 1
    for name, length in zip(reversed(after), reversed(lengths), strict=True):
        if length == wanted:
            stayed.add(name)
            wanted -= 1
    return set(after) - stayed


def _type_change(kind: ChangeKind, name: str, old: str, new: str) -> Iterator[Change]:
    if old != new:
        yield Change(kind, name, None, old, new)


def _key_change(kind: ChangeKind, name: str, old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> Change:
    return Change(kind, name, None, ", ".join(old or ()) or None, ", ".join(new or ()) or None)


@dataclass(frozen=True, slots=True)
class ModelStep:
    """What readers must do to their model so that it becomes the new one: what an appended section tells them.

    Where the new model cannot be reached this way (a changed hash key), `complete` is False.
    """

    added_fields: dict[str, tuple[Field, ...]]
    """By type, in the order of the new model."""
    removed_fields: dict[str, tuple[str, ...]]
    renamed_fields: dict[str, tuple[tuple[str, str], ...]]
    """By type: old and new name."""
    added_types: tuple[Schema, ...]
    removed_types: tuple[str, ...]
    keys: dict[str, tuple[str, ...] | None]
    """Primary keys that changed."""
    complete: bool

    def __bool__(self) -> bool:
        return bool(
            self.added_fields
            or self.removed_fields
            or self.renamed_fields
            or self.added_types
            or self.removed_types
            or self.keys
        )


Renames = Mapping[str, Mapping[str, str]]
"""Type → field → the name that the field had before."""


def model_step(old: SchemaSet, new: SchemaSet, renamed: Renames | None = None) -> ModelStep:
    """The step from one model to the next along a chain. Types that are in both must fit each other.

    Args:
        old: the model of the version before.
        new: the model now.
        renamed: what fields were called before; what does not apply to these two models is passed over.
    """
    added: dict[str, tuple[Field, ...]] = {}
    removed: dict[str, tuple[str, ...]] = {}
    moved: dict[str, tuple[tuple[str, str], ...]] = {}
    keys: dict[str, tuple[str, ...] | None] = {}
    complete = True
    for schema in new:
        before = old.get(schema.name)
        if before is None or before == schema:
            continue
        if not isinstance(schema, ObjectSchema) or not isinstance(before, ObjectSchema):
            complete = False
            continue
        names = applied_renames(before, schema, (renamed or {}).get(schema.name, {}))
        known = {field.name for field in before.fields} - set(names.values()) | set(names)
        if fields := tuple(field for field in schema.fields if field.name not in known):
            added[schema.name] = fields
        if gone := tuple(name for name in _names(before) if name not in _names(schema) and name not in names.values()):
            removed[schema.name] = gone
        if names:
            moved[schema.name] = tuple((was, name) for name, was in names.items())
        if before.primary_key != schema.primary_key:
            keys[schema.name] = schema.primary_key
    types = tuple(schema for schema in new if schema.name not in old)
    dropped = tuple(schema.name for schema in old if schema.name not in new)
    return ModelStep(added, removed, moved, types, dropped, keys, complete)


def applied_renames(before: ObjectSchema, after: ObjectSchema, renamed: Mapping[str, str]) -> dict[str, str]:
    """Of what is said of earlier names, what happened between these two: new name → old name.

    A field counts as renamed if the old schema has it under the old name alone, with the same type.
    """
    found: dict[str, str] = {}
    for field in after.fields:
        was = renamed.get(field.name)
        if was is None or after.position(was) >= 0 or before.position(field.name) >= 0 or was in found.values():
            continue
        position = before.position(was)
        if position >= 0 and before.fields[position] == replace(field, name=was):
            found[field.name] = was
    return found


def _names(schema: ObjectSchema) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)
