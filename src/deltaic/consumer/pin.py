"""Where a consumer should be: its own pin, else everybody's pin, else what its channel announces."""

from dataclasses import dataclass

from deltaic.storage.announcement import Announcement


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to be, and why."""

    version: int | None
    announced: int | None
    """What the channel says, pins aside."""
    pinned: int | None
    pinned_by: str | None


def wanted(announcement: Announcement | None, channel: str, local_pin: int | None) -> Wanted:
    """Where a consumer of a channel should be."""
    if announcement is None:
        return Wanted(local_pin, None, local_pin, None if local_pin is None else "consumer")
    record = announcement.record
    announced = announcement.number if record is None else record.channels.get(channel, record.channels.get("main"))
    if local_pin is not None:
        return Wanted(local_pin, announced, local_pin, "consumer")
    if announcement.pin is not None:
        return Wanted(announcement.pin, announced, announcement.pin, "announcement")
    return Wanted(announced, announced, None, None)
