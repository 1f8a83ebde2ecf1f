"""Random models and histories, as calls on a write engine.

A history is a list of `ops.jsonl` lines whose ordinals are still names: "@7" is the ordinal that the `add` with
"id" 7 last returned. So a history knows nothing of ordinals, and both writers find them on their own.

A record is made once with a value for every field its type ever has; what is written follows the model of the moment.
So a restart with another model adds the same records under more or fewer fields.

What Java cannot do is left out: a null text in the element of a keyed set, a null reference on a key's path, a type
that loses the last field that its readers know.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Op = dict[str, Any]
SCALARS = ("INT", "LONG", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES")
_INTS = [0, 1, -1, 2, 62, 63, 64, 127, 128, 8191, 8192, -8192, 2**30, 2**31 - 1, -(2**31) + 1, -(2**31)]
_LONGS = [*_INTS, 2**31, 2**32, 2**53, -(2**40), 2**62, 2**63 - 1, -(2**63) + 1, -(2**63)]
_FLOATS = ["00000000", "80000000", "3f800000", "bf800000", "7f800000", "ff800000", "7fc00000", "7fc00123", "00000001"]
_DOUBLES = ["0000000000000000", "8000000000000000", "3ff0000000000000", "7ff0000000000000", "7ff8000000000000"]
_TEXTS = ["", "a", "plain", "Ω", "日本語", "\U0001f600 wide", "\ud800", "\udc00 lone", "\x00", "\x7f\x80", "x" * 200]
_BLOBS = ["", "00", "80", "ff", "00ff80", "ab" * 130]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a field can hold; `strict` fields are never null."""

    name: str
    kind: str
    referenced: str | None = None
    strict: bool = False


@dataclass(slots=True)
class Type:
    """A type with every field that it ever has; `always` names the fields that no model drops."""

    name: str
    kind: str
    fields: list[Shape] = field(default_factory=list)
    always: set[str] = field(default_factory=set)
    over: tuple[str, ...] = ()
    hash_key: tuple[str, ...] | None = None
    primary_key: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """One record: field values by name, or elements; references are recipes."""

    id: int
    type: str
    content: Any


class History:
    """A random history; the same seed gives the same one."""

    def __init__(self, seed: int, *, versions: int = 5, records: int = 30) -> None:
        self._random = random.Random(seed)
        self._records = records
        self._versions = versions
        self._next_id = 0
        self._types: dict[str, Type] = {}
        self._live: dict[str, list[Recipe]] = {}
        self._emitted: set[int] = set()
        self._active: list[str] = []
        self._fields: dict[str, list[str]] = {}
        self._dropped: set[str] = set()

    def ops(self) -> list[Op]:
        """The calls, in order."""
        return list(self._ops())

    def _ops(self) -> Iterator[Op]:
        chance = self._random.random
        self._make_types()
        resharding = chance() < 0.4
        pinned = {name: self._random.choice([1, 2, 4, 8]) for name in self._types if chance() < 0.25}
        self._choose_model(first=True)
        yield from self._engine(pinned, resharding)
        previous = "ffffffffffffffff"
        for version in range(1, self._versions + 1):
            keep = False
            if version > 1:
                if chance() < 0.25:
                    same = chance() < 0.4
                    if not same:
                        self._choose_model(first=False)
                    # A restored type keeps its count of shards: resharding may have left the pinned one.
                    yield from self._engine({} if resharding else pinned, resharding)
                    yield {"op": "restore", "fromVersion": version - 1}
                    keep = same and chance() < 0.3
                else:
                    yield {"op": "nextCycle"}
                    keep = chance() < 0.3
            if resharding:
                yield {"op": "targetMaxTypeShardSize", "bytes": self._random.choice([60, 200, 700, 3000, 2**20])}
                yield {"op": "removeHeaderTag", "key": "hollow.type.resharding.invoked"}
            if chance() < 0.3:
                yield {"op": "headerTag", "key": self._random.choice("abc"), "value": self._random.choice(_TEXTS[:6])}
            yield from self._keep() if keep else self._cycle()
            tag = self._tag()
            yield {"op": "write", "version": version, "previousTag": previous, "nextTag": tag}
            previous = tag

    def _tag(self) -> str:
        return f"{self._random.randrange(1, 2**32 - 1):08x}{self._random.randrange(2**32):08x}"

    def _engine(self, pinned: dict[str, int], resharding: bool) -> Iterator[Op]:
        pins = {name: count for name, count in pinned.items() if name in self._active}
        yield {"op": "engine", "schemas": self._schema_text(), "pinnedShards": pins}
        if resharding:
            yield {"op": "allowTypeResharding", "value": True}
        elif self._random.random() < 0.3:
            yield {"op": "targetMaxTypeShardSize", "bytes": self._random.choice([50, 300, 2000])}
        if self._random.random() < 0.2:
            yield {"op": "focusHoleFillInFewestShards", "value": True}

    # The model.

    def _make_types(self) -> None:
        choose = self._random
        keyed = Type("Key", "OBJECT", primary_key=("k0",))
        for number in range(choose.randint(1, 4)):
            kind = choose.choice(SCALARS)
            keyed.fields.append(Shape(f"k{number}", kind, strict=number == 0 or kind in ("STRING", "BYTES")))
        inner = Type("Inner", "OBJECT", [Shape("value", choose.choice(SCALARS), strict=True)], {"value"})
        keyed.fields.append(Shape("inner", "REFERENCE", "Inner", strict=True))
        keyed.always = {shape.name for shape in keyed.fields}
        self._types = {"Inner": inner, "Key": keyed}
        for number in range(choose.randint(3, 7)):
            made = self._make_type(f"T{number}")
            self._types[made.name] = made

    def _make_type(self, name: str) -> Type:
        choose = self._random
        known = list(self._types)
        kind = choose.choice(["OBJECT", "OBJECT", "OBJECT", "LIST", "SET", "MAP"])
        if kind == "OBJECT":
            made = Type(name, kind, always={"f0"})
            for number in range(choose.randint(0, 6)):
                if number > 0 and choose.random() < 0.4:
                    made.fields.append(Shape(f"f{number}", "REFERENCE", choose.choice([*known, name])))
                else:
                    made.fields.append(Shape(f"f{number}", choose.choice(SCALARS)))
            return made
        over = (choose.choice(known),) if kind != "MAP" else (choose.choice(known), choose.choice(known))
        hash_key = None
        if kind != "LIST" and choose.random() < 0.5:
            over = ("Key", *over[1:])
            paths = [shape.name for shape in self._types["Key"].fields if shape.name != "inner"]
            paths += ["inner.value", "inner"]
            hash_key = tuple(choose.sample(paths, choose.randint(1, min(3, len(paths)))))
        return Type(name, kind, over=over, hash_key=hash_key)

    def _choose_model(self, *, first: bool) -> None:
        """Pick types, their order and their fields; what refers to a dropped type is dropped with it.

        A dropped type never returns: it would start empty, while readers along the chain still hold its old records.
        """
        choose = self._random
        active: list[str] = []
        for name, made in self._types.items():
            needed = [over for over in made.over if over not in active]
            may = not needed and name not in self._dropped and choose.random() > (0.1 if first else 0.2)
            if name in ("Key", "Inner") or may:
                active.append(name)
        self._dropped |= {name for name in self._active if name not in active}
        self._fields = {}
        for name in active:
            made = self._types[name]
            chosen = [
                shape.name
                for shape in made.fields
                if (shape.referenced is None or shape.referenced in active)
                and (shape.name in made.always or choose.random() > (0.2 if first else 0.3))
            ]
            if choose.random() < 0.3:
                choose.shuffle(chosen)
            self._fields[name] = chosen
        if choose.random() < 0.5:
            choose.shuffle(active)
        self._active = active
        for name in active:
            self._live.setdefault(name, [])

    def _schema_text(self) -> str:
        return "\n".join(self._schema(self._types[name]) for name in self._active)

    def _schema(self, made: Type) -> str:
        key = f" @HashKey({', '.join(made.hash_key)})" if made.hash_key else ""
        if made.kind == "LIST":
            return f"{made.name} List<{made.over[0]}>;"
        if made.kind == "SET":
            return f"{made.name} Set<{made.over[0]}>{key};"
        if made.kind == "MAP":
            return f"{made.name} Map<{made.over[0]},{made.over[1]}>{key};"
        shapes = {shape.name: shape for shape in made.fields}
        lines = "".join(
            f" {shapes[name].referenced or shapes[name].kind.lower()} {name};" for name in self._fields[made.name]
        )
        primary = f" @PrimaryKey({', '.join(made.primary_key)})" if made.primary_key else ""
        return f"{made.name}{primary} {{{lines} }}"

    # The records.

    def _make_recipe(self, name: str) -> Recipe | None:
        made, choose = self._types[name], self._random
        content: Any
        if made.kind == "OBJECT":
            content = {}
            for shape in made.fields:
                if shape.strict or choose.random() > 0.15:
                    value = self._value(shape)
                    if value is not None:
                        content[shape.name] = value
        else:
            size = choose.choice([0, 1, 2, 3, 4, choose.randint(0, 25)])
            sides = [[self._pick(over) for over in made.over] for _ in range(size)]
            if any(recipe is None for side in sides for recipe in side):
                return None
            if made.kind != "LIST" and choose.random() > 0.05:
                sides = list({side[0].id: side for side in sides if side[0] is not None}.values())
            content = sides
            if made.kind == "SET" and made.hash_key is None and choose.random() < 0.15:
                content = [
                    [*side, choose.choice(_INTS)] for side in {side[0].id: side for side in sides if side[0]}.values()
                ]
        self._next_id += 1
        return Recipe(self._next_id, name, content)

    def _pick(self, name: str) -> Recipe | None:
        """A live record of a type, a new one if there is none."""
        live = self._live.setdefault(name, [])
        if not live or self._random.random() < 0.1:
            made = self._make_recipe(name)
            if made is not None:
                live.append(made)
        return self._random.choice(live) if live else None

    def _value(self, shape: Shape) -> Any:
        choose = self._random
        if not shape.strict and shape.kind != "REFERENCE" and choose.random() < 0.05:
            return {"setNull": True}
        if shape.kind == "INT":
            return choose.choice([*_INTS, choose.randint(-500, 500), choose.randint(0, 9)])
        if shape.kind == "LONG":
            return choose.choice([*_LONGS, choose.randint(-(2**45), 2**45), choose.randint(0, 9)])
        if shape.kind == "BOOLEAN":
            return choose.random() < 0.5
        if shape.kind == "FLOAT":
            return choose.choice([*_FLOATS, f"{choose.randrange(2**32):08x}"])
        if shape.kind == "DOUBLE":
            return choose.choice([*_DOUBLES, f"{choose.randrange(2**64):016x}"])
        if shape.kind == "STRING":
            return choose.choice([*_TEXTS, f"text {choose.randint(0, 99)}"])
        if shape.kind == "BYTES":
            return choose.choice([*_BLOBS, choose.randbytes(choose.randint(0, 9)).hex()])
        assert shape.referenced is not None
        if shape.strict:
            return self._pick(shape.referenced)
        live = self._live.get(shape.referenced)
        return choose.choice(live) if live else None

    def _change(self, name: str) -> list[Recipe]:
        """Remove and add records of a type; returns the removed ones."""
        choose = self._random
        live = self._live[name]
        removed: list[Recipe] = []
        if choose.random() < 0.6:
            removed = [recipe for recipe in live if choose.random() < choose.choice([0.05, 0.3])]
        elif choose.random() < 0.08:
            removed = list(live)
        gone = {recipe.id for recipe in removed}
        self._live[name] = [recipe for recipe in live if recipe.id not in gone]
        wanted = choose.randint(0, self._records) - len(self._live[name])
        for _ in range(max(wanted, choose.randint(0, 3)) if choose.random() < 0.7 else 0):
            made = self._make_recipe(name)
            if made is not None:
                self._live[name].append(made)
        return removed

    def _cycle(self) -> Iterator[Op]:
        for name in self._active:
            self._change(name)
        yield from self._add_all([recipe for name in self._active for recipe in self._live[name]])

    def _keep(self) -> Iterator[Op]:
        """Keep the cycle before; remove records that nothing can refer to, and add new ones."""
        yield {"op": "addAllFromPreviousCycle"}
        referred = {over for name in self._active for over in self._types[name].over}
        referred |= {
            str(shape.referenced) for name in self._active for shape in self._types[name].fields if shape.referenced
        }
        before = {recipe.id for live in self._live.values() for recipe in live}
        for name in self._active:
            if name not in referred:
                for recipe in self._change(name):
                    if recipe.id in self._emitted:
                        yield {"op": "removeFromThisCycle", "type": name, "ordinal": f"@{recipe.id}"}
        fresh = [recipe for name in self._active for recipe in self._live[name] if recipe.id not in before]
        yield from self._add_all(fresh)

    def _add_all(self, recipes: list[Recipe]) -> Iterator[Op]:
        added: set[int] = set()
        if self._random.random() < 0.5:
            self._random.shuffle(recipes)
        for recipe in recipes:
            yield from self._add(recipe, added)
            if self._random.random() < 0.02:
                added.discard(recipe.id)
                yield from self._add(recipe, added)

    def _add(self, recipe: Recipe, added: set[int]) -> Iterator[Op]:
        if recipe.id in added:
            return
        added.add(recipe.id)
        made = self._types[recipe.type]
        op: Op = {"op": "add", "type": recipe.type, "id": recipe.id}
        if made.kind == "OBJECT":
            op["fields"] = {name: recipe.content[name] for name in self._fields[made.name] if name in recipe.content}
            parts = [value for value in op["fields"].values() if isinstance(value, Recipe)]
            op["fields"] = {name: _named(value) for name, value in op["fields"].items()}
        else:
            parts = [part for side in recipe.content for part in side if isinstance(part, Recipe)]
            named = [[_named(part) for part in side] for side in recipe.content]
            if made.kind == "MAP":
                op["entries"] = named
            elif named and len(named[0]) == 2:
                op["elementsWithHashes"] = named
            else:
                op["elements"] = [side[0] for side in named]
        for part in parts:
            yield from self._add(part, added)
        self._emitted.add(recipe.id)
        yield op


def _named(value: Any) -> Any:
    return f"@{value.id}" if isinstance(value, Recipe) else value
