"""Jobs: calls that run as the tasks of one Spark job, on a classic or on a Connect session.

A call is a value with `run`; what it gives is a small `msgspec` struct, which is all that comes back to the driver.
Calls of one job are spread over few tasks by weight, since a task costs some 40 ms before it does anything. An error
of ours that would come again (a value that cannot be kept) comes back as a result, so that it is raised in the driver
as what it is; any other fails the task, and Spark tries it again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec

from deltaic import errors
from deltaic.errors import DeltaicError, InputError, MissingExtraError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("deltaic.spark")

_RESULTS = "number long, result binary"
_Result = TypeVar("_Result", covariant=True)

Progress = Callable[[str, int, int], None]
"""Told after each job what it did, the number of its tasks, and the bytes that came back to the driver."""


class Call(Protocol[_Result]):
    """Work of a task."""

    Result: ClassVar[Any]
    """The type of what it gives."""

    @property
    def weight(self) -> int:
        """How much work it is, in whatever unit: calls of a job are compared."""
        ...

    def run(self) -> _Result:
        """Do it."""
        ...


class _Failure(msgspec.Struct, array_like=True, tag=True):
    kind: str
    arguments: list[str | int]


class _Given(msgspec.Struct, array_like=True, tag=True):
    number: int
    result: msgspec.Raw


_Answer = msgspec.msgpack.Decoder(list[_Failure | _Given])


class Jobs(Protocol):
    """Where calls run."""

    tasks: int
    """How many tasks a job has at most."""

    def run(self, what: str, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls as one job; gives their results in order."""
        ...

    def run_beside(
        self, what: str, calls: Sequence[Call[Any]], frames: Iterable["tuple[DataFrame, RowsCall[Any]]"]
    ) -> tuple[list[Any], list[list[Any]]]:
        """Run calls, and calls on the partitions of DataFrames, as one job.

        Returns:
            The results of the calls, and for each DataFrame those of its partitions, in no order.
        """
        ...


@dataclass
class SparkJobs:
    """Runs jobs on a session and counts what comes back to the driver.

    Args:
        spark: the session.
        tasks: how many tasks a job has at most.
        progress: told of every job.
    """

    spark: "SparkSession"
    tasks: int
    progress: Progress | None = None
    received_bytes: int = field(default=0, init=False)
    """Bytes that came back to the driver so far."""
    jobs: int = field(default=0, init=False)
    """Jobs so far."""

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise InputError(f"{self.tasks} tasks: there must be at least one")

    def run(self, what: str, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls as one job; gives their results in order."""
        return self.run_beside(what, calls, ())[0]

    def run_beside(
        self, what: str, calls: Sequence[Call[Any]], frames: Iterable["tuple[DataFrame, RowsCall[Any]]"]
    ) -> tuple[list[Any], list[list[Any]]]:
        """Run calls, and calls on the partitions of DataFrames, as one job."""
        by_frame = list(frames)
        if not calls and not by_frame:
            return [], []
        plans = []
        task = _CallTask(tuple(_spread(calls, self.tasks)))
        if not by_frame and (context := context_of(self.spark)) is not None:
            # Without rows there is nothing to plan: a bare job starts in two thirds of the time.
            count = len(task.groups)
            answers = self._decoded(what, context.parallelize(range(count), count).map(task.answer).collect())
            return _in_order(calls, answers), []
        if calls:
            plans.append(self.spark.range(0, len(task.groups), 1, len(task.groups)).mapInArrow(task, _RESULTS))
        for number, (frame, call) in enumerate(by_frame):
            plans.append(frame.mapInArrow(_RowsTask(number, call), _RESULTS))
        whole = plans[0]
        for plan in plans[1:]:
            whole = whole.unionAll(plan)
        answers = self._decoded(what, _to_arrow(whole).column("result").to_pylist())
        by_partition: list[list[Any]] = [[] for _ in by_frame]
        for number, given in answers:
            if number < 0:
                by_partition[-1 - number].append(msgspec.msgpack.decode(given, type=by_frame[-1 - number][1].Result))
        return _in_order(calls, answers), by_partition

    def _decoded(self, what: str, answers: Sequence[bytes]) -> list[tuple[int, msgspec.Raw]]:
        size = sum(map(len, answers))
        self.received_bytes += size
        self.jobs += 1
        if self.progress is not None:
            self.progress(what, len(answers), size)
        log.debug("%s: %d tasks, %d bytes came back", what, len(answers), size)
        given: list[tuple[int, msgspec.Raw]] = []
        for answer in answers:
            for each in _Answer.decode(answer):
                if isinstance(each, _Failure):
                    raise getattr(errors, each.kind)(*each.arguments)
                given.append((each.number, each.result))
        return given


class InlineJobs:
    """Runs calls one after the other in this process: what the tasks do, without Spark. For tests."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def run(self, what: str, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls; results travel as they would between processes."""
        return [msgspec.msgpack.decode(msgspec.msgpack.encode(call.run()), type=call.Result) for call in calls]

    def run_beside(
        self, what: str, calls: Sequence[Call[Any]], frames: Iterable["tuple[DataFrame, RowsCall[Any]]"]
    ) -> tuple[list[Any], list[list[Any]]]:
        """Run calls; DataFrames need Spark."""
        if any(True for _ in frames):
            raise InputError("a DataFrame cannot be read without Spark")
        return self.run(what, calls), []


class RowsCall(Protocol[_Result]):
    """Work on the rows of one partition of a DataFrame."""

    Result: ClassVar[Any]

    def run(self, batches: Iterator[Any]) -> _Result:
        """Do it, given Arrow record batches."""
        ...


@dataclass(frozen=True)
class _CallTask:
    groups: tuple[tuple[tuple[int, Call[Any]], ...], ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _batch(number, self.answer(number))

    def answer(self, number: int) -> bytes:
        """What the calls of one task give."""
        return msgspec.msgpack.encode([_answered(index, call.run) for index, call in self.groups[number]])


@dataclass(frozen=True)
class _RowsTask:
    number: int
    call: RowsCall[Any]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        answer = _answered(-1 - self.number, lambda: self.call.run(batches))
        yield _batch(self.number, msgspec.msgpack.encode([answer]))


def context_of(spark: "SparkSession") -> Any:
    """The context of a classic session; None for a Connect session, which has none."""
    return None if type(spark).__module__.startswith("pyspark.sql.connect") else spark.sparkContext


def _in_order(calls: Sequence[Call[Any]], answers: Iterable[tuple[int, msgspec.Raw]]) -> list[Any]:
    results: list[Any] = [None] * len(calls)
    for number, given in answers:
        if number >= 0:
            results[number] = msgspec.msgpack.decode(given, type=calls[number].Result)
    return results


def _answered(number: int, work: Callable[[], Any]) -> _Failure | _Given:
    try:
        return _Given(number, msgspec.Raw(msgspec.msgpack.encode(work())))
    except StorageError:
        raise
    except DeltaicError as error:
        return _Failure(type(error).__name__, [each if isinstance(each, int) else str(each) for each in error.args])


def _batch(number: int, result: bytes) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_pydict(
        {"number": pyarrow.array([number], pyarrow.int64()), "result": pyarrow.array([result], pyarrow.binary())}
    )


def _to_arrow(frame: "DataFrame") -> Any:
    try:
        return frame.toArrow()
    except ImportError as error:
        raise MissingExtraError("building on Spark", "spark") from error


def _spread(calls: Sequence[Call[Any]], tasks: int) -> list[tuple[tuple[int, Call[Any]], ...]]:
    """Calls by task: the heaviest first, each to the task that has least."""
    groups: list[list[tuple[int, Call[Any]]]] = [[] for _ in range(min(len(calls), max(tasks, 1)))]
    loads = [0] * len(groups)
    for index in sorted(range(len(calls)), key=lambda each: -calls[each].weight):
        least = loads.index(min(loads))
        groups[least].append((index, calls[index]))
        loads[least] += calls[index].weight + 1
    return [tuple(group) for group in groups]
