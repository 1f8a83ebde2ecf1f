"""Following with asyncio: the versions that a consumer moves to, as they come."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from deltaic.consumer.changes import Changes
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh

if TYPE_CHECKING:
    from deltaic.consumer.consumer import Consumer

_LOOK_SECONDS = 0.5


class _Relay(RefreshListener):
    """Carries versions from the thread that refreshes to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: "asyncio.Queue[int]") -> None:
        self._loop, self._queue = loop, queue

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Pass a version on."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, refresh.to_version)


async def follow(consumer: "Consumer") -> AsyncIterator[int]:
    """Each version that the consumer moves to, the present one first, until it is stopped."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    relay = _Relay(asyncio.get_running_loop(), queue)
    consumer.add_listener(relay)
    started_here = not consumer.running
    last: int | None = None
    try:
        if started_here:
            await asyncio.to_thread(consumer.start, load=False)
        if consumer.version is not None:
            last = consumer.version
            yield last
        while True:
            try:
                version = await asyncio.wait_for(queue.get(), _LOOK_SECONDS)
            except TimeoutError:
                if not consumer.running:
                    return
                continue
            if version != last:
                last = version
                yield version
    finally:
        consumer.remove_listener(relay)
        if started_here:
            await asyncio.to_thread(consumer.stop)
