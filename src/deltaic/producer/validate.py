"""Validate: every validator judges the staged version; one that refuses or raises fails the cycle."""

from collections.abc import Iterable

from deltaic.errors import ValidationError
from deltaic.producer.validators import Candidate, ValidationResult, Validator


def validate(candidate: Candidate, validators: Iterable[Validator]) -> tuple[ValidationResult, ...]:
    """Run all validators, so that one report names everything that is wrong.

    Raises:
        ValidationError: with a line per validator that refused or failed.
    """
    results: list[ValidationResult] = []
    cause: BaseException | None = None
    for validator in validators:
        name = getattr(validator, "name", type(validator).__name__)
        try:
            given: object = validator.validate(candidate)
            if isinstance(given, ValidationResult):
                result = given
            else:
                result = ValidationResult(name, False, f"gave {given!r} where a ValidationResult should be")
        except Exception as error:
            cause = cause or error
            result = ValidationResult(name, False, f"raised {type(error).__name__}: {error}")
        results.append(result)
    refused = [result for result in results if not result.passed]
    if refused:
        lines = "\n".join(f"  {result}" for result in refused)
        raise ValidationError(f"version {candidate.version} is refused:\n{lines}") from cause
    return tuple(results)
