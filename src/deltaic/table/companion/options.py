"""How a companion is written."""

from dataclasses import dataclass

from deltaic.errors import InputError


@dataclass(frozen=True, slots=True)
class CompanionOptions:
    """How source files become splits."""

    split_bytes: int = 256 << 20
    """Source files share a split up to so many bytes, as Parquet says their unpacked size; larger ones are cut."""
    split_rows: int = 2_000_000
    """So many rows at most become one split, unless a row group alone has more."""
    threads: int = 2
    """Splits that are written, and source files that are looked at, at the same time."""

    def __post_init__(self) -> None:
        for name in ("split_bytes", "split_rows", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is at least 1")
