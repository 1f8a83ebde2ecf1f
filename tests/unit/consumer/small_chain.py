"""A small chain, published version by version, for tests that follow it.

Every record of a version carries the version as its watermark, so that a reader who mixes two versions is caught.
"""

import io
from dataclasses import dataclass, field

from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.storage.announced import MAIN, Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.checksum import checksum
from deltaic.storage.lease import acquire_lease
from deltaic.storage.store import Store

SCHEMAS = """
Movie @PrimaryKey(id) { long id; String title; int watermark; Country country; }
String { string value; }
Country @PrimaryKey(code) { string code; int size; }
"""

COUNTRIES = {"de": 83, "fr": 68, "it": 59}


@dataclass
class SmallChain:
    """Publishes to a store as a producer does: blobs first, then the announcement."""

    store: Store
    record: bool = True
    """False announces by the bare number only, as a Java producer does."""
    first_version: int = 1
    writer: WriteState = field(default_factory=lambda: WriteState(parse_schemas(SCHEMAS)))
    versions: list[int] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    _epoch: int | None = None
    _base: int | None = None

    @property
    def announcements(self) -> Announcements:
        return Announcements(self.store)

    def publish(
        self,
        titles: dict[int, str] | None = None,
        *,
        version: int | None = None,
        snapshot: bool = True,
        reverse: bool = True,
        channel: str = MAIN,
        countries: dict[str, int] | None = None,
        announce: bool = True,
    ) -> int:
        """Write the next version with these movies, and announce it."""
        version = version or (self.versions[-1] + 1 if self.versions else self.first_version)
        titles = {number: f"Movie {number}" for number in range(5)} if titles is None else titles
        places = {
            code: self.writer.add_object("Country", {"code": code, "size": size})
            for code, size in (COUNTRIES if countries is None else countries).items()
        }
        codes = sorted(places)
        for number, title in titles.items():
            text = self.writer.add_object("String", {"value": title})
            country = places[codes[number % len(codes)]] if codes else None
            values = {"id": number, "title": text, "watermark": version, "country": country}
            self.writer.add_object("Movie", values)
        self.writer.header_tags["hollow.blob.to.version"] = str(version)
        written: dict[str, tuple[str, int | None, bytes]] = {}
        if snapshot or self._base is None:
            written[f"snapshot-{version}"] = ("snapshot", None, self._written("snapshot"))
        if self._base is not None:
            written[f"delta-{self._base}-{version}"] = ("delta", self._base, self._written("delta"))
            if reverse:
                written[f"reversedelta-{version}-{self._base}"] = (
                    "reverse_delta",
                    version,
                    self._written("reverse_delta"),
                )
        artifacts = []
        for name, (kind, start, data) in written.items():
            self.store.put(name, data)
            self.blobs[name] = data
            end = None if start is None else (self._base if kind == "reverse_delta" else version)
            artifacts.append(Artifact(kind, name, len(data), checksum(data), start, end))
        self.writer.next_cycle()
        if announce:
            self.announce(version, artifacts, channel)
        self.versions.append(version)
        self._base = version
        return version

    def announce(self, version: int, artifacts: list[Artifact], channel: str = MAIN) -> None:
        if not self.record:
            self.store.put("announced.version", b"%d" % version)
            return
        if self._epoch is None:
            self._epoch = acquire_lease(self.announcements).epoch
        self.announcements.announce(version, artifacts, epoch=self._epoch, channel=channel)

    def go_on_from(self, version: int, state: ReadState) -> None:
        """Continue from an older version, as a producer does after its last one was withdrawn."""
        self.writer = WriteState(parse_schemas(SCHEMAS))
        self.writer.restore(state)
        self._base = version

    def _written(self, kind: str) -> bytes:
        stream = io.BytesIO()
        getattr(self.writer, f"write_{kind}")(stream)
        return stream.getvalue()


def titles(state: ReadState) -> dict[int, str]:
    """Movies by id, as a reader sees them."""
    return {movie.id: movie.title for movie in state["Movie"]}


def watermarks(state: ReadState) -> set[int]:
    """The versions that the records of a state claim to be of: one, if nothing is mixed."""
    return {int(mark) for mark in state["Movie"].column("watermark").to_pylist()}
