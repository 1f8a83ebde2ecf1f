"""One Spark session for all tests that need one: starting it takes longer than all of them."""

import importlib.util
import os

import pytest

from deltaic.spark.java import find_java
from deltaic.spark.session import session


@pytest.fixture(scope="session")
def spark_is_here():
    """Skips where Spark cannot start; a build machine has what it needs, so there it fails."""
    missing = None
    if importlib.util.find_spec("pyspark") is None:
        missing = "pyspark is not installed"
    elif find_java() is None:
        missing = "there is no Java 17 or newer"
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def spark(spark_is_here):
    started = session(app_name="tests", quick_start=True)
    yield started
    started.stop()
