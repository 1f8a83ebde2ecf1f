"""The change feed of a dataset in Spark: `spark.readStream.format("deltaic").option("feed", "patches").load(url)`.

An offset is a version of the chain: everything up to it was told. A batch goes from one version to another over all
steps in between; where the announcement went back to an older version, it tells the steps back. With `feed` =
`patches` a patch is a row; with `wire` a step is a row that holds the frame of its patches (docs/formats/patches.md).

    {"version": 20240131120000}
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from deltaic.errors import InputError, NotFoundError
from deltaic.spark.columns import arrow_schema, for_spark, spark_schema
from deltaic.spark.request import ReadRequest
from deltaic.storage.announced import MAIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.consumer.feed import FeedStep
    from deltaic.dataset.dataset import Dataset

_OPTIONS = {
    "path",
    "feed",
    "fromversion",
    "toversion",
    "types",
    "before",
    "channel",
    "maxversionspertrigger",
    "startingoffset",
}
_IGNORED = {"checkpointlocation", "queryname"}
_ROWS = ("op", "type", "key", "path", "value", "previous", "absent")
_BATCH_ROWS = 65_536

FeedForm = Literal["patches", "wire"]
_Offset = dict[str, int]


def wants_feed(options: Mapping[str, str]) -> bool:
    """True if a read asks for the change feed of a dataset, not for a table."""
    return any(name.lower() == "feed" for name in options)


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What is asked of a change feed."""

    path: str
    form: FeedForm
    from_version: int | None = None
    """The version before the first step; of a stream by default the announced one when it first starts."""
    to_version: int | None = None
    """Of a batch: the version after the last step; the announced one by default."""
    types: tuple[str, ...] | None = None
    before: bool = False
    channel: str = MAIN
    max_versions: int | None = None
    """Steps that one batch of a stream holds at most."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "FeedRequest":
        """Read the options, whose names are told apart without regard to case."""
        given = {name.lower(): str(value) for name, value in dict(options).items()}
        if unknown := sorted(set(given) - _OPTIONS - _IGNORED):
            known = "feed, fromVersion, startingOffset, toVersion, types, before, channel, maxVersionsPerTrigger"
            raise InputError(f"options {', '.join(unknown)} are unknown; for a change feed there are {known}")
        form = given["feed"].lower()
        if form not in ("patches", "wire"):
            raise InputError(f"option feed: {given['feed']!r}, 'patches' or 'wire'")
        before = given.get("before", "false").lower()
        if before not in ("true", "false"):
            raise InputError(f"option before: {given['before']!r}, 'true' or 'false'")
        start = _number(given, "fromVersion")
        if "startingoffset" in given:
            start = _offset(given["startingoffset"])
        return cls(
            ReadRequest.of({"path": given.get("path", "")}).path,
            "wire" if form == "wire" else "patches",
            start,
            _number(given, "toVersion"),
            tuple(name.strip() for name in given["types"].split(",") if name.strip()) if "types" in given else None,
            before == "true",
            given.get("channel", MAIN),
            _number(given, "maxVersionsPerTrigger", least=1),
        )

    def dataset(self) -> "Dataset":
        """The dataset, opened where it is asked for."""
        from deltaic.dataset.dataset import Dataset

        return Dataset.open(self.path)

    def announced(self) -> int:
        """Where consumers of the channel should be."""
        from deltaic.consumer.pin import wanted

        dataset = self.dataset()
        found = wanted(dataset.announcements.read(), self.channel, None).version
        if found is None:
            raise NotFoundError(f"nothing is announced in {dataset.chain.url}")
        return found


def _number(given: Mapping[str, str], name: str, least: int = 0) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise InputError(f"option {name}: {text!r} is no number from {least} on")
    return int(text)


def _offset(text: str) -> int:
    try:
        return int(json.loads(text)["version"])
    except (ValueError, TypeError, KeyError):
        raise InputError(f"startingOffset {text[:80]!r} is no offset: give what patch_progress told") from None


def feed_schema(request: FeedRequest) -> "StructType":
    """The Spark schema of a change feed."""
    import pyarrow as pa

    versions = [pa.field("from", pa.int64(), nullable=False), pa.field("to", pa.int64(), nullable=False)]
    if request.form == "wire":
        return spark_schema([*versions, pa.field("patches", pa.binary(), nullable=False)])
    texts = [
        pa.field(name, pa.bool_() if name == "absent" else pa.string(), nullable=name not in ("op", "type"))
        for name in _ROWS
    ]
    return spark_schema([*versions, *texts])


class StepsPart(InputPartition):
    """The steps from one version to another, which one task walks."""

    def __init__(self, from_version: int, to_version: int) -> None:
        super().__init__(None)
        self.from_version, self.to_version = from_version, to_version


class FeedReader(DataSourceReader):
    """A change feed as a batch: from one version to another."""

    def __init__(self, request: FeedRequest, schema: "StructType") -> None:
        if request.from_version is None:
            raise InputError("a batch of the change feed needs the option fromVersion")
        if request.max_versions is not None:
            raise InputError("maxVersionsPerTrigger is for streams")
        self._request, self._schema, self._from = request, schema, request.from_version

    def partitions(self) -> Sequence[InputPartition]:
        """One: each step goes on from the state of the one before."""
        request = self._request
        end = request.announced() if request.to_version is None else request.to_version
        return [StepsPart(self._from, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of all steps."""
        assert isinstance(partition, StepsPart)
        yield from feed_rows(self._request, partition, arrow_schema(self._schema))


class FeedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A change feed as a stream."""

    def __init__(self, request: FeedRequest, schema: "StructType") -> None:
        if request.to_version is not None:
            raise InputError("a stream has no end: toVersion is for batches")
        self._request, self._schema = request, schema
        self._target: int | None = None

    def initialOffset(self) -> _Offset:
        """The version that the option names, else the one that is announced now."""
        given = self._request.from_version
        return {"version": self._request.announced() if given is None else given}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say a batch may hold."""
        most = self._request.max_versions
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Do not go beyond what is announced now."""
        self._target = self._request.announced()

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:
        """The announced version, or as far towards it as the limit lets."""
        newest = self._request.announced() if self._target is None else self._target
        if newest == start["version"] or not isinstance(limit, ReadMaxFiles):
            return {"version": newest}
        return {"version": self._within(start["version"], newest, limit.max_files)}

    def reportLatestOffset(self) -> _Offset | None:
        """The announced version."""
        return {"version": self._request.announced()}

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """One: each step goes on from the state of the one before."""
        return [] if start == end else [StepsPart(start["version"], end["version"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of all steps."""
        assert isinstance(partition, StepsPart)
        yield from feed_rows(self._request, partition, arrow_schema(self._schema))

    def commit(self, end: _Offset) -> None:
        """Nothing is kept that would have to go."""

    def _within(self, start: int, newest: int, most: int) -> int:
        """The version that so many deltas lead to; the newest if they lead nowhere."""
        from deltaic.consumer.plan import plan_refresh
        from deltaic.storage.chain import Chain

        chain = Chain.read(self._request.dataset().chain)
        plan = plan_refresh(start, newest, chain, max_deltas=1 << 30)
        if plan.version != newest or plan.starts_with_snapshot or len(plan.steps) <= most:
            return newest
        return plan.steps[most - 1].to_version


def feed_rows(request: FeedRequest, part: StepsPart, wanted: Any) -> Iterator[Any]:
    """The steps of a partition as batches of exactly the types that Spark expects."""
    dataset = request.dataset()
    for step in dataset.changes(part.from_version, part.to_version, before=request.before, types=request.types):
        if request.form == "wire":
            yield for_spark(_frame(step), wanted)
            continue
        table = step.to_arrow().select(["from", "to", *_ROWS])
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            yield for_spark(batch, wanted)


def _frame(step: "FeedStep") -> Any:
    import pyarrow as pa

    columns = {"from": [step.from_version], "to": [step.to_version], "patches": [step.to_bytes()]}
    kinds = [pa.field("from", pa.int64()), pa.field("to", pa.int64()), pa.field("patches", pa.binary())]
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema(kinds))
