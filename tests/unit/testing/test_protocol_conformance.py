"""The suites for listeners and validators pass ours and notice bad ones."""

import pytest

from deltaic.consumer import ConsumerMetrics, OpenTelemetryListener, RefreshListener
from deltaic.errors import ValidationError
from deltaic.producer import (
    CycleListener,
    DuplicateKeys,
    MinimumRecordCount,
    NullKeys,
    ObjectModification,
    RecordCountVariance,
    ValidationResult,
)
from deltaic.schema.model import Model
from deltaic.testing.listener_conformance import CycleListenerConformance, RefreshListenerConformance
from deltaic.testing.validator_conformance import ValidatorConformance

MOVIES = Model.parse("Movie @PrimaryKey(id) { long id; string title; }")


def rows(*numbers, title="x"):
    return [{"id": number, "title": title} for number in numbers]


class TestMetrics(RefreshListenerConformance):
    @pytest.fixture
    def listener(self):
        return ConsumerMetrics()


class TestOpenTelemetry(RefreshListenerConformance):
    @pytest.fixture
    def listener(self):
        return OpenTelemetryListener(dataset="movies")


class TestSilence(RefreshListenerConformance):
    @pytest.fixture
    def listener(self):
        class Silent(RefreshListener):
            pass

        return Silent()


class TestSilentCycles(CycleListenerConformance):
    @pytest.fixture
    def listener(self):
        return CycleListener()


class TestDuplicateKeys(ValidatorConformance):
    model, good, bad = MOVIES, rows(1, 2), [*rows(1), *rows(1, title="twice")]

    @pytest.fixture
    def validator(self):
        return DuplicateKeys()


class TestNullKeys(ValidatorConformance):
    model, good, bad = MOVIES, rows(1), [{"id": None, "title": "x"}]

    @pytest.fixture
    def validator(self):
        return NullKeys()


class TestVariance(ValidatorConformance):
    model, good, bad, before = MOVIES, rows(1, 2, 3, 4), rows(1), rows(1, 2, 3)

    @pytest.fixture
    def validator(self):
        return RecordCountVariance("Movie", 50.0)


class TestMinimum(ValidatorConformance):
    model, good, bad = MOVIES, rows(1, 2), rows(1)

    @pytest.fixture
    def validator(self):
        return MinimumRecordCount("Movie", 2)


class TestModification(ValidatorConformance):
    model, good, bad, before = MOVIES, rows(1, title="y"), rows(1, title=""), rows(1)

    @pytest.fixture
    def validator(self):
        return ObjectModification("Movie", lambda old, new: bool(new.title))


def failing(suite, test, subject):
    with pytest.raises((AssertionError, TypeError, ValidationError)):
        getattr(suite, test)(subject)


def test_a_listener_that_keeps_what_it_is_told_is_noticed():
    class Keeping(RefreshListener):
        def __init__(self):
            self.kept = []

        def after(self, refresh, changes):
            self.kept.append(changes)

    failing(RefreshListenerConformance(), "test_it_holds_no_state_that_was_replaced", Keeping())


@pytest.mark.parametrize("hook", ["before", "after", "failed", "stuck"])
def test_a_listener_whose_hook_raises_is_noticed(hook):
    class Raising(RefreshListener):
        pass

    def broken(self, *values):
        raise RuntimeError("no")

    setattr(Raising, hook, broken)
    suite = RefreshListenerConformance()
    test = "failures_and_getting_stuck" if hook in ("failed", "stuck") else "every_outcome_of_a_refresh"
    failing(suite, f"test_it_bears_{test}", Raising())


def test_a_hook_with_other_arguments_is_noticed():
    class Odd(RefreshListener):
        def after(self, refresh):
            return

    failing(RefreshListenerConformance(), "test_its_hooks_take_what_they_are_given", Odd())
    failing(RefreshListenerConformance(), "test_its_hooks_take_what_they_are_given", object())


def test_a_listener_that_stops_good_cycles_is_noticed():
    class Vetoing(CycleListener):
        def step_finished(self, step, seconds):
            raise ValidationError("never")

    class Confused(CycleListener):
        def cycle_failed(self, step, error):
            raise RuntimeError("no")

    failing(CycleListenerConformance(), "test_it_lets_good_versions_pass", Vetoing())
    failing(CycleListenerConformance(), "test_it_bears_a_cycle_that_fails", Confused())


class _Suite(ValidatorConformance):
    model, good, bad = MOVIES, rows(1), rows(2)


def test_validators_that_cannot_tell_are_noticed():
    class Yes:
        name = "yes"

        def validate(self, candidate):
            return ValidationResult("yes", True, "fine")

    class Moody(Yes):
        def __init__(self):
            self.asked = 0

        def validate(self, candidate):
            self.asked += 1
            return ValidationResult("yes", self.asked % 2 == 1, "perhaps")

    class Needy(Yes):
        def validate(self, candidate):
            return ValidationResult("yes", len(candidate.previous["Movie"]) > 0, "compared")

    for test in ("test_it_passes_a_good_version_and_tells_why_a_bad_one_does_not", "test_a_bad_version_is_never_seen"):
        failing(_Suite(), test, Yes())
    failing(_Suite(), "test_it_answers_alike_when_it_is_asked_again", Moody())
    failing(_Suite(), "test_it_answers_for_a_first_version", Needy())
