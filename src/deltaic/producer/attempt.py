"""One attempt at a version: what it has staged and published, so that a failure can take all of it back."""

from collections.abc import Iterable

from deltaic.producer.encode import EncodedBlob
from deltaic.producer.publish import Publication
from deltaic.producer.stage import StagedBlob, stage, unstage
from deltaic.state.read import ReadState
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind
from deltaic.storage.packing import Packing
from deltaic.storage.store import Store


class Attempt:
    """The blobs of a version between encoding and announcing."""

    def __init__(
        self,
        store: Store,
        version: int,
        cycle_id: str,
        blobs: dict[BlobKind, EncodedBlob],
        packing: Packing | None = None,
    ) -> None:
        self.version = version
        self.cycle_id = cycle_id
        self.blobs = blobs
        self.staged: dict[BlobKind, StagedBlob] = {}
        self.publication = Publication(store)
        self.state: ReadState | None = None
        self.announcing = False
        """True from the moment at which the announcement may be on its way."""
        self._store, self._packing = store, packing
        self._keys: list[str] = []

    def stage(self, kinds: Iterable[BlobKind]) -> None:
        """Put these blobs into the staging folder."""
        for kind in kinds:
            blob = self.blobs[kind]
            self._keys.append(f"staging/{self.cycle_id}/{blob.name}")
            self.staged[kind] = stage(self._store, self.cycle_id, blob, self._packing)

    def publish(self) -> None:
        """Give what is staged its final names."""
        self.publication.publish(self.staged.values())

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the announcement will list."""
        return tuple(blob.artifact for blob in self.staged.values())

    def take_back(self) -> bool:
        """Remove everything from the store; False if something may be left."""
        return self.publication.take_back() & unstage(self._store, self._keys)

    def unstage(self) -> bool:
        """Remove the staged copies; False if something may be left."""
        return unstage(self._store, self._keys)

    def close(self, *, keep: Iterable[BlobKind] = ()) -> None:
        """Let go of the encoded bytes."""
        for kind, blob in self.blobs.items():
            if kind not in keep:
                blob.close()
