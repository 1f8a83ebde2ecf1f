"""A small catalogue that the tests of reading share."""

from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.read import ReadState
from tests.unit.state.packed_types import pack_type, state_of

STRING = ObjectSchema("String", (Field("value", FieldType.STRING),))
INTEGER = ObjectSchema("Integer", (Field("value", FieldType.INT),))
ACTOR = ObjectSchema("Actor", (Field("id", FieldType.LONG), Field("name", FieldType.REFERENCE, "String")))
CAST = ListSchema("ListOfActor", "Actor")
TAGS = SetSchema("SetOfString", "String")
SCORES = MapSchema("MapOfStringToInteger", "String", "Integer")
MOVIE = ObjectSchema(
    "Movie",
    (
        Field("id", FieldType.LONG),
        Field("year", FieldType.INT),
        Field("rating", FieldType.FLOAT),
        Field("weight", FieldType.DOUBLE),
        Field("seen", FieldType.BOOLEAN),
        Field("poster", FieldType.BYTES),
        Field("note", FieldType.STRING),
        Field("title", FieldType.REFERENCE, "String"),
        Field("cast", FieldType.REFERENCE, "ListOfActor"),
        Field("tags", FieldType.REFERENCE, "SetOfString"),
        Field("scores", FieldType.REFERENCE, "MapOfStringToInteger"),
        Field("ordinal", FieldType.INT),
        Field("studio", FieldType.REFERENCE, "Studio"),
    ),
    ("id",),
)

SOLARIS = (7, 1972, 8.5, 0.25, True, b"\x89PNG", "космос", 0, 1, 1, 1, 99, 3)
STALKER = (-3, None, None, None, None, None, None, None, None, None, None, None, None)
MIRROR = (1 << 60, 1975, float("nan"), -0.0, False, b"", "", 3, 0, 0, 0, -1, 0)
GHOST = (8, 1, 1.0, 1.0, True, b"old", "gone", 2, 1, 1, 1, 5, None)


def catalogue(shards: int = 1, extra: tuple[int, ...] = (0,)) -> ReadState:
    """Movies 0, 2 and 3; 1 is a hole, 4 a ghost. The type Studio, which movies refer to, is absent."""
    return state_of(
        pack_type(
            STRING, [("Solaris",), ("Banionis",), ("gone",), ("Зеркало 🎬",), (None,)], shards=shards, extra=extra
        ),
        pack_type(INTEGER, [(5,), (-6,)], shards=shards, extra=extra),
        pack_type(ACTOR, [(1, 1), (2, None)], shards=shards, extra=extra),
        pack_type(CAST, [(), (1, 0, 1)], shards=shards, extra=extra),
        pack_type(TAGS, [(None,), (3, None, 0, None)], shards=shards, extra=extra),
        pack_type(SCORES, [(None,), (None, (0, 1), None, (3, 0))], shards=shards, extra=extra),
        pack_type(MOVIE, [SOLARIS, None, STALKER, MIRROR, GHOST], shards=shards, ghosts=(4,), extra=extra),
    )
