"""A fitted query as a query of the engine, as far as the index answers it exactly.

What the index cannot tell exactly (ranges of strings, paths of JSON, columns without a field, very long values) is None
here and answered from rows. Filters get a score of 0, so that scores come from text alone.
"""

import decimal
import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltaic.table.query.bound import (
    Always,
    Between,
    Bound,
    BoundLeaf,
    Equal,
    Group,
    InText,
    Near,
    Never,
    Pattern,
    Present,
    Spaced,
    Weighted,
    scores,
)
from deltaic.table.query.columns import Target
from deltaic.table.query.limits import QueryLimits
from deltaic.table.query.resolve import WHOLE_KINDS
from deltaic.table.query.syntax_error import QuerySyntaxError
from deltaic.table.query.tree import Gap, Occur
from deltaic.table.search.joined import JoinedIndex
from deltaic.table.search.patterns import glob, pattern_regex
from deltaic.table.split.documents import index_value
from deltaic.table.split.engine import engine, guarded
from deltaic.table.split.mapping import MAX_TERM_BYTES, PRESENT_FIELD, SPLIT_FIELD, IndexedColumn, exact_term

# The engine takes strings in JSON that look like times for times.
_LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_RANGE_TYPES = {"i64": "Integer", "u64": "Unsigned", "f64": "Float", "ip": "IpAddr"}


@dataclass(frozen=True)
class Lowering:
    """What lowering a query needs to know."""

    joined: JoinedIndex
    limits: QueryLimits
    partition_splits: Callable[[BoundLeaf], tuple[str, ...] | None]
    """The ids of the splits whose partition matches a clause; None if all do."""
    longest: Callable[[Target], int]
    """The most bytes that a value of a string column has."""

    def query(self, part: Bound) -> Any | None:
        """The engine's query for a part; None if rows must be asked."""
        if isinstance(part, Weighted):
            inner = self.query(part.part)
            if inner is None:
                return None
            made = engine().Query
            if scores(part.part):
                return made.boost_query(inner, part.factor)
            return made.const_score_query(inner, part.factor)
        if isinstance(part, Group):
            return self._group(part)
        return self._leaf(part)

    def _group(self, group: Group) -> Any | None:
        made, occurs = engine().Query, _occurs()
        clauses = []
        for occur, part in group.clauses:
            query = self.query(part)
            if query is None:
                return None
            clauses.append((occurs[occur], query))
        if all(occur is Occur.MUST_NOT for occur, _ in group.clauses):
            # Only exclusions match nothing to the engine, and everything else to us.
            clauses.append((occurs[Occur.MUST], made.const_score_query(made.all_query(), 0.0)))
        return made.boolean_query(clauses)

    def _leaf(self, leaf: BoundLeaf) -> Any | None:
        made = engine().Query
        if isinstance(leaf, Never):
            return made.empty_query()
        if isinstance(leaf, Always):
            return made.const_score_query(made.all_query(), 0.0)
        column = leaf.target.column
        with guarded("ask the index", f"column {column.name}"):
            if column.partition:
                return self._partition(leaf)
            if column.index is None:
                return None
            found = self._indexed(leaf, leaf.target, column.index)
        if found is None or scores(leaf):
            return found
        return made.const_score_query(found, 0.0)

    def _partition(self, leaf: BoundLeaf) -> Any:
        made, ids = engine().Query, self.partition_splits(leaf)
        if ids is None:
            return made.const_score_query(made.all_query(), 0.0)
        if not ids:
            return made.empty_query()
        return made.const_score_query(made.term_set_query(self.joined.schema, SPLIT_FIELD, list(ids)), 0.0)

    def _indexed(self, leaf: BoundLeaf, target: Target, index: IndexedColumn) -> Any | None:
        made, schema = engine().Query, self.joined.schema
        if target.path:
            return self._in_json(leaf, target, index)
        if isinstance(leaf, Present):
            if index.presence == "fast":
                return made.exists_query(index.field)
            return made.term_query(schema, PRESENT_FIELD, index.name, "basic")
        if isinstance(leaf, InText | Spaced):
            return self._text(leaf, index.field)
        if isinstance(leaf, Equal):
            return self._equal(leaf, target, index)
        if isinstance(leaf, Between):
            return self._between(leaf, target, index)
        if index.kind not in ("text", "string") or not index.indexed:
            return None
        if index.kind != target.kind:
            # Whole values are asked for, and the index has words.
            return None
        if index.kind == "string" and self.longest(target) > MAX_TERM_BYTES:
            return None
        if isinstance(leaf, Near):
            return made.fuzzy_term_query(schema, index.field, leaf.text, leaf.distance, True, False)
        assert isinstance(leaf, Pattern)
        return self._pattern(leaf, index)

    def _text(self, leaf: InText | Spaced, field: str) -> Any:
        made, schema = engine().Query, self.joined.schema
        if isinstance(leaf, Spaced):
            return made.disjunction_max_query([self._text(one, field) for one in leaf.spacings], 0.0)
        if len(leaf.tokens) == 1:
            return made.term_query(schema, field, leaf.tokens[0][1], "freq")
        return made.phrase_query(schema, field, list(leaf.tokens), 0)

    def _equal(self, leaf: Equal, target: Target, index: IndexedColumn) -> Any | None:
        if index.kind == "text":
            return None
        values = [_index_value(index, target, value) for value in leaf.values]
        made, schema = engine().Query, self.joined.schema
        if index.indexed:
            if len(values) == 1:
                return made.term_query(schema, index.field, values[0], "basic")
            return made.term_set_query(schema, index.field, values)
        if index.field_type not in _RANGE_TYPES or len(values) > 100:
            return None
        kind = getattr(engine().FieldType, _RANGE_TYPES[index.field_type])
        parts = [made.range_query(schema, index.field, kind, value, value) for value in values]
        return parts[0] if len(parts) == 1 else made.boolean_query([(_occurs()[Occur.SHOULD], one) for one in parts])

    def _between(self, leaf: Between, target: Target, index: IndexedColumn) -> Any | None:
        if index.field_type not in _RANGE_TYPES:
            return None
        low, high = leaf.low, leaf.high
        if index.kind == "float":
            # NaN sorts above infinity in the index, and is above nothing to us.
            low, high = -math.inf if low is None else low, math.inf if high is None else high
        low, high = (None if one is None else _index_value(index, target, one) for one in (low, high))
        kind = getattr(engine().FieldType, _RANGE_TYPES[index.field_type])
        return engine().Query.range_query(
            self.joined.schema,
            index.field,
            kind,
            low,
            high,
            leaf.include_low or leaf.low is None,
            leaf.include_high or leaf.high is None,
        )

    def _pattern(self, leaf: Pattern, index: IndexedColumn) -> Any | None:
        made, schema = engine().Query, self.joined.schema
        try:
            return made.regex_query(schema, index.field, pattern_regex(leaf.pieces))
        except ValueError as error:
            if index.kind == "string":
                return None
            terms = self._terms_like(leaf, index)
            if terms is None:
                shown = "".join(piece.value if isinstance(piece, Gap) else piece for piece in leaf.pieces)
                reason = f"the pattern {shown[:60]!r} is too complex for the many words of column {index.name!r}"
                raise QuerySyntaxError(reason, code="PatternTooComplex") from error
            return made.term_set_query(schema, index.field, terms)

    def _terms_like(self, leaf: Pattern, index: IndexedColumn) -> list[str] | None:
        """The words of the dictionary that have the form of a pattern; None if it is too large to look through."""
        prefix = leaf.pieces[0] if isinstance(leaf.pieces[0], str) else ""
        most = self.limits.max_expanded_terms
        terms = self.joined.searcher.terms_with_prefix(index.field, prefix, limit=most + 1)
        if len(terms) > most:
            return None
        formed = glob(leaf.pieces)
        return [term for term, _ in terms if formed(term)]

    def _in_json(self, leaf: BoundLeaf, target: Target, index: IndexedColumn) -> Any | None:
        """Terms at a path, where what the index has of a value is plain."""
        if not index.indexed or not all(target.path):
            return None
        made, schema = engine().Query, self.joined.schema
        field = ".".join((index.field, *(step.replace("\\", "\\\\").replace(".", "\\.") for step in target.path)))
        if isinstance(leaf, InText | Spaced):
            if any(_LIKE_A_TIME.match(token) for _, token in _tokens(leaf)):
                return None
            return self._text(leaf, field)
        if not isinstance(leaf, Equal) or target.kind not in ("string", "boolean", "integer", "json"):
            return None
        terms = []
        for value in leaf.values:
            if isinstance(value, str):
                if index.tokenizer != "raw" or _LIKE_A_TIME.match(value):
                    return None
                value = exact_term(value)
            elif isinstance(value, float) or not -(2**63) <= value < 2**63:
                return None
            terms.append(made.term_query(schema, field, value, "basic"))
        return terms[0] if len(terms) == 1 else made.boolean_query([(_occurs()[Occur.SHOULD], one) for one in terms])


def _tokens(leaf: InText | Spaced) -> tuple[tuple[int, str], ...]:
    return leaf.tokens if isinstance(leaf, InText) else leaf.spacings[0].tokens


def _index_value(index: IndexedColumn, target: Target, value: Any) -> Any:
    """A value in the form that the field has."""
    if index.kind == "ip":
        address = ipaddress.IPv6Address(value)
        return str(address.ipv4_mapped or address)
    if index.kind == "decimal":
        with decimal.localcontext(prec=100):
            return index_value(index, decimal.Decimal(value).scaleb(-target.type.scale))
    if target.kind in WHOLE_KINDS:
        return value
    return index_value(index, value)


def _occurs() -> dict[Occur, Any]:
    kinds = engine().Occur
    return {Occur.MUST: kinds.Must, Occur.SHOULD: kinds.Should, Occur.MUST_NOT: kinds.MustNot}
