"""Every size bound that a decoder obeys, with its default.

Limits protect against bytes that ask for more than they hold. They are checked before memory is taken.
"""

from dataclasses import dataclass

MAX_ORDINAL = 2**31 - 1
"""The highest ordinal of a type whose records are spread over four maps (hollow-blob.md, "limits")."""

MAX_COLLECTION_ELEMENTS = 751_619_276
"""The largest set or map whose hash table Hollow can size."""

MAX_NAME_BYTES = 65_535
"""Modified UTF-8 bytes of a name or a header tag."""

MAX_FIELDS = 32_767
"""Fields of an object, and header tags of a blob: a signed 16-bit count in Java."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decoder accepts. Pass one to a reader to be stricter or laxer than the defaults."""

    max_blob_bytes: int = 1 << 40
    max_types: int = 10_000
    max_shards: int = 1 << 16
    max_schema_bytes: int = 16 << 20
    max_hole_bytes: int = 32 << 20
    """Memory that a delta may ask for ordinals without a record, beyond eight times the data that are there."""
    max_append_bytes: int = 4 << 30
    """An appended section, without compression."""
    max_state_bytes: int | None = None
    """Memory that one state may take; None is without limit. A refresh holds the old state and what changes of the new
    one, so that its peak is at most twice this. Refused before the memory is taken."""


DEFAULT_LIMITS = Limits()
