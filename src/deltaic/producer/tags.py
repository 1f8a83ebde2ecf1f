"""Header tags of a version (hollow-blob.md, 17.3), and ours beside them."""

from collections.abc import Mapping

from deltaic.errors import InputError
from deltaic.limits import MAX_NAME_BYTES
from deltaic.producer.diff import SCHEMA_HASH_TAG, model_changed
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.state.write import RESHARDING_TAG, WriteState
from deltaic.vector.storage import VECTORS_TAG

VERSION_TAG = "hollow.blob.to.version"
CYCLE_START_TAG = "hollow.metric.cycle.start"
COUNTER_TAG = "hollow.delta.chain.version.counter"
PARTITIONED_TAG = "hollow.partitioned.ordinal.map"
SCHEMA_CHANGED_TAG = "hollow.schema.changedFromPriorVersion"
NOTE_TAG = "deltaic.note"
"""What people wrote about a version."""

_RESERVED = (
    VERSION_TAG,
    SCHEMA_HASH_TAG,
    CYCLE_START_TAG,
    COUNTER_TAG,
    PARTITIONED_TAG,
    SCHEMA_CHANGED_TAG,
    RESHARDING_TAG,
    TYPES_TAG,
    VECTORS_TAG,
    NOTE_TAG,
)


def check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags of the caller, if they can be written and are not ours or Hollow's."""
    for name, value in tags.items():
        if name in _RESERVED:
            raise InputError(f"the header tag {name!r} is set by the producer itself", "ReservedTag")
        # Modified UTF-8 takes at most three bytes for a UTF-16 unit, and a Python character is at most two units.
        if 6 * max(len(name), len(value)) > MAX_NAME_BYTES:
            raise InputError(f"header tag {name[:40]!r} is longer than {MAX_NAME_BYTES // 6:,} characters", "TooLarge")
    return dict(tags)


def forget_tags(state: WriteState) -> None:
    """Take the tags of the version before out, so that none stays by accident."""
    for name in list(state.header_tags):
        del state.header_tags[name]


def set_tags(
    state: WriteState,
    model: Model,
    previous: ReadState | None,
    *,
    version: int,
    started_ms: int,
    extra: Mapping[str, str],
    note: str | None,
    vectors: str = "",
) -> None:
    """Give the version that is being built its tags."""
    tags = dict(extra)
    tags[VERSION_TAG] = str(version)
    tags[SCHEMA_HASH_TAG] = model.schemas.hash()
    tags[CYCLE_START_TAG] = str(started_ms)
    tags[COUNTER_TAG] = str(_counter(previous) + 1)
    tags[PARTITIONED_TAG] = "false"
    if previous is not None and model_changed(model, previous):
        tags[SCHEMA_CHANGED_TAG] = "true"
    if types_tag := model.types_tag():
        tags[TYPES_TAG] = types_tag
    if vectors:
        tags[VECTORS_TAG] = vectors
    if note is not None:
        tags[NOTE_TAG] = note
    for name, value in tags.items():
        state.header_tags[name] = value


def _counter(previous: ReadState | None) -> int:
    if previous is None:
        return 0
    text = previous.header_tags.get(COUNTER_TAG, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
