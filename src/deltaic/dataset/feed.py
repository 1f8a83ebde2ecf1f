"""The change feed of a dataset: its steps as patches, with fields named as its registry numbers them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deltaic.consumer.feed import ChangeFeed, changes_between

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset


def dataset_changes(
    dataset: "Dataset",
    from_version: int,
    to_version: int | None = None,
    *,
    before: bool = False,
    types: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ChangeFeed:
    """What changed between two versions of the chain, step by step; `Dataset.changes` says more."""
    consumer = dataset.consumer(share=False)
    return changes_between(consumer, from_version, to_version, before=before, types=types, progress=progress)
