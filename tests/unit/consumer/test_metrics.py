"""Counters and OpenTelemetry see what happened, and no data."""

import builtins
import importlib

import pytest

from deltaic.consumer import Consumer, OpenTelemetryListener
from deltaic.errors import ChecksumError, NotFoundError
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain


@pytest.fixture
def chain():
    return SmallChain(open_store("memory:"))


def test_refreshes_blobs_bytes_and_failures_are_counted(chain, tmp_path):
    consumer = Consumer(chain.store, cache_dir=tmp_path)
    with pytest.raises(NotFoundError):
        consumer.refresh()
    for _ in range(3):
        chain.publish()
    consumer.refresh(to=1)
    consumer.refresh()
    consumer.refresh()
    counts = consumer.metrics.counts()
    expected = sum(len(chain.blobs[name]) for name in ("snapshot-1", "delta-1-2", "delta-2-3"))
    assert (counts.refreshes, counts.failures, counts.snapshots, counts.deltas) == (2, 1, 1, 2)
    assert (counts.fetched_bytes, counts.cached_bytes, counts.version) == (expected, 0, 3)
    assert counts.seconds["apply"] > 0
    again = Consumer(chain.store, cache_dir=tmp_path)
    again.refresh(to=1)
    assert again.metrics.counts().cached_bytes == len(chain.blobs["snapshot-1"])


def test_failed_blobs_and_getting_stuck_are_counted(chain):
    chain.publish()
    consumer = Consumer(chain.store)
    consumer.refresh()
    chain.publish(snapshot=False)
    chain.store.put("delta-1-2", bytes(len(chain.blobs["delta-1-2"])))
    with pytest.raises(ChecksumError):
        consumer.refresh()
    consumer.refresh()
    counts = consumer.metrics.counts()
    assert counts.failures == 1 and counts.stuck == 1


def test_without_the_library_the_listener_does_nothing(chain, monkeypatch):
    def missing(name, *rest):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", missing)
    listener = OpenTelemetryListener(dataset="movies")
    assert not listener.enabled
    consumer = Consumer(chain.store, listeners=[listener])
    with pytest.raises(NotFoundError):
        consumer.refresh()
    chain.publish()
    consumer.refresh()
    listener.stuck(1, 2, "why")
    assert consumer.listener_errors == 0 and builtins is not None


def test_open_telemetry_gets_metrics_and_spans_without_any_record(chain):
    metrics_sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    trace_sdk = pytest.importorskip("opentelemetry.sdk.trace")
    trace_export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    reader, spans = export.InMemoryMetricReader(), memory.InMemorySpanExporter()
    tracer = trace_sdk.TracerProvider()
    tracer.add_span_processor(trace_export.SimpleSpanProcessor(spans))
    listener = OpenTelemetryListener(
        dataset="movies", meter_provider=metrics_sdk.MeterProvider([reader]), tracer_provider=tracer
    )
    assert listener.enabled
    consumer = Consumer(chain.store, listeners=[listener])
    with pytest.raises(NotFoundError):
        consumer.refresh()
    chain.publish({1: "a private title"})
    consumer.refresh()
    told = reader.get_metrics_data().to_json() + "".join(span.to_json() for span in spans.get_finished_spans())
    for name in ("refreshes", "bytes", "duration", "version"):
        assert f"deltaic.consumer.{name}" in told
    failed, done = spans.get_finished_spans()
    assert failed.status.status_code.name == "ERROR" and done.attributes["deltaic.to_version"] == 1
    assert "private" not in told and consumer.listener_errors == 0
