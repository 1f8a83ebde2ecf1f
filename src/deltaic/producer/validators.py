"""Validators: what a version must be like before it is published.

A validator looks at the version that is staged and at the one before, and gives a result with details. A result that
did not pass, and a validator that raises, fail the cycle. Users write their own: anything with `name` and `validate`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from deltaic.errors import InputError
from deltaic.producer.keys import KeyNumbers, keyed_types, modified_records, shown_key
from deltaic.producer.references import references
from deltaic.schema.model import Model
from deltaic.state.columns import FixedColumn
from deltaic.state.read import ReadState

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """The version that asks to be published."""

    version: int
    state: ReadState
    previous: ReadState | None
    """The version before; None if this is the first."""
    model: Model


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a validator found."""

    validator: str
    passed: bool
    message: str
    details: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.validator}: {self.message}"


class Validator(Protocol):
    """Judges a version before it is published."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Judge a version. An error that is raised counts as a failure too."""
        ...


@dataclass(frozen=True, slots=True)
class DuplicateKeys:
    """No two records of a type have the same primary key."""

    type_name: str | None = None
    """None: every type that has a key."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "duplicate keys"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Count the keys."""
        details = {}
        for type_name in _types(self.type_name, candidate):
            ordinals = candidate.state.types[type_name].populated.ordinals()
            numbers = KeyNumbers(candidate.model, type_name).of_state(candidate.state, ordinals)
            _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
            for place in np.flatnonzero(counts > 1)[:_SHOWN].tolist():
                key = shown_key(candidate.state, type_name, int(ordinals[first[place]]))
                details[f"{type_name} {key}"] = f"{int(counts[place])} records"
        return _result(self.name, not details, "every key is there once", "keys are there more than once", details)


@dataclass(frozen=True, slots=True)
class RecordCountVariance:
    """The number of records of a type changes by no more than so many percent."""

    type_name: str
    percent: float

    def __post_init__(self) -> None:
        if not self.percent >= 0:
            raise InputError(f"a variance of {self.percent} percent cannot be kept")

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"record count variance of {self.type_name}"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Compare with the version before; the first version, and one after an empty one, pass."""
        now = len(candidate.state[self.type_name])
        if candidate.previous is None or self.type_name not in candidate.previous:
            return ValidationResult(self.name, True, "no version before to compare with", {"records": str(now)})
        before = len(candidate.previous[self.type_name])
        details = {"records": str(now), "before": str(before), "allowed percent": str(self.percent)}
        if before == 0:
            return ValidationResult(self.name, True, "the version before had no records", details)
        change = 100.0 * abs(now - before) / before
        message = f"{before:,} records became {now:,}, a change of {change:.2f} %, allowed are {self.percent} %"
        return ValidationResult(self.name, change <= self.percent, message, details)


@dataclass(frozen=True, slots=True)
class MinimumRecordCount:
    """A type has at least so many records."""

    type_name: str
    minimum: int

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"minimum record count of {self.type_name}"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Count the records."""
        now = len(candidate.state[self.type_name])
        message = f"{now:,} records, at least {self.minimum:,} are wanted"
        return ValidationResult(self.name, now >= self.minimum, message, {"records": str(now)})


@dataclass(frozen=True, slots=True)
class NullKeys:
    """No field of a primary key is null."""

    type_name: str | None = None
    """None: every type that has a key."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "null keys"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Follow every path of the keys."""
        details = {}
        for type_name in _types(self.type_name, candidate):
            for path in KeyNumbers(candidate.model, type_name).paths:
                owners = ordinals = candidate.state.types[type_name].populated.ordinals()
                for step in path.steps:
                    column = candidate.state[step.type_name].column(step.name, ordinals)
                    if column.valid is not None and not column.valid.all():
                        place = int(np.flatnonzero(~column.valid)[0])
                        count = column.null_count
                        details[f"{type_name}.{path}"] = f"{count} nulls, the first in record {int(owners[place])}"
                        break
                    if step.leads_to is not None and isinstance(column, FixedColumn):
                        ordinals = column.values.astype(np.int64)
        return _result(self.name, not details, "no key is null", "keys are null", details)


@dataclass(frozen=True, slots=True)
class ObjectModification:
    """A function of yours accepts every record that was modified: same key, other content."""

    type_name: str
    check: Callable[[Any, Any], bool | str | None]
    """Given the old and the new record; False, or a text that says why, refuses the version."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"modification of {self.type_name}"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Call the function for each modified record."""
        before, after = candidate.previous, candidate.state
        if before is None or self.type_name not in before:
            return ValidationResult(self.name, True, "no version before to compare with")
        old_set, new_set = before.types[self.type_name].populated, after.types[self.type_name].populated
        removed, added = old_set.difference(new_set).ordinals(), new_set.difference(old_set).ordinals()
        old, new = modified_records(candidate.model, self.type_name, before, removed, after, added)
        details: dict[str, str] = {}
        refused = 0
        for old_ordinal, new_ordinal in zip(old.tolist(), new.tolist(), strict=True):
            answer = self.check(before[self.type_name][old_ordinal], after[self.type_name][new_ordinal])
            if answer is False or isinstance(answer, str):
                refused += 1
                if len(details) < _SHOWN:
                    key = shown_key(after, self.type_name, new_ordinal)
                    details[f"{self.type_name} {key}"] = answer or "refused"
        message = f"{refused:,} of {len(old):,} modified records are refused"
        return ValidationResult(self.name, not refused, message, details)


@dataclass(frozen=True, slots=True)
class ReferentialIntegrity:
    """Every reference leads to a record that is there."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "referential integrity"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Follow every reference of every type."""
        state = candidate.state
        details = {}
        for name, data in state.types.items():
            for target, found in references(state, name, data.populated.ordinals()):
                if not len(found):
                    continue
                there = state.types[target].populated.flags(max(int(found.max()) + 1, 1))
                missing = found[~there[found]]
                if len(missing):
                    details[f"{name} → {target}"] = (
                        f"{len(missing)} lead nowhere, the first to record {int(missing[0])}"
                    )
        return _result(self.name, not details, "every reference leads to a record", "references lead nowhere", details)


def _types(type_name: str | None, candidate: Candidate) -> tuple[str, ...]:
    wanted = keyed_types(candidate.model.schemas) if type_name is None else (type_name,)
    return tuple(name for name in wanted if name in candidate.state)


def _result(name: str, passed: bool, good: str, bad: str, details: Mapping[str, str]) -> ValidationResult:
    shown = "; ".join(f"{key}: {value}" for key, value in details.items())
    return ValidationResult(name, passed, good if passed else f"{bad}: {shown}", details)
