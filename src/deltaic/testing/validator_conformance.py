"""The `Validator` protocol as tests, with versions that a validator should accept and refuse.

    class TestMyValidator(ValidatorConformance):
        model = Model.of(Movie)
        good = [Movie(1, "Solaris")]
        bad = [Movie(1, "")]

        @pytest.fixture
        def validator(self):
            return NoEmptyTitles()

`before` is the version before, where a validator compares; by default it is the good one.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from deltaic.consumer.consumer import Consumer
from deltaic.errors import ValidationError
from deltaic.producer.producer import Producer, model_of
from deltaic.producer.validators import Candidate, ValidationResult, Validator
from deltaic.producer.versions import count_up
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store


class ValidatorConformance:
    """Tests of one validator; a subclass names `model`, `good` and `bad`, and offers the fixture `validator`."""

    model: ClassVar[Any]
    good: ClassVar[Sequence[Any]]
    bad: ClassVar[Sequence[Any]]
    before: ClassVar[Sequence[Any] | None] = None

    def test_it_has_a_name(self, validator: Validator) -> None:
        assert validator.name and str(validator.name) == validator.name

    def test_it_passes_a_good_version_and_tells_why_a_bad_one_does_not(self, validator: Validator) -> None:
        for data, passes in ((self.good, True), (self.bad, False)):
            result = validator.validate(self._candidate(data))
            assert isinstance(result, ValidationResult)
            assert result.passed is passes, str(result)
            assert result.validator == validator.name and result.message
            assert all(isinstance(text, str) for pair in result.details.items() for text in pair)

    def test_it_answers_alike_when_it_is_asked_again(self, validator: Validator) -> None:
        for data in (self.good, self.bad):
            candidate = self._candidate(data)
            assert validator.validate(candidate) == validator.validate(candidate)

    def test_it_answers_for_a_first_version(self, validator: Validator) -> None:
        candidate = self._candidate(self.good)
        first = Candidate(1, candidate.state, None, candidate.model)
        assert validator.validate(first).passed is True

    def test_a_bad_version_is_never_seen(self, validator: Validator) -> None:
        store = self._published(validator)
        with Producer(store, self.model, versions=count_up, validators=[validator]) as producer:
            try:
                producer.publish(self.bad)
            except ValidationError as refused:
                assert validator.name in str(refused)
            else:
                raise AssertionError("the bad version was published")
        assert Consumer(store).refresh().to_version == 1

    def _published(self, *validators: Validator) -> Store:
        store = open_store("memory:")
        with Producer(store, self.model, versions=count_up, validators=validators) as producer:
            producer.publish(self.good if self.before is None else self.before)
        return store

    def _candidate(self, data: Sequence[Any]) -> Candidate:
        store = self._published()
        consumer = Consumer(store)
        consumer.refresh()
        previous = consumer.state
        with Producer(store, self.model, versions=count_up) as producer:
            producer.publish(data)
        consumer.refresh()
        return Candidate(2, consumer.state, previous, model_of(self.model))
