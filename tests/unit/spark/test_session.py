"""A session on one machine: lean, in UTC, with this very Python; and one that is there is used as it is."""

import contextlib
import importlib.util
import os
import sys
import threading

import pytest

from deltaic.errors import InputError, MissingExtraError
from deltaic.spark import session
from deltaic.spark.session import _settings

spark_test = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "pyspark" else find_spec(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'deltaic\[spark\]'"):
        session()


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4, 2]", 4)])
def test_a_shuffle_has_as_many_partitions_as_there_are_cores(master, cores):
    assert _settings(master, "1g", False)["spark.sql.shuffle.partitions"] == str(cores)


def test_all_cores_are_those_that_this_process_may_use():
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert _settings("local[*]", "1g", False)["spark.default.parallelism"] == str(usable)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_cluster_is_not_told_how_large_it_is(master):
    assert set(_settings(master, "1g", True)) == {"spark.sql.session.timeZone", "spark.log.level"}


class TestRunning:
    pytestmark = spark_test

    def test_it_is_lean_and_local_and_in_utc(self, spark):
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
        assert spark.conf.get("spark.ui.enabled") == "false"
        assert spark.conf.get("spark.driver.host") == "127.0.0.1"
        assert spark.sparkContext.uiWebUrl is None

    def test_workers_run_the_python_of_the_program(self, spark):
        found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
        assert found == [sys.executable]

    def test_the_environment_of_the_program_stays_its_own(self, spark):
        assert os.environ.get("PYSPARK_PYTHON") != sys.executable
        assert "SPARK_LOCAL_IP" not in os.environ

    def test_a_session_that_is_there_is_used_as_it_is(self, spark):
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            assert session("local[1]", config={"spark.sql.shuffle.partitions": "7"}) is spark
            assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
            assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")

    def test_another_thread_gets_the_session_too_and_changes_nothing(self, spark):
        found = []
        thread = threading.Thread(
            target=lambda: found.append(session("local[1]", config={"spark.sql.shuffle.partitions": "7"}))
        )
        thread.start()
        thread.join()
        assert found[0].sparkContext is spark.sparkContext
        assert found[0].conf.get("spark.sql.shuffle.partitions") == "2"


def test_what_spark_says_when_it_does_not_start_is_handed_on(monkeypatch):
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    def refuse(_builder):
        raise pyspark.errors.PySparkRuntimeError("the gateway ended")

    module = sys.modules["deltaic.spark.session"]
    monkeypatch.setattr(module, "_active_session", lambda: None)
    monkeypatch.setattr(module, "java_home", lambda: contextlib.nullcontext("somewhere"))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    with pytest.raises(InputError, match="Spark does not start with master 'local\\[2\\]': the gateway ended"):
        session()
    assert os.environ.get("JAVA_HOME") != "somewhere"
