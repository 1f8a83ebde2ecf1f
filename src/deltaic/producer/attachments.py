"""Files beside the blobs of a version: made from its state, staged and published with it, listed in its announcement.

A consumer that does not know a kind of file passes it over, and Java never sees one: it goes by the names of blobs.
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltaic.producer.stage import STAGING
from deltaic.producer.validators import Candidate
from deltaic.storage.announced import Artifact
from deltaic.storage.checksum import Checksum
from deltaic.storage.store import Store

_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<version>\d{1,19})-[A-Za-z0-9_.]{1,200}")
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that was made for a version."""

    kind: str
    """As the announcement calls it: lower-case letters."""
    name: str
    """`<kind>-<version>-<rest>`, so that a cleaner knows what it belongs to."""
    path: Path
    """Where its bytes are until it is staged."""


class Attachment(Protocol):
    """Makes files for every version."""

    def files(self, candidate: Candidate, folder: Path) -> Iterable[AttachedFile]:
        """The files of a version, written into a temporary folder."""
        ...


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in the staging folder, and what it is to be called."""

    name: str
    key: str
    artifact: Artifact


def stage_attachments(
    store: Store, cycle_id: str, attachments: Sequence[Attachment], candidate: Candidate, keys: list[str]
) -> list[StagedFile]:
    """Make the files of a version and put them into the staging folder; `keys` gets each key before it is written."""
    staged: list[StagedFile] = []
    if not attachments:
        return staged
    with tempfile.TemporaryDirectory(prefix="deltaic-") as folder:
        for attachment in attachments:
            for file in attachment.files(candidate, Path(folder)):
                assert version_of(file.name) == candidate.version
                key = f"{STAGING}/{cycle_id}/{file.name}"
                total = Checksum()
                with open(file.path, "rb") as source:
                    while piece := source.read(_CHUNK_BYTES):
                        total.update(piece)
                keys.append(key)
                store.put_file(key, file.path)
                artifact = Artifact(file.kind, file.name, total.size_bytes, total.text())
                staged.append(StagedFile(file.name, key, artifact))
    return staged


def version_of(name: str) -> int | None:
    """The version that an attached file belongs to, by its name; None if it is no such file."""
    found = _NAME.fullmatch(name)
    return (
        None
        if found is None or found["kind"] in ("snapshot", "delta", "reversedelta", "header")
        else int(found["version"])
    )
