"""One Spark session for all tests that need one: starting it takes longer than all of them."""

import importlib.util
import os

import pytest

from deltaic.spark.java import find_java
from deltaic.spark.session import session


@pytest.fixture(scope="session")
def spark():
    missing = None
    if importlib.util.find_spec("pyspark") is None:
        missing = "pyspark is not installed"
    elif find_java() is None:
        missing = "there is no Java 17 or newer"
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{missing}: a build machine has it")
    if missing:
        pytest.skip(missing)
    started = session(app_name="tests", quick_start=True)
    yield started
    started.stop()
