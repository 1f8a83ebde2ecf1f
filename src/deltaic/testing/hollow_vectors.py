"""Golden values of Hollow's building blocks: varints, zig-zag, hashes, table sizes, schema bytes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.kernels import hashing
from deltaic.schema.binary import read_schema, write_schema
from deltaic.schema.printing import print_schema
from deltaic.schema.text import parse_schemas

Json = Any
Check = tuple[str, Json, Json]


def check_vectors(vectors: Json) -> Iterator[Check]:
    """What each golden value should be and what it is here."""
    for value, expected in vectors["varInt"]:
        number = Cursor(bytes.fromhex(expected)).varint()
        yield f"varInt {expected}", value & 0xFFFF_FFFF, number
    for value, expected in vectors["varLong"]:
        number = Cursor(bytes.fromhex(expected)).varlong()
        yield f"varLong {expected}", value & 0xFFFF_FFFF_FFFF_FFFF, number
    for value, expected in vectors["hashInt"]:
        yield f"hashInt {value}", expected, int(hashing.hash_int_one(value))
    for value, expected in vectors["hashLong"]:
        yield f"hashLong {value}", expected, int(hashing.hash_long(np.array([value], np.int64))[0])
    for text, expected, _ in vectors["string_hash_and_javaHashCode"]:
        if text is not None:
            yield f"string hash of {text!r}", expected, int(hashing.string_hash_one(text))
    for data, expected in vectors["bytes_hash"]:
        yield f"hash of bytes {data}", expected, int(hashing.bytes_hash_one(bytes.fromhex(data)))
    for count, expected in vectors["hashTableSize"]:
        yield f"table size for {count}", expected, int(hashing.hash_table_size(count))
    for model in vectors["schemas"]:
        schemas = parse_schemas(model["text"])
        yield f"schema hash of {model['text']}", model["hash"], schemas.hash()
        for text, data in model["serialized"]:
            schema = read_schema(Cursor(bytes.fromhex(data)))
            yield f"schema of {data}", text, print_schema(schema)
            yield f"bytes of {text}", data, write_schema(schema).hex()
