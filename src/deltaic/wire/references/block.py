"""Many references of one version as columns (field-registry.md, 2 "Reference block").

A block is read by kernels: nothing is made for a reference until it is asked for. A block is always backed by its
bytes and always sound, whether it was read or made from columns; what damaged bytes are refused for is what
`decode_prefix` says about the first damaged reference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import RegistryError
from deltaic.kernels import references as kernel
from deltaic.wire.references.columns import ParameterColumn, lay_out
from deltaic.wire.references.encoding import decode_body, decode_version, encode_body, encode_version
from deltaic.wire.references.numbers import LARGEST, Bytes, decode_number, encode_number, number_size
from deltaic.wire.references.parameters import decode_value
from deltaic.wire.references.reference import MOST_PARAMETERS, ParameterType, Reference


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceBlock:
    """References of one version, in columns."""

    version: int
    body: NDArray[np.uint8]
    """The bytes of the references, one after the other."""
    indexes: NDArray[np.uint32]
    """The field of each reference."""
    offsets: NDArray[np.int64]
    """Where the parameters of each reference begin in the columns of parameters, and the last ones end."""
    types: NDArray[np.uint8]
    """The type of each parameter."""
    starts: NDArray[np.int64]
    """Where the value of each parameter begins in the body."""
    ends: NDArray[np.int64]
    """Where the value of each parameter ends in the body."""
    bounds: NDArray[np.int64]
    """Where each reference begins in the body, and the last one ends."""

    @classmethod
    def of(cls, version: int, references: Sequence[Reference]) -> Self:
        """A block of references that are all of one version."""
        for place, reference in enumerate(references):
            if reference.version != version:
                reason = f"reference {place} is of version {reference.version}, the block of {version}"
                raise RegistryError("InvalidParam", reason, version=reference.version, index=reference.index)
        _check_count(version, len(references))
        body = b"".join(encode_body(reference.index, reference.parameters) for reference in references)
        return cls._read(version, len(references), np.frombuffer(body, np.uint8), 0)[0]

    @classmethod
    def of_columns(cls, version: int, indexes: Sequence[int] | NDArray[np.integer], *columns: ParameterColumn) -> Self:
        """A block from columns: every reference has one parameter of each column given, in that order."""
        given = np.asarray(indexes, np.int64)
        _check_count(version, len(given))
        if len(columns) > MOST_PARAMETERS:
            raise RegistryError("TooManyParams", f"{len(columns)} parameters; {MOST_PARAMETERS} is the most")
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) <= LARGEST:
            raise RegistryError("VarintOverflow", f"a field is no number from 0 to {LARGEST:,}", version=version)
        fields = given.astype(np.uint32)
        data, starts, ends = lay_out(len(given), columns)
        types = np.tile(np.array([column.code for column in columns], np.uint8), len(given))
        offsets = np.arange(len(given) + 1, dtype=np.int64) * len(columns)
        body = np.empty(_sizes(fields).sum() + len(given) + _parameter_bytes(ends - starts), np.uint8)
        kernel.write_references(fields, offsets, types, starts, ends, data, body)
        # Reading it again holds what the caller gave against the rules of the parameters.
        return cls._read(version, len(given), body, 0)[0]

    @classmethod
    def decode_exact(cls, data: Bytes) -> Self:
        """Read a block that fills the bytes."""
        block, end = cls.decode_prefix(data)
        if end != len(data):
            raise RegistryError("TrailingData", f"{len(data) - end} bytes behind the block", end, block.version)
        return block

    @classmethod
    def decode_prefix(cls, data: Bytes, offset: int = 0) -> tuple[Self, int]:
        """Read a block from an offset; give it and the offset behind it."""
        version, position = decode_version(data, offset)
        try:
            count, position = decode_number(data, position)
        except RegistryError as error:
            raise RegistryError(error.code, error.reason, error.offset, version) from error
        return cls._read(version, count, np.frombuffer(data, np.uint8), position)

    @classmethod
    def _read(cls, version: int, count: int, data: NDArray[np.uint8], start: int) -> tuple[Self, int]:
        # Nothing is taken for a count before so many references were found.
        done, end, parameters = kernel.scan_references(data, start, count)
        if done < count:
            decode_body(data.data, end, version)
            raise RegistryError("Truncated", f"{count} references are said and {done} are there", end, version)
        indexes = np.empty(count, np.uint32)
        offsets, bounds = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
        types = np.empty(parameters, np.uint8)
        starts, ends = np.empty(parameters, np.int64), np.empty(parameters, np.int64)
        body = data[start:end]
        kernel.fill_references(body, 0, indexes, offsets, types, starts, ends, bounds)
        columns = (body, indexes, offsets, types, starts, ends, bounds)
        for column in columns:
            column.flags.writeable = False
        return cls(version, *columns), end

    def to_bytes(self) -> bytes:
        """The bytes of the block."""
        return encode_version(self.version) + encode_number(len(self)) + self.body.tobytes()

    @property
    def size_bytes(self) -> int:
        """How many bytes the block takes."""
        return len(encode_version(self.version)) + number_size(len(self)) + len(self.body)

    def __len__(self) -> int:
        return len(self.indexes)

    def __getitem__(self, row: int) -> Reference:
        """One reference."""
        row = range(len(self))[row]
        first, last = int(self.offsets[row]), int(self.offsets[row + 1])
        if first == last:
            return Reference(self.version, int(self.indexes[row]))
        data = self.body.data
        parameters = tuple(
            decode_value(int(self.types[at]), data, int(self.starts[at]), int(self.ends[at]))
            for at in range(first, last)
        )
        return Reference(self.version, int(self.indexes[row]), parameters)

    def __iter__(self) -> Iterator[Reference]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReferenceBlock):
            return NotImplemented
        # One reference has one spelling, so equal bytes are equal references and the other way round.
        return (self.version, len(self)) == (other.version, len(other)) and np.array_equal(self.body, other.body)

    def __hash__(self) -> int:
        return hash((self.version, self.body.tobytes()))

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many parameters each reference has."""
        return np.diff(self.offsets)

    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each parameter the number of a parent or an index, or the two of a range; -1 where there is none."""
        return kernel.parameter_numbers(self.body, self.types, self.starts)

    def uses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fields that are named, as fields and as parents, and how often (field-registry.md, 7 "Counting")."""
        parents = self.numbers()[0][self.types == ParameterType.PARENT]
        return np.unique(np.concatenate([self.indexes.astype(np.int64), parents]), return_counts=True)

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first row of each distinct reference, and for each row the number of its distinct reference."""
        numbers: dict[bytes | int, int] = {}
        firsts: list[int] = []
        groups = np.empty(len(self), np.int64)
        bare = self.counts == 0
        found, first, inverse = np.unique(self.indexes[bare], return_index=True, return_inverse=True)
        groups[bare] = inverse
        firsts.extend(np.flatnonzero(bare)[first].tolist())
        with_parameters = np.flatnonzero(~bare)
        text = self.body.tobytes()
        lows, highs = self.bounds[with_parameters].tolist(), self.bounds[with_parameters + 1].tolist()
        for row, low, high in zip(with_parameters.tolist(), lows, highs, strict=True):
            number = numbers.setdefault(text[low:high], len(found) + len(numbers))
            if number == len(firsts):
                firsts.append(row)
            groups[row] = number
        return np.array(firsts, np.int64), groups


def _check_count(version: int, count: int) -> None:
    encode_version(version)
    if count > LARGEST:
        raise RegistryError(
            "VarintOverflow", f"{count:,} references in a block; {LARGEST:,} is the most", None, version
        )


def _sizes(values: NDArray[np.integer]) -> NDArray[np.int64]:
    return 1 + (values >= 128).astype(np.int64) + (values >= 16_384)


def _parameter_bytes(lengths: NDArray[np.int64]) -> int:
    return len(lengths) + int(_sizes(lengths).sum()) + int(lengths.sum())
