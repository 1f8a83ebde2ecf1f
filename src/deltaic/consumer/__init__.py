"""A refresh: plan, fetch, verify, apply, swap, notify; pinning, longevity, sharing on a host.

The names below are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaic.consumer.cached import CachedType
    from deltaic.consumer.changes import Changes, Modified, TypeChanges
    from deltaic.consumer.consumer import Consumer
    from deltaic.consumer.failed import FailedTransition
    from deltaic.consumer.feed import ChangeFeed, FeedColumns, FeedListener, FeedStep
    from deltaic.consumer.inspect import ChainStatus, chain_status
    from deltaic.consumer.listener import RefreshListener
    from deltaic.consumer.longevity import HeldState, Longevity
    from deltaic.consumer.metrics import ConsumerMetrics, Counts
    from deltaic.consumer.otel import OpenTelemetryListener
    from deltaic.consumer.refresh import Loaded
    from deltaic.consumer.report import Refresh, RefreshFailure, RefreshStep, Status
    from deltaic.consumer.verify import Finding, Verification, verify_chain

_HOMES = {
    "CachedType": "cached",
    "ChainStatus": "inspect",
    "ChangeFeed": "feed",
    "Changes": "changes",
    "Consumer": "consumer",
    "ConsumerMetrics": "metrics",
    "Counts": "metrics",
    "FailedTransition": "failed",
    "FeedColumns": "feed",
    "FeedListener": "feed",
    "FeedStep": "feed",
    "Finding": "verify",
    "HeldState": "longevity",
    "Loaded": "refresh",
    "Longevity": "longevity",
    "Modified": "changes",
    "OpenTelemetryListener": "otel",
    "Refresh": "report",
    "RefreshFailure": "report",
    "RefreshListener": "listener",
    "RefreshStep": "report",
    "Status": "report",
    "TypeChanges": "changes",
    "Verification": "verify",
    "chain_status": "inspect",
    "verify_chain": "verify",
}

__all__ = [
    "CachedType",
    "ChainStatus",
    "ChangeFeed",
    "Changes",
    "Consumer",
    "ConsumerMetrics",
    "Counts",
    "FailedTransition",
    "FeedColumns",
    "FeedListener",
    "FeedStep",
    "Finding",
    "HeldState",
    "Loaded",
    "Longevity",
    "Modified",
    "OpenTelemetryListener",
    "Refresh",
    "RefreshFailure",
    "RefreshListener",
    "RefreshStep",
    "Status",
    "TypeChanges",
    "Verification",
    "chain_status",
    "verify_chain",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'deltaic.consumer' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"deltaic.consumer.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
