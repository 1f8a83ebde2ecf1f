"""One type of a state, for reading: by record, by column, as Arrow."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaic.binary.arrow import ArrowTable
from deltaic.errors import InputError, NotFoundError
from deltaic.kernels import access
from deltaic.schema.mapping import TYPES_TAG, read_types_tag
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.arrow import BATCH_ROWS, CIRCLE_DEPTH, refers_to_itself, to_arrow
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import (
    CollectionColumn,
    Column,
    FixedColumn,
    InvalidText,
    Rows,
    read_collections,
    read_column,
)
from deltaic.state.records import Record, records_of
from deltaic.state.type_data import TypeData
from deltaic.state.vector_column import StoredVectors
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard

if TYPE_CHECKING:
    from deltaic.state.read import ReadState


class TypeView(access.TypeAccess):
    """The records of one type of a state: `view[ordinal]`, `view.column(name)`, `view.to_arrow()`.

    Iteration and `len` are about the populated records; `view[ordinal]` also gives ghosts, removed by the last delta.
    A view holds the state's memory, not the state.
    """

    # `view[ordinal]` is the kernel's own: a record, populated or a ghost, or NotFoundError.
    __slots__ = ("_records", "_types_tag", "data")

    def __init__(self, state: "ReadState", data: TypeData) -> None:
        self.data = data
        self._records = records_of(state)
        self._types_tag = state.header_tags.get(TYPES_TAG, "")

    def _open(self) -> "tuple[access.StateAccess, int]":
        return self._records.reader, self._records.number(self.name)

    @property
    def _access(self) -> "tuple[access.StateAccess, int]":
        """What `view[ordinal]` reads from. To delete it is to let go of the memory until the next read."""
        return self._open()

    @_access.deleter
    def _access(self) -> None:
        self._close()

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.data.schema.name

    @property
    def schema(self) -> Schema:
        """The schema of the type."""
        return self.data.schema

    @property
    def populated(self) -> OrdinalSet:
        """The ordinals of the records of this version."""
        return self.data.populated

    @property
    def previous(self) -> OrdinalSet:
        """The ordinals that were populated before the last delta."""
        return self.data.previous

    @property
    def ghosts(self) -> OrdinalSet:
        """The ordinals that the last delta with this type removed: no longer populated, still readable."""
        return self.data.pending

    @property
    def max_ordinal(self) -> int:
        """The largest ordinal that can hold a record; -1 if none can."""
        return self.data.max_ordinal

    @property
    def holes(self) -> int:
        """How many ordinals up to the largest hold no populated record."""
        return self.data.holes

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the type takes, its vectors included."""
        return self.data.nbytes + sum(one.nbytes for one in self._records.vectors.get(self.name, {}).values())

    def bytes_per_field(self) -> dict[str, int]:
        """Bytes of memory for each field; for a collection for its `pointers` and its `elements` or `buckets`.

        Fields share bytes of a record, so a field counts its bits, rounded up over a shard. Vector columns are among
        the fields.
        """
        sizes: dict[str, int] = {}
        for shard in self.data.shards:
            slots = shard.max_ordinal + 1
            match shard:
                case ObjectShard():
                    assert isinstance(self.schema, ObjectSchema)
                    parts = {
                        field.name: ((width * slots + 7) >> 3) + (0 if data is None else data.nbytes)
                        for field, width, data in zip(self.schema.fields, shard.widths, shard.variable, strict=True)
                    }
                case ListShard():
                    parts = {"pointers": shard.pointers.nbytes, "elements": shard.elements.nbytes}
                case SetShard() | MapShard():
                    parts = {"pointers": shard.pointers.nbytes, "buckets": shard.buckets.nbytes}
            for name, size in parts.items():
                sizes[name] = sizes.get(name, 0) + size
        for name, column in self._records.vectors.get(self.name, {}).items():
            sizes[name] = sizes.get(name, 0) + column.nbytes
        return sizes

    def __len__(self) -> int:
        return len(self.data.populated)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, self.data.populated)

    def __contains__(self, wanted: object) -> bool:
        """True for a populated ordinal, and for a record equal to a populated one at its own ordinal."""
        if isinstance(wanted, Record):
            return wanted.ordinal in self.data.populated and self[wanted.ordinal] == wanted
        return wanted in self.data.populated

    def __repr__(self) -> str:
        return f"TypeView({self.name}, {self.schema.kind}, {len(self):,} records)"

    def column(self, name: str, ordinals: Any = None, *, null: float | bool | None = None) -> Column:
        """One field of the populated records, or of those at `ordinals`, as arrays.

        Args:
            name: the field. A reference gives ordinals.
            ordinals: integers in any order. Ordinals that hold no record give what the shard has there.
            null: a value to put in place of nulls, for fields that are no texts or bytes.
        """
        if not isinstance(self.schema, ObjectSchema):
            raise InputError(f"type {self.name} is a {self.schema.kind}: ask for members()")
        position = self.schema.position(name)
        if position < 0:
            names = ", ".join(field.name for field in self.schema.fields) or "none"
            raise NotFoundError(f"type {self.name} has no field {name!r}; fields: {names}")
        column = read_column(self._records, self.name, position, Rows.of(self.data, ordinals))
        if null is None:
            return column
        if not isinstance(column, FixedColumn):
            raise InputError(f"{self.name}.{name}: null= is for numbers, truth values and references")
        return column.filled(null)

    @property
    def vector_names(self) -> tuple[str, ...]:
        """The names of the vector columns of the type."""
        return tuple(self._records.vectors.get(self.name, ()))

    def vectors(self, name: str) -> StoredVectors:
        """One vector column of the type: by ordinal `[ordinal]`, in chunks without a copy `blocks()`."""
        found = self._records.vectors.get(self.name, {})
        if name not in found:
            names = ", ".join(found) or "none"
            raise NotFoundError(f"type {self.name} has no vector column {name!r} here; vector columns: {names}")
        return found[name]

    def members(self, ordinals: Any = None) -> CollectionColumn:
        """The member ordinals of the populated LIST, SET or MAP records, or of those at `ordinals`."""
        if not isinstance(self.schema, ListSchema | SetSchema | MapSchema):
            raise InputError(f"type {self.name} is an OBJECT: ask for column(name)")
        return read_collections(self._records, self.name, Rows.of(self.data, ordinals))

    def to_arrow(
        self,
        *,
        depth: int | None = None,
        fields: Sequence[str] | None = None,
        ordinals: Any = None,
        ordinal_column: str | None = None,
        batch_rows: int = BATCH_ROWS,
        on_invalid_text: InvalidText = "error",
        logical: bool = True,
    ) -> ArrowTable:
        """The populated records, or those at `ordinals`, as Arrow rows with references followed.

        Args:
            depth: how many references to follow; None follows all, and is an error for a type that refers to itself.
                A reference to a boxed type is always its value; one past the depth is an ordinal.
            fields: the fields and vector columns to give, in this order; None gives all.
            ordinals: integers in any order.
            ordinal_column: the name of a first column with the ordinals; None leaves it out.
            batch_rows: rows of a batch. Batches are made as they are asked for.
            on_invalid_text: `error`, or `replace` lone surrogates, which Arrow cannot hold.
            logical: give dates, decimals and the like as what they are, where the producer noted it; False gives the
                numbers and bytes that carry them.
        """
        return to_arrow(
            self._records,
            self.name,
            Rows.of(self.data, ordinals),
            depth=depth,
            fields=fields,
            ordinal_column=ordinal_column,
            batch_rows=batch_rows,
            on_invalid_text=on_invalid_text,
            notes=read_types_tag(self._types_tag) if logical else None,
        )

    def _whole(self) -> ArrowTable:
        return self.to_arrow(depth=CIRCLE_DEPTH if refers_to_itself(self._records, self.name) else None)

    def __arrow_c_schema__(self) -> object:
        return self._whole().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._whole().__arrow_c_stream__(requested_schema)
