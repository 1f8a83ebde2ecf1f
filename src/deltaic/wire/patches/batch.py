"""A batch of patches: groups that apply in order, in four forms: objects, JSON lines, Arrow, bytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import RegistryError
from deltaic.wire.patches.bounds import DEFAULT_PATCH_LIMITS, PatchLimits
from deltaic.wire.patches.group import PatchGroup
from deltaic.wire.patches.grouping import gather_groups
from deltaic.wire.patches.patch import Patch
from deltaic.wire.patches.places import field_text
from deltaic.wire.references import Reference

if TYPE_CHECKING:
    import pyarrow as pa

Refer = Callable[[str], Reference | None]
"""Gives the reference of a whole path (`Movie.cast[].name`), or None if the registry does not have it."""

Name = Callable[[Reference], str]
"""Gives the whole path of a reference and its parents, or raises RegistryError."""


@dataclass(frozen=True, slots=True, eq=False)
class PatchBatch:
    """Patches by group, in an order that has the effect of the order in which they were made."""

    groups: tuple[PatchGroup, ...] = ()
    sources: tuple[str, ...] = ()

    @classmethod
    def of(cls, patches: "Iterable[Patch] | PatchBatch") -> "PatchBatch":
        """The batch of some patches."""
        if isinstance(patches, PatchBatch):
            return patches
        return cls(*gather_groups(patches))

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def __iter__(self) -> Iterator[Patch]:
        for group in self.groups:
            yield from group.patches(self.sources)

    @property
    def has_references(self) -> bool:
        """True if a field is named by its number."""
        return any(isinstance(group.path, Reference) for group in self.groups)

    def resolved(self, name: Name) -> "PatchBatch":
        """The same batch with paths in place of references.

        Raises:
            RegistryError: a reference leads nowhere, or to a field of another type.
        """
        if not self.has_references:
            return self
        return replace(self, groups=tuple(_resolved(group, name) for group in self.groups))

    def to_bytes(self, refer: Refer | None = None, *, compress: bool = True) -> bytes:
        """One frame (docs/formats/patches.md).

        Args:
            refer: names fields by their numbers; without it, and where it gives None, paths are written.
            compress: pack the body with zstd if that makes it smaller.
        """
        from deltaic.wire.patches.frame_write import write_frame

        return write_frame(self, refer, compress=compress)

    @classmethod
    def from_bytes(
        cls, data: ReadableBuffer, *, limits: PatchLimits = DEFAULT_PATCH_LIMITS, name: str = "patches"
    ) -> "PatchBatch":
        """Read bytes that are one or more frames; those of several are one batch.

        Raises:
            DecodeError: the bytes are no frames of patches.
            RegistryError: a reference in them is none.
        """
        from deltaic.wire.patches.frame_read import read_frames

        return cls.joined(read_frames(data, limits=limits, name=name))

    @classmethod
    def joined(cls, batches: "Iterable[PatchBatch]") -> "PatchBatch":
        """One batch with the effect of several, one after another."""
        sources: dict[str, int] = {}
        groups: list[PatchGroup] = []
        for batch in batches:
            numbers = [0, *(sources.setdefault(source, len(sources) + 1) for source in batch.sources)]
            for group in batch.groups:
                if group.sources is not None and numbers != list(range(len(numbers))):
                    import numpy as np

                    group = replace(group, sources=np.array(numbers, np.int64)[group.sources])
                groups.append(group)
        return cls(tuple(groups), tuple(sources))

    def to_json_lines(self) -> Iterator[str]:
        """One JSON object for each patch, without the line end."""
        from deltaic.wire.patches.json_lines import patch_to_line

        return map(patch_to_line, self)

    @classmethod
    def from_json_lines(cls, lines: Iterable[str | bytes], *, name: str = "patches") -> "PatchBatch":
        """The batch of JSON lines.

        Raises:
            DecodeError: a line is no patch.
        """
        from deltaic.wire.patches.json_lines import read_lines

        return cls.of(read_lines(lines, name))

    def to_arrow(self) -> "pa.Table":
        """A row for each patch; keys and values are JSON texts. Needs the extra `arrow`."""
        from deltaic.wire.patches.arrow_rows import to_table

        return to_table(self)

    @classmethod
    def from_arrow(cls, data: Any, *, name: str = "patches") -> "PatchBatch":
        """The batch of rows as `to_arrow` has them; columns but `type` and `key` may be left out."""
        from deltaic.wire.patches.arrow_rows import from_table

        return cls.of(from_table(data, name))

    def merged(self, other: Self) -> "PatchBatch":
        """This batch and then another one."""
        return PatchBatch.joined((self, other))


def _resolved(group: PatchGroup, name: Name) -> PatchGroup:
    if not isinstance(group.path, Reference):
        return group
    whole = name(group.path)
    prefix = f"{field_text(group.type_name)}."
    if not whole.startswith(prefix):
        raise RegistryError(
            "UnknownField",
            f"{whole} is no field of type {group.type_name}",
            version=group.path.version,
            index=group.path.index,
        )
    return replace(group, path=whole.removeprefix(prefix))
