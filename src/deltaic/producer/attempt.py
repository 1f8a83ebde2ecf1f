"""One attempt at a version: what it has staged and published, so that a failure can take all of it back."""

from collections.abc import Container, Iterable, Mapping, Sequence

from deltaic.producer.attachments import Attachment, StagedFile, stage_attachments
from deltaic.producer.encode import EncodedBlob
from deltaic.producer.publish import Publication
from deltaic.producer.stage import StagedBlob, stage, unstage
from deltaic.producer.validators import Candidate
from deltaic.producer.vector_parts import EncodedPart, staged_key
from deltaic.producer.vector_step import VectorStep
from deltaic.state.append_write import CollectedAppend
from deltaic.state.read import ReadState
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind, BlobName
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
        append: CollectedAppend | None = None,
    ) -> None:
        self.version = version
        self.append = append
        """What the delta appends for records that did not change."""
        self.cycle_id = cycle_id
        self.blobs = blobs
        self.staged: dict[BlobKind, StagedBlob] = {}
        self.publication = Publication(store)
        self.state: ReadState | None = None
        self.attached: list[StagedFile] = []
        """Files beside the blobs."""
        self.parts: dict[BlobKind, EncodedPart] = {}
        """The vector parts of the blobs."""
        self.step: VectorStep | None = None
        """How the vector columns of the version came to be."""
        self.only_checked: dict[BlobKind, StagedBlob] = {}
        """Staged to be compared with the others, and not to be published."""
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

    def expect(self, names: Iterable[BlobName | str]) -> None:
        """Take note of files that an engine is about to stage, so that a failure takes them back too."""
        self._keys += [f"staging/{self.cycle_id}/{name}" for name in names]

    def adopt(self, staged: Mapping[BlobKind, StagedBlob], *, only_checked: Container[BlobKind] = ()) -> None:
        """Take blobs over that were staged elsewhere."""
        for kind, blob in staged.items():
            if blob.key not in self._keys:
                self._keys.append(blob.key)
            (self.only_checked if kind in only_checked else self.staged)[kind] = blob

    @property
    def to_check(self) -> Mapping[BlobKind, StagedBlob]:
        """All that is staged."""
        return {**self.staged, **self.only_checked}

    def publish(self) -> None:
        """Give what is staged its final names."""
        self.publication.publish(self.staged.values(), self.attached)

    def attach(self, attachments: Sequence[Attachment], candidate: Candidate) -> None:
        """Make the files that go beside the blobs, and stage them."""
        for file in stage_attachments(self._store, self.cycle_id, attachments, candidate, self._keys):
            self.attached.append(file)

    def stage_parts(self, parts: Mapping[BlobKind, EncodedPart]) -> "Mapping[BlobKind, StagedFile | EncodedPart]":
        """Put the vector parts of staged blobs beside them; gives all parts, as they can be read back."""
        self.parts = dict(parts)
        found: dict[BlobKind, StagedFile | EncodedPart] = dict(parts)
        for kind, part in parts.items():
            if kind in self.staged:
                self._keys.append(staged_key(self.cycle_id, part.name))
                found[kind] = file = part.stage(self._store, self.cycle_id)
                self.attached.append(file)
        return found

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the announcement will list."""
        return (*(blob.artifact for blob in self.staged.values()), *(file.artifact for file in self.attached))

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
        for kind, part in self.parts.items():
            if kind not in keep:
                part.close()
