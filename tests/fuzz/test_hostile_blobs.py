"""Blobs made by hand, small ones that ask for much, give a value or a DecodeError within their bounds."""

import sys

import pytest

from tests.fuzz.hostile import all_hostile
from tests.fuzz.runner import Findings, fuzz

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds of memory are those of Linux")


@pytest.fixture(scope="module")
def findings() -> Findings:
    return fuzz("hostile", 0, len(all_hostile()))


def cases() -> list:
    return [
        pytest.param(
            number,
            id=made.name,
        )
        for number, made in enumerate(all_hostile())
    ]


@pytest.mark.parametrize("number", cases())
def test_a_hostile_blob_is_read_or_refused(findings, number):
    assert -1 not in findings.failures, str(findings)
    assert number not in findings.failures, findings.failures[number]
    assert number in findings.named


@pytest.mark.parametrize("name", ["the sound snapshot", "a sound delta"])
def test_the_blobs_made_by_hand_are_sound_where_they_should_be(findings, name):
    number = [made.name for made in all_hostile()].index(name)
    assert findings.named[number] == "read"
