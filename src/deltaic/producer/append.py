"""What a producer tells of the new fields that its deltas carry (docs/schema-append.md)."""

from dataclasses import dataclass

from deltaic.state.append_write import CollectedAppend, SchemaAppend

__all__ = ["Appended", "SchemaAppend"]


@dataclass(frozen=True, slots=True)
class Appended:
    """What the delta of a version appended for records that did not change."""

    size_bytes: int
    """Bytes of the section in the delta; of one that was too large, what it would have taken."""
    plain_bytes: int
    """The same without compression."""
    fields: int
    """Fields with values."""
    values: int
    """Values of all fields."""
    seconds: float
    """Time that collecting took."""
    omitted: bool = False
    """True if the section was larger than allowed and is not in the delta."""

    @classmethod
    def of(cls, collected: CollectedAppend | None) -> "Appended | None":
        """The report of what was collected; None if there was nothing to append."""
        if collected is None or (collected.section is None and not collected.too_large):
            return None
        return cls(
            collected.size_bytes,
            collected.plain_bytes,
            collected.fields,
            collected.values,
            collected.seconds,
            collected.too_large,
        )
