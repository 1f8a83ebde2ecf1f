"""The change feed of a dataset: its steps as patches, on the wire by the numbers that its registry gives fields."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from deltaic.consumer.feed import ChangeFeed, changes_between
from deltaic.wire.references import Reference

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset
    from deltaic.schema.registry import Registry


def dataset_changes(
    dataset: "Dataset",
    from_version: int,
    to_version: int | None = None,
    *,
    before: bool = False,
    types: Sequence[str] | None = None,
    references: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ChangeFeed:
    """What changed between two versions of the chain, step by step; `Dataset.changes` says more.

    Args:
        dataset: whose chain.
        from_version: the version before the first step.
        to_version: the version after the last one; the announced one by default.
        before: give the values before, too.
        types: tell of these only.
        references: name fields on the wire by their numbers in the dataset's registry.
        progress: told how many steps are done, and of how many.
    """
    consumer = dataset.consumer(share=False)
    refer = field_numbers(dataset) if references else None
    return changes_between(
        consumer, from_version, to_version, before=before, types=types, refer=refer, progress=progress
    )


def field_numbers(dataset: "Dataset") -> Callable[[str], Reference | None]:
    """Gives the reference of a path as the stored registry has it; a path that it does not have has none.

    The registry is read when the first path is asked for. Nothing joins it: who reads a feed does not write.
    """

    @cache
    def refer(path: str) -> Reference | None:
        view = stored().view
        index = view.lookup(path)
        return None if index is None else Reference(view.current, index)

    @cache
    def stored() -> "Registry":
        from deltaic.dataset.registry import stored_registry

        return stored_registry(dataset)

    return refer
