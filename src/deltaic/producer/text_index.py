"""An index of its own for a chain without a table: a split beside every version (docs/formats/text-part.md).

The split holds the indexed columns of all records of a type and, in the column `_ordinal`, which record each row is. It
is made anew for every version; a dataset whose versions come often and whose texts are many is better kept in a table.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.consumer.searching import ORDINAL_COLUMN, text_name
from deltaic.errors import InputError, MissingExtraError, NotFoundError
from deltaic.producer.attachments import AttachedFile
from deltaic.producer.validators import Candidate
from deltaic.schema.model import Model
from deltaic.schema.types import ObjectSchema

if TYPE_CHECKING:
    from deltaic.table.split.mapping import ColumnIndex

KIND = "text"
_TYPE_NAME = re.compile(r"[A-Za-z0-9_]{1,200}")


class TextIndex:
    """Makes the index of some types for every version.

    Args:
        model: the model of the chain.
        types: for each type its columns, and how they are indexed.
    """

    def __init__(self, model: Model, types: "Mapping[str, Mapping[str, ColumnIndex]]") -> None:
        try:
            import pyarrow  # noqa: F401
            import tantivy  # noqa: F401
        except ImportError:
            raise MissingExtraError("a text index", "table") from None
        for name, columns in types.items():
            schema = model.schemas.get(name)
            if not isinstance(schema, ObjectSchema):
                raise NotFoundError(f"there is no OBJECT type {name!r} to index")
            if _TYPE_NAME.fullmatch(name) is None:
                raise InputError(f"type {name!r}: its name cannot be part of a file's name, so it has no text index")
            for column in columns:
                if schema.position(column) < 0:
                    raise NotFoundError(f"type {name} has no field {column!r} to index")
            if not columns:
                raise InputError(f"type {name}: no column to index")
        self._types = {name: dict(columns) for name, columns in types.items()}

    def files(self, candidate: Candidate, folder: Path) -> Iterator[AttachedFile]:
        """The split of every type."""
        from deltaic.table.split import ColumnIndex, DocMapping, write_split

        for name, columns in self._types.items():
            if name not in candidate.state.types:
                continue
            rows = self._rows(candidate, name, list(columns))
            options = {**columns, ORDINAL_COLUMN: ColumnIndex(kind="none")}
            file = text_name(candidate.version, name)
            write_split(rows, DocMapping.from_schema(rows.schema, options), folder / file)
            yield AttachedFile(KIND, file, folder / file)

    def _rows(self, candidate: Candidate, name: str, columns: list[str]) -> Any:
        import pyarrow as pa

        view = candidate.state[name]
        ordinals = candidate.state.types[name].populated.ordinals()
        rows = pa.table(view.to_arrow(fields=columns, ordinals=ordinals))
        return rows.append_column(ORDINAL_COLUMN, pa.array(ordinals, pa.int32()))
