"""Publishing on Spark: the blobs of a version are built by the tasks of a cluster, with the bytes of the embedded path.

    producer = Producer("s3://bucket/movies/chain", model, order="canonical")
    publish(spark, producer, {"Movie": spark.read.parquet("s3a://…")})

The producer does what it always does: lease, version, tags, announcement, report. Rows are flattened, deduplicated,
matched with the version before and packed by tasks, which leave their work for each other in files of the store; no
record passes through the driver. With `engine="auto"` data that fit one machine are published without Spark's help.
"""

import logging
from typing import TYPE_CHECKING

from deltaic.errors import InputError
from deltaic.producer.producer import Producer
from deltaic.producer.report import Cycle
from deltaic.spark.build_choice import EngineChoice, EngineName, choose_engine, publish_embedded
from deltaic.spark.build_engine import Sizes, SparkEngine
from deltaic.spark.build_jobs import Progress, SparkJobs, context_of
from deltaic.spark.build_scratch import Place
from deltaic.spark.build_sources import FileSplit, Input, Sources, Split
from deltaic.spark.build_types import levels_of
from deltaic.storage.local import LocalStore
from deltaic.storage.remote import RemoteStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EngineChoice", "FileSplit", "Sizes", "Split", "choose_engine", "publish", "publish_changes"]

log = logging.getLogger("deltaic.spark")


def publish(
    spark: "SparkSession",
    producer: Producer,
    sources: Sources,
    *,
    engine: EngineName = "spark",
    tasks: int | None = None,
    scratch: str | None = None,
    note: str | None = None,
    progress: Progress | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - frozen
) -> Cycle:
    """Publish a version that holds exactly these rows.

    Args:
        spark: the session, classic or Connect.
        producer: of the chain, with `order="canonical"`.
        sources: by root type: a DataFrame, paths of Parquet files, splits, or a list of these.
        engine: "spark"; "embedded"; "auto" takes the embedded path if the data fit this machine.
        tasks: how many tasks a job has at most; the session's parallelism if None.
        scratch: a folder (URL) for files that tasks leave for each other; the chain's own staging folder if None.
        note: free text about the version.
        progress: told of every job: what it did, its tasks, the bytes that came back to the driver.
        sizes: when work is split.

    Returns:
        The report of the cycle, as `Producer.publish` gives it.

    Raises:
        InputError: a type refers to itself, or the store cannot be seen by tasks.
    """
    rows = Input.of(sources, producer.model)
    choice = choose_engine(rows, producer.model, engine=engine)
    log.info("publishing with the engine %s: %s", choice.engine, choice.reason)
    if choice.engine == "embedded":
        return publish_embedded(producer, rows, note=note)
    return _build(spark, producer, rows, None, tasks, scratch, note, progress, sizes)


def publish_changes(
    spark: "SparkSession",
    producer: Producer,
    changed: Sources,
    removed: Sources,
    *,
    tasks: int | None = None,
    scratch: str | None = None,
    note: str | None = None,
    progress: Progress | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - frozen
) -> Cycle:
    """Publish a version that is the one before with these changes; rows that did not change are not read.

    Args:
        spark: the session, classic or Connect.
        producer: of the chain, with `order="canonical"`.
        changed: by root type: rows that are new or have other content now.
        removed: by root type: rows that are no more, or just the columns of their keys.
        tasks: how many tasks a job has at most; the session's parallelism if None.
        scratch: a folder (URL) for files that tasks leave for each other.
        note: free text about the version.
        progress: told of every job.
        sizes: when work is split.

    Raises:
        InputError: a type without a primary key, or rows without its columns.
    """
    rows, gone = Input.of(changed, producer.model), Input.of(removed, producer.model)
    levels_of(producer.model.schemas)
    return _build(spark, producer, rows, gone, tasks, scratch, note, progress, sizes)


def _build(
    spark: "SparkSession",
    producer: Producer,
    rows: Input,
    removed: Input | None,
    tasks: int | None,
    scratch: str | None,
    note: str | None,
    progress: Progress | None,
    sizes: Sizes,
) -> Cycle:
    jobs = SparkJobs(spark, tasks or parallelism(spark), progress)
    built = SparkEngine(jobs, rows, _shared(producer), scratch_url=scratch, sizes=sizes, removed=removed)
    cycle = producer.build(built, note=note)
    log.info("%d jobs, %d bytes came back to the driver", jobs.jobs, jobs.received_bytes)
    return cycle


def parallelism(spark: "SparkSession") -> int:
    """How many tasks a session runs at once, as far as it says."""
    context = context_of(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    return max(1, int(spark.conf.get("spark.default.parallelism", "2") or 2))


def _shared(producer: Producer) -> Place:
    """The producer's store in the form in which it travels to tasks."""
    store = producer.store
    if isinstance(store, LocalStore):
        return str(store.folder.absolute())
    if store.url.startswith("memory:"):
        raise InputError(f"{store.url} is in the memory of this process: tasks on Spark cannot see it", "Store")
    # An object store travels without its credentials and with the rest (endpoint, region); a plug-in's by its URL.
    return store if isinstance(store, RemoteStore) else store.url
