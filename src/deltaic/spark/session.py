"""A Spark session for one machine, with settings that suit one.

    spark = deltaic.spark.session()
    producer.publish(spark.read.parquet("movies"))

Spark's defaults are made for clusters: 200 partitions for every shuffle, a web page, an address that is looked up. On
one machine they cost seconds. A session that the program has already is used as it is.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaic.errors import InputError, MissingExtraError
from deltaic.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = "127.0.0.1"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
# The optimising compiler and the parallel collector pay off after minutes, not in a test or a demonstration.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str = "local[2]",
    *,
    remote: str | None = None,
    app_name: str = "deltaic",
    driver_memory: str = "1g",
    quick_start: bool = False,
    config: Mapping[str, str] | None = None,
) -> "SparkSession":
    """The session that is active, as it is, or else a new one.

    Args:
        master: `local[2]` for two cores of this machine, `local[*]` for all. For a cluster only the time zone and the
            log level are set here, and what `config` says.
        remote: the address of a Spark Connect server (`sc://host:15002`), instead of a master.
        app_name: what the session is called.
        driver_memory: memory of the Java process.
        quick_start: start a second earlier and compute slower: for tests and small data.
        config: Spark's own settings, which win over the ones made here.

    Raises:
        MissingExtraError: pyspark, or a Java 17 or newer, is not installed.
        InputError: Spark refuses the settings.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError("a Spark session", "spark")
    active = _active_session()
    if active is not None:
        return active
    if remote is not None:
        return _connected(remote, app_name, config or {})
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = {**_settings(master, driver_memory, quick_start), **(config or {})}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with java_home() as home, _environment(_variables(master, home)):
        try:
            return builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            reason = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
            raise InputError(f"Spark does not start with master {master!r}: {reason}", "Spark") from error


def _connected(remote: str, app_name: str, config: Mapping[str, str]) -> "SparkSession":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if not remote.startswith("sc://"):
        raise InputError(f"{remote!r} is no address of a Spark Connect server: sc://host:15002")
    builder = SparkSession.builder.remote(remote).appName(app_name)
    for name, value in {"spark.sql.session.timeZone": "UTC", **config}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, ImportError) as error:
        raise InputError(f"there is no Spark Connect server at {remote}: {error}", "Spark") from error


def _active_session() -> "SparkSession | None":
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:
        # A thread that did not start the session has no active one; without settings this changes nothing about it.
        return SparkSession.builder.getOrCreate()
    return found


def activate(spark: "SparkSession") -> None:
    """Make a session the active one of this thread: Spark looks for data sources there, and finds none without it."""
    classic = getattr(spark, "_jsparkSession", None)
    if classic is not None and spark._jvm is not None:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(classic)


def _settings(master: str, driver_memory: str, quick_start: bool) -> dict[str, str]:
    settings = {"spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR"}
    cores = _local_cores(master)
    if cores is None:
        return settings
    settings |= {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": _HERE,
        "spark.driver.bindAddress": _HERE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
    }
    if quick_start:
        settings["spark.driver.extraJavaOptions"] = _QUICK_START
    return settings


def _local_cores(master: str) -> int | None:
    """The cores that a local master names; None for a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(found[1] or 1)


def _variables(master: str, home: str) -> dict[str, str]:
    variables = {"JAVA_HOME": home}
    if _local_cores(master) is not None:
        # Workers would otherwise run whatever python3 is on the path, which need not have deltaic.
        variables |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        variables["SPARK_LOCAL_IP"] = _HERE  # spares the look-up of the machine's own name, and a warning about it
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block: Java inherits them when it starts, the program keeps its own."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
