"""The Java program beside deltaic. Where Java or Maven cannot be had, the tests that need them skip with the reason."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (str(ROOT), str(Path(__file__).resolve().parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from tools.java import Batch, JavaMissingError, Program, build  # noqa: E402 - needs the path above


@pytest.fixture(scope="session")
def java_program() -> Program:
    try:
        return build()
    except JavaMissingError as error:
        pytest.skip(f"no Java Hollow here: {error}")


@pytest.fixture(scope="session")
def java(java_program: Program) -> Iterator[Batch]:
    with java_program.batch() as batch:
        yield batch
