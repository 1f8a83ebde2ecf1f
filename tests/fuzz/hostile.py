"""Blobs that chance would not find: small ones that ask for much, and ones that are wrong in a single place."""

from dataclasses import dataclass

from tests.fuzz.crafted import (
    HUGE_ORDINAL,
    bit_array,
    blob,
    list_schema,
    map_schema,
    object_schema,
    ordinals,
    section,
    set_schema,
    utf,
    varint,
    words,
)

UNIT = object_schema("Unit", [])
TEXT = object_schema("Text", [("number", "INT"), ("text", "STRING")])
LIST = list_schema("List", "Unit")
SET = set_schema("Set", "Unit")
MAP = map_schema("Map", "Unit", "Unit")
SELF = list_schema("Self", "Self")

# One record each: four units, (13, "abc"), [2, 1], {1}, {1: 0}.
TEXT_BODY = varint(5) + varint(3) + bit_array(0b011_11010) + b"\x00" + varint(3) + b"abc"
LIST_BODY = varint(2) + varint(2) + varint(2) + bit_array(2) + bit_array(0b0110)
SET_BODY = varint(3) + varint(2) + varint(3) + varint(2) + bit_array(0b01_010) + bit_array(0b111_001)
MAP_BODY = varint(3) + varint(2) + varint(3) + varint(1) + varint(2) + bit_array(0b01_010) + bit_array(0b0111_0001)
SNAPSHOT = blob(
    [UNIT, TEXT, LIST, SET, MAP],
    [
        section(UNIT, [varint(3) + bit_array()], populated=words(0b1111)),
        section(TEXT, [varint(0) + TEXT_BODY], populated=words(1)),
        section(LIST, [varint(0) + LIST_BODY], populated=words(1)),
        section(SET, [varint(0) + SET_BODY], populated=words(1)),
        section(MAP, [varint(0) + MAP_BODY], populated=words(1)),
    ],
)


@dataclass(frozen=True)
class Hostile:
    """One blob; a delta comes after `SNAPSHOT`."""

    name: str
    blob: bytes
    is_delta: bool = False


def all_hostile() -> list[Hostile]:
    """Every such blob, in a fixed order."""
    return [Hostile("the sound snapshot", SNAPSHOT), *_headers(), *_snapshots(), *_deltas()]


def _snapshot(name: str, schema: bytes, body: bytes, populated: bytes = b"") -> Hostile:
    return Hostile(name, blob([schema], [section(schema, [body], populated=populated)]))


def _delta(name: str, schema: bytes, *shards: bytes, max_ordinal: int | None = None) -> Hostile:
    whole = section(schema, list(shards), populated=None, max_ordinal=max_ordinal)
    return Hostile(name, blob([schema], [whole], origin=2, destination=3), True)


def _headers() -> list[Hostile]:
    start = (1030).to_bytes(4, "big") + bytes(16)
    many = [object_schema(f"Type{number}", []) for number in range(9_000)]
    wide = object_schema("Wide", [(f"field{number}", "INT") for number in range(32_767)])
    unit = section(UNIT, [varint(-1) + bit_array()], populated=b"")
    return [
        Hostile("more schemas than a file holds", start + varint(1) + varint(2**32 - 1)),
        Hostile("more bytes to skip than there are", start + varint(1) + varint(0) + varint(2**32 - 1)),
        Hostile("more tags than there are", start + varint(0) + b"\xff\xff"),
        Hostile("more sections than there are", start + varint(0) + b"\x00\x00" + varint(2**32 - 1)),
        Hostile("tags that repeat", start + varint(0) + b"\x00\x02" + (utf("a") + utf("b")) * 2 + varint(0)),
        Hostile("a type twice", blob([UNIT, UNIT], [unit, unit])),
        Hostile("a section twice", blob([UNIT], [unit, unit])),
        Hostile("a section that the header does not list", blob([TEXT], [unit])),
        Hostile(
            "thousands of empty types",
            blob(many, [section(schema, [varint(-1) + bit_array()], populated=b"") for schema in many]),
        ),
        _snapshot("as many fields as can be", wide, varint(-1) + bytes(32_767) + bit_array() + bytes(32_767)),
        _snapshot(
            "a field twice", object_schema("Twin", [("a", "INT")] * 2), varint(-1) + bytes(2) + bit_array() + bytes(2)
        ),
    ]


def _snapshots() -> list[Hostile]:
    last = varint(HUGE_ORDINAL)
    no_bits = varint(0) * 4 + bit_array() + bit_array()
    self_body = varint(0) + varint(10) + varint(1) + varint(20) + bit_array(20) + bit_array(0)
    return [
        _snapshot("two thousand million records of no bits", UNIT, last + bit_array(), words(1)),
        _snapshot("and numbers of no bits", TEXT, last + varint(0) + varint(2) + bit_array() + bytes(2)),
        _snapshot("texts of no bits", TEXT, last + varint(0) + varint(0) + bit_array() + bytes(2)),
        _snapshot("sets of no bits", SET, last + no_bits, words(7)),
        _snapshot(
            "sets of no bits with buckets", SET, last + varint(0) * 3 + varint(2**62) + bit_array() * 2, words(7)
        ),
        _snapshot("maps of no bits", MAP, last + varint(0) + no_bits, words(7)),
        _snapshot("lists of no bits", LIST, last + varint(0) + varint(1) + varint(0) + bit_array() * 2, words(7)),
        _snapshot("a list of elements of no bits", LIST, _list_of_nothing(2**57 - 1), words(1)),
        _snapshot("a list of as many as an int holds", LIST, _list_of_nothing(2**31 - 1), words(1)),
        _snapshot(
            "a set of buckets of no bits",
            SET,
            varint(0) + varint(40) + varint(24) + varint(0) + varint(2**30) + bit_array(2**30) + bit_array(),
            words(1),
        ),
        _snapshot(
            "more elements than words", LIST, varint(0) + varint(2) + varint(2) + varint(2**62) + bit_array(2) * 2
        ),
        _snapshot("more words than bytes", LIST, varint(0) + varint(2) + varint(2) + varint(2) + varint(2**31 - 1)),
        _snapshot(
            "more text than bytes", TEXT, varint(0) + varint(5) + varint(3) + bit_array(0) + b"\x00" + varint(2**63)
        ),
        _snapshot("populated past the last", UNIT, varint(3) + bit_array(), words(0, 0, 1)),
        _snapshot("a list that holds itself twenty times", SELF, self_body, words(1)),
        Hostile(
            "as many shards as the limits allow",
            blob([UNIT], [section(UNIT, [varint(-1) + bit_array()] * 65_536, populated=b"", max_ordinal=-1)]),
        ),
    ]


def _list_of_nothing(count: int) -> bytes:
    return varint(0) + varint(57) + varint(0) + varint(count) + bit_array(count) + bit_array()


def _deltas() -> list[Hostile]:
    last, none = varint(HUGE_ORDINAL), ordinals()
    top = ordinals(HUGE_ORDINAL)
    return [
        _delta("a sound delta", LIST, varint(1) + ordinals(0) + ordinals(1) + LIST_BODY),
        _delta("a type that only grows", UNIT, last + none + none + bit_array()),
        _delta("the last unit of all is added", UNIT, last + none + top + bit_array()),
        _delta("the last unit of all is removed", UNIT, last + top + none + bit_array()),
        _delta("the last text of all is added", TEXT, last + none + top + TEXT_BODY),
        _delta("the last list of all is added", LIST, last + none + top + LIST_BODY),
        _delta("the last set of all is added", SET, last + none + top + SET_BODY),
        _delta("the last map of all is added", MAP, last + none + top + MAP_BODY),
        _delta("a text far behind the others", TEXT, varint(20_000_000) + none + ordinals(20_000_000) + TEXT_BODY),
        _delta("an ordinal twice", UNIT, varint(9) + none + varint(2) + varint(3) + varint(0) + bit_array()),
        _delta("added and removed at once", LIST, varint(1) + ordinals(0, 1) + ordinals(0, 1)[:2] + LIST_BODY),
        _delta("an ordinal past the last", UNIT, varint(2) + ordinals(7) + ordinals(5) + bit_array()),
        _delta("a type that shrinks below its records", UNIT, varint(0) + none + none + bit_array()),
        _delta("ordinals that add up past all", UNIT, last + none + varint(10) + varint(2**31 - 1) * 2 + bit_array()),
        _delta("more bytes of ordinals than there are", UNIT, varint(1) + varint(2**63) + none),
        _delta(
            "more elements than there are",
            LIST,
            varint(1) + none + ordinals(1) + varint(2) * 2 + varint(2**62) + bit_array(2) * 2,
        ),
        _delta(
            "a wider text", TEXT, varint(1) + none + ordinals(1) + varint(32) + varint(57) + bit_array(3, 0) + bytes(2)
        ),
        _delta(
            "many shards for one set",
            SET,
            varint(0) + none + none + varint(3) + varint(2) + varint(3) + varint(2) + bit_array() * 2,
            *[varint(-1) + none + none + varint(3) + varint(2) + varint(3) + varint(2) + bit_array() * 2] * 65_535,
            max_ordinal=0,
        ),
        _delta(
            "another kind under the same name", list_schema("Text", "Unit"), varint(1) + none + ordinals(1) + LIST_BODY
        ),
    ]
