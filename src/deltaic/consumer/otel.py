"""Metrics and traces for OpenTelemetry, as a listener (extra `otel`). Without the library it does nothing.

    Consumer(url, listeners=[OpenTelemetryListener(dataset="movies")])

Instruments: `deltaic.consumer.refreshes` (by outcome), `.bytes`, `.duration`, `.version`, `.stuck`. Each refresh is a
span `deltaic.refresh` with its versions, bytes and the seconds of its steps. No record and no key ever goes out.
"""

import importlib
import time
from typing import Any

from deltaic.consumer.changes import Changes
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh, RefreshFailure

_SCOPE = "deltaic.consumer"


class OpenTelemetryListener(RefreshListener):
    """Tells OpenTelemetry of refreshes.

    Args:
        dataset: the attribute `deltaic.dataset` of everything that is told; never a URL, which may be long or private.
        meter_provider: where metrics go; the global one by default.
        tracer_provider: where spans go; the global one by default.
    """

    def __init__(self, *, dataset: str = "", meter_provider: Any = None, tracer_provider: Any = None) -> None:
        self._attributes = {"deltaic.dataset": dataset} if dataset else {}
        self._tracer: Any = None
        self.enabled = False
        """False if opentelemetry-api is not installed."""
        try:
            metrics = importlib.import_module("opentelemetry.metrics")
            trace = importlib.import_module("opentelemetry.trace")
        except ImportError:
            return
        self.enabled = True
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._error_status = trace.Status(trace.StatusCode.ERROR)
        self._refreshes = meter.create_counter("deltaic.consumer.refreshes", unit="{refresh}")
        self._bytes = meter.create_counter("deltaic.consumer.bytes", unit="By")
        self._duration = meter.create_histogram("deltaic.consumer.duration", unit="s")
        self._version = meter.create_gauge("deltaic.consumer.version")
        self._stuck = meter.create_counter("deltaic.consumer.stuck", unit="{event}")

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Tell of a refresh."""
        if not self.enabled:
            return
        self._refreshes.add(1, {**self._attributes, "outcome": "ok"})
        self._bytes.add(refresh.size_bytes, self._attributes)
        self._duration.record(refresh.total_seconds, self._attributes)
        self._version.set(refresh.to_version, self._attributes)
        ended_ns = time.time_ns()
        span = self._tracer.start_span(
            "deltaic.refresh",
            start_time=ended_ns - int(refresh.total_seconds * 1e9),
            attributes={
                **self._attributes,
                "deltaic.from_version": -1 if refresh.from_version is None else refresh.from_version,
                "deltaic.to_version": refresh.to_version,
                "deltaic.bytes": refresh.size_bytes,
                "deltaic.blobs": [step.blob for step in refresh.steps],
                **{f"deltaic.seconds.{step}": seconds for step, seconds in refresh.seconds.items()},
            },
        )
        span.end(end_time=ended_ns)

    def failed(self, failure: RefreshFailure) -> None:
        """Tell of a failure."""
        if not self.enabled:
            return
        self._refreshes.add(1, {**self._attributes, "outcome": "failed"})
        span = self._tracer.start_span("deltaic.refresh", attributes=dict(self._attributes))
        span.record_exception(failure.error)
        span.set_status(self._error_status)
        span.end()

    def stuck(self, version: int, wanted: int, reason: str) -> None:
        """Tell of a consumer that is stuck."""
        if self.enabled:
            self._stuck.add(1, self._attributes)
