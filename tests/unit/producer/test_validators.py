"""Each validator trips, passes, and says why."""

from typing import Any

import numpy as np
import pytest

from deltaic.errors import InputError, ValidationError
from deltaic.producer import (
    Candidate,
    DuplicateKeys,
    MinimumRecordCount,
    NullKeys,
    ObjectModification,
    Producer,
    RecordCountVariance,
    ReferentialIntegrity,
    ValidationResult,
    Validator,
    count_up,
)
from deltaic.schema.model import Model
from deltaic.storage.urls import open_store
from tests.unit.producer.catalogue import content_of, movie, movies, producer_of, read

BEFORE = movies(1, 2, 3, 4)


def outcome(validator: Validator, before: Any, after: Any, **options: Any) -> str | None:
    """What the report says of a version after another one; None if it passed."""
    store = open_store("memory:")
    producer = producer_of(store, **options)
    producer.publish(before, type_name="Movie")
    seen = read(store)
    producer.validators = (validator,)
    try:
        cycle = producer.publish(after, type_name="Movie")
    except ValidationError as error:
        assert read(store) == seen, "a refused version was seen"
        return str(error)
    assert [result.passed for result in cycle.validations] == [True]
    return None


@pytest.mark.parametrize(
    ("validator", "good", "bad", "message"),
    [
        (DuplicateKeys(), movies(1, 2), [movie(1), movie(1, "twin")], "Movie 1: 2 records"),
        (DuplicateKeys("Movie"), movies(1, 2), [movie(1), movie(1, "twin"), movie(1, "third")], "Movie 1: 3 records"),
        (RecordCountVariance("Movie", 25), movies(1, 2, 3), movies(1, 2), "4 records became 2, a change of 50.00 %"),
        (RecordCountVariance("Movie", 0), [movie(9), *BEFORE[1:]], movies(1, 2, 3, 4, 5), "4 records became 5"),
        (MinimumRecordCount("Movie", 2), movies(1, 2), movies(1), "1 records, at least 2 are wanted"),
        (MinimumRecordCount("Actor", 2), movies(1, 2), [movie(1, actors=())], "0 records, at least 2 are wanted"),
        (
            ObjectModification("Movie", lambda old, new: old.title == new.title),
            [*BEFORE[:3], movie(4, actors=(7,)), movie(5, "new ones are not asked about")],
            [*BEFORE[:3], movie(4, "renamed")],
            "1 of 1 modified records are refused",
        ),
    ],
)
def test_a_validator_lets_the_good_pass_and_names_the_bad(
    validator: Validator, good: Any, bad: Any, message: str
) -> None:
    assert outcome(validator, BEFORE, good) is None
    refused = outcome(validator, BEFORE, bad)
    assert refused is not None and message in refused and validator.name in refused


def test_null_keys_are_found_at_every_level() -> None:
    model = Model.parse(
        "String { string value; } Studio { String name; }"
        "Movie @PrimaryKey(id, studio.name) { string id; Studio studio; int year; }"
    )
    whole = {"id": "a", "studio": {"name": "x"}, "year": 1}

    def refused(row: dict[str, Any]) -> str | None:
        producer = Producer(open_store("memory:"), model, versions=count_up, validators=[NullKeys()])
        try:
            producer.publish([whole, row])
        except ValidationError as error:
            return str(error)
        return None

    assert refused({**whole, "year": None}) is None
    assert "Movie.id: 1 nulls, the first in record 1" in str(refused({**whole, "id": None}))
    assert "Movie.studio.name.value" in str(refused({**whole, "studio": None}))
    assert "Movie.studio.name.value" in str(refused({**whole, "studio": {"name": None}}))


def test_a_reference_that_leads_nowhere_is_found() -> None:
    store = open_store("memory:")
    producer = producer_of(store, validators=[ReferentialIntegrity()])
    producer.publish(BEFORE)

    def populate(cycle: Any) -> None:
        cycle.write_state.keep_all_from_previous()
        cycle.write_state.remove("Actor", np.array([0]))

    with pytest.raises(ValidationError, match=r"ListOfActor → Actor: 3 lead nowhere, the first to record 0"):
        producer.cycle(populate)
    assert read(store) == (1, content_of(BEFORE))


def test_all_validators_are_heard_before_a_version_is_refused() -> None:
    class Odd:
        name = "odd"

        def validate(self, candidate: Candidate) -> Any:
            return True

    producer = producer_of(open_store("memory:"), validators=[MinimumRecordCount("Movie", 9), Odd(), DuplicateKeys()])
    with pytest.raises(ValidationError) as error:
        producer.publish([movie(1), movie(1, "x")])
    text = str(error.value)
    assert "minimum record count of Movie" in text and "odd: gave True" in text and "duplicate keys" in text


def test_a_validator_that_raises_keeps_its_cause() -> None:
    class Broken:
        name = "broken"

        def validate(self, candidate: Candidate) -> ValidationResult:
            raise ZeroDivisionError("by mistake")

    with pytest.raises(ValidationError, match="raised ZeroDivisionError: by mistake") as error:
        producer_of(open_store("memory:"), validators=[Broken()]).publish(BEFORE)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_a_variance_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError):
        RecordCountVariance("Movie", float("nan"))
