"""Field references: a field of a record, with run-time parameters, in a few bytes (field-registry.md, 1 to 5)."""

from deltaic.wire.references.address import Address
from deltaic.wire.references.block import ReferenceBlock
from deltaic.wire.references.columns import ParameterColumn, decode_numbers, encode_numbers
from deltaic.wire.references.encoding import decode_exact, decode_prefix, encode
from deltaic.wire.references.numbers import LARGEST, decode_number, encode_number, number_size
from deltaic.wire.references.reference import (
    Index,
    Indices,
    MapKey,
    Parameter,
    ParameterType,
    Parent,
    Range,
    Ranges,
    Reference,
    Selector,
    Unknown,
)
from deltaic.wire.references.resolving import name_field, resolve, translate
from deltaic.wire.references.steps import All, Key, Step
from deltaic.wire.references.values import MISSING, delete, get, key_text, put
from deltaic.wire.references.values import put as set

__all__ = [
    "LARGEST",
    "MISSING",
    "Address",
    "All",
    "Index",
    "Indices",
    "Key",
    "MapKey",
    "Parameter",
    "ParameterColumn",
    "ParameterType",
    "Parent",
    "Range",
    "Ranges",
    "Reference",
    "ReferenceBlock",
    "Selector",
    "Step",
    "Unknown",
    "decode_exact",
    "decode_number",
    "decode_numbers",
    "decode_prefix",
    "delete",
    "encode",
    "encode_number",
    "encode_numbers",
    "get",
    "key_text",
    "name_field",
    "number_size",
    "put",
    "resolve",
    "set",
    "translate",
]
