"""Publishing for a pipeline: one producer for its whole life, whose versions say what they were made from."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deltaic.dataset.publishing import grow_model, publish_table
from deltaic.errors import CommitConflictError
from deltaic.spark.pipeline_file import Publishing
from deltaic.storage.announcement import Announcements

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset
    from deltaic.dataset.publishing import Published
    from deltaic.producer.producer import Producer

_PAUSE_SECONDS = 0.5


def published_facts(done: "Published") -> dict[str, Any]:
    """What a publish did, for programs."""
    cycle = done.cycle
    return {
        "version": done.version,
        "table_version": done.table_version,
        "mode": done.mode,
        "rows_read": done.rows_read,
        "seconds_by_step": {str(step): round(seconds, 4) for step, seconds in cycle.seconds.items()},
        "bytes": {artifact.kind: artifact.size for artifact in cycle.artifacts},
        "types": {
            name: {"records": of.records, "added": of.added, "removed": of.removed, "modified": of.modified}
            for name, of in cycle.types.items()
        },
        "columns_added": list(done.columns_added),
    }


class Publisher:
    """Publishes the table of a dataset, again and again."""

    def __init__(self, dataset: "Dataset", how: Publishing, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.dataset, self._how, self._sleep = dataset, how, sleep
        self._producer: Producer | None = None
        self.table_version: int | None = None
        """The newest version of the table that was published, or found to change nothing, by this object."""

    def publish(self, version: int, tags: Mapping[str, str], note: str, spark: Any = None) -> "Published":
        """Publish a version of the table, if the dataset has it not."""
        following, growth = grow_model(self.dataset, version)
        if growth is not None:
            self.dataset = following
        producer = self._producer_with(changed=growth is not None)
        producer.set_header_tags(tags)
        try:
            done = self._with_lease(
                lambda: publish_table(
                    self.dataset,
                    producer,
                    version=version,
                    note=note,
                    engine=self._how.engine if spark is not None else "embedded",
                    spark=spark,
                    growth=growth,
                )
            )
        finally:
            # The lease is given back, so that others may publish; what is known of the version is kept.
            producer.close()
        self.table_version = version
        return done

    def _producer_with(self, *, changed: bool) -> "Producer":
        if self._producer is None:
            how = self._how
            self._producer = self.dataset.producer(
                channel=how.channel,
                lease_seconds=how.lease_seconds,
                snapshot_every=how.snapshot_every,
                # Where Spark may build a version it is numbered as only Spark must: engines may take turns then.
                order="given" if how.engine == "embedded" else "canonical",
            )
        elif changed:
            self._producer.change_model(self.dataset.model)
        return self._producer

    def _with_lease(self, publish: "Callable[[], Published]") -> "Published":
        """Try until the lease of a producer that was killed has expired."""
        deadline = time.monotonic() + self._how.lease_seconds + 5
        while True:
            try:
                return publish()
            except CommitConflictError:
                record = Announcements(self.dataset.chain).read().record
                if record is None or record.lease is None or time.monotonic() > deadline:
                    raise
            self._sleep(_PAUSE_SECONDS)
