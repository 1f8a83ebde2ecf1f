"""Announcing: which version consumers should be at, decided by one conditional put.

Every operation reads `announced.json`, computes the next one from it, and puts it if nobody was faster; a lost race is
computed again from what the winner wrote. Each operation has a random token that is part of what it writes, so that
after an unanswered put, or a conflict that was an own success, it finds itself in the file or its list of
recent tokens. The bare number for Hollow follows after; it is computed from the record, never the other way round.
"""

import logging
import os
import random as random_module
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from deltaic.errors import (
    CommitConflictError,
    CommitUnknownError,
    InputError,
    NotFoundError,
    StorageError,
)
from deltaic.storage.announced import (
    CANARY,
    FORMAT,
    MAIN,
    MAX_RECORD_BYTES,
    MAX_VERSION,
    NUMBER_NAME,
    RECORD_NAME,
    AnnouncedVersion,
    Artifact,
    Record,
    decode_number,
    decode_record,
    decode_version,
    encode_number,
    encode_record,
    encode_version,
    version_name,
)
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobName
from deltaic.storage.store import Store

log = logging.getLogger("deltaic.storage")

RECENT_TOKENS = 64
"""How many writes back an operation can still be found."""

_ATTEMPTS = 30
_EMPTY = Record(FORMAT, 0, "0" * 32, (), 0, "nobody", 0, None, {}, None, ())


@dataclass(frozen=True, slots=True)
class Announcement:
    """What is announced, as one read of the store saw it."""

    record: Record | None
    """None for a chain with the bare number only: a Java producer's."""
    number: int | None
    """The bare number, where it was read; it is not when there is a record."""
    etag: str
    unknown: dict[str, Any] = field(default_factory=dict, repr=False)
    number_written: bool = True
    """False after an operation whose record landed but whose bare number did not: Java consumers lag behind."""

    @property
    def verified(self) -> bool:
        """True if files can be checked against announced sizes and checksums."""
        return self.record is not None

    @property
    def pin(self) -> int | None:
        """The version that everybody is held at."""
        return None if self.record is None else self.record.pin

    @property
    def epoch(self) -> int:
        """The highest lease epoch that was granted."""
        return 0 if self.record is None else self.record.epoch

    def version(self, channel: str = MAIN) -> int | None:
        """Where consumers of the channel should be; None if nothing is announced yet."""
        return self.number if self.record is None else self.record.target(channel)

    def entry(self, version: int) -> AnnouncedVersion | None:
        """What is listed of a version."""
        return None if self.record is None else self.record.find(version)


class Announcements:
    """The announcements of one chain.

    Args:
        store: the folder of the chain.
        writer: who writes, for people; host and process by default.
        clock: seconds since 1970.
        random: for tokens and delays; the system's own source by default.
        backoff: how reads are repeated and races waited out.
        keep_versions: how many versions stay listed with their files; older ones move to files of their own.
    """

    def __init__(
        self,
        store: Store,
        *,
        writer: str | None = None,
        clock: Callable[[], float] = time.time,
        random: random_module.Random | None = None,
        backoff: Backoff | None = None,
        keep_versions: int = 64,
    ) -> None:
        if not 1 <= keep_versions <= 900:
            raise InputError(f"keep_versions is {keep_versions}, must be from 1 to 900")
        self.store = store
        self.writer = writer or f"{socket.gethostname()}:{os.getpid()}"
        self._clock = clock
        self._random = random
        self._backoff = backoff or Backoff()
        self._keep_versions = keep_versions

    def read(self) -> Announcement:
        """What is announced now; NotFoundError if neither file is there."""
        found = self.read_if_changed(None)
        assert found is not None
        return found

    def read_if_changed(self, etag: str | None) -> Announcement | None:
        """What is announced, or None if it is still what that etag stands for."""
        kind, _, plain = (etag or "").partition(":")
        try:
            blob = self._backoff.read(
                lambda: self.store.get_if_changed(
                    RECORD_NAME, plain if kind == "record" else None, limit_bytes=MAX_RECORD_BYTES
                )
            )
        except NotFoundError:
            number = self._backoff.read(
                lambda: self.store.get_if_changed(NUMBER_NAME, plain if kind == "number" else None, limit_bytes=1024)
            )
            if number is None:
                return None
            return Announcement(None, decode_number(number.data, self._at(NUMBER_NAME)), f"number:{number.etag}")
        if blob is None:
            return None
        decoded = decode_record(blob.data, self._at(RECORD_NAME))
        return Announcement(decoded.record, None, f"record:{blob.etag}", decoded.unknown)

    def announce(self, version: int, artifacts: Iterable[Artifact], *, epoch: int, channel: str = MAIN) -> Announcement:
        """Announce a new version on a channel. An epoch that is not the newest is refused: CommitConflictError.

        Announcing on `main` ends a canary, which is older then.
        """
        listed = tuple(artifacts)

        def change(record: Record) -> Record:
            _check_epoch(record, epoch)
            newest = record.versions[0].version if record.versions else -1
            if not newest < version <= MAX_VERSION:
                raise InputError(f"version {version} is not newer than {newest}: to go back, pin or withdraw")
            entry = AnnouncedVersion(version, self._now_ms(), epoch, (channel,), listed)
            channels = {**record.channels, channel: version}
            if channel == MAIN:
                channels.pop(CANARY, None)
            return msgspec.structs.replace(record, channels=channels, versions=(entry, *record.versions))

        return self._update(f"announce version {version}", change)

    def add_artifacts(self, version: int, artifacts: Iterable[Artifact], *, epoch: int) -> Announcement:
        """Add files to a version that is announced already, such as a snapshot made in the background."""
        added = tuple(artifacts)

        def change(record: Record) -> Record:
            _check_epoch(record, epoch)
            entry = _listed(record, version)
            kept = tuple(old for old in entry.artifacts if old.name not in {new.name for new in added})
            return _with_entry(record, msgspec.structs.replace(entry, artifacts=(*kept, *added)))

        return self._update(f"add files to version {version}", change)

    def remove_artifacts(self, names: Collection[str]) -> None:
        """List these blobs no longer, because they are about to be removed.

        A version of which nothing stays listed leaves the list. A crash after this leaves files that nobody asks for.

        Raises:
            InputError: consumers are sent to a version of which nothing would be left.
        """
        gone = frozenset(names)
        owners = {blob.owner for name in gone if (blob := BlobName.parse(name)) is not None}
        listed = {entry.version: entry for entry in self._must_read().versions}
        if any(artifact.name in gone for version in owners & set(listed) for artifact in listed[version].artifacts):
            self._put("stop listing files", lambda record: _without(record, gone), self._new_token())
        for version in sorted(owners - set(listed)):
            self._remove_from_file(version, gone)

    def _remove_from_file(self, version: int, gone: frozenset[str]) -> None:
        name = version_name(version)
        for _ in range(_ATTEMPTS):
            try:
                blob = self._backoff.read(lambda: self.store.get(name, limit_bytes=MAX_RECORD_BYTES))
            except NotFoundError:
                return
            entry = decode_version(blob.data, self._at(name))
            kept = tuple(artifact for artifact in entry.artifacts if artifact.name not in gone)
            if kept == entry.artifacts:
                return
            try:
                if kept:
                    changed = msgspec.structs.replace(entry, artifacts=kept)
                    self.store.put_if_match(name, encode_version(changed), blob.etag)
                else:
                    # An empty list would say that nothing is known of the files of this version and of older ones.
                    self.store.delete(name)
                return
            except (CommitConflictError, CommitUnknownError):
                self._backoff.sleep(next(self._backoff.delays()))
        raise CommitConflictError(f"cannot stop listing files in {self._at(name)}: lost {_ATTEMPTS} races in a row")

    def pin(self, version: int) -> Announcement:
        """Hold every consumer, of all channels and of Java, at a version that was announced once."""
        entry = self._must_read().find(version) or self._read_version(version)
        if entry is None:
            raise NotFoundError(f"version {version} was never announced in {self.store.url}")

        def change(record: Record) -> Record:
            kept = record if record.find(version) is not None else _with_entry(record, entry)
            return msgspec.structs.replace(kept, pin=version)

        return self._update(f"pin version {version}", change)

    def unpin(self) -> Announcement:
        """Let consumers follow their channels again."""
        self._must_read()
        return self._update("unpin", lambda record: msgspec.structs.replace(record, pin=None))

    def promote(self, channel: str = CANARY) -> Announcement:
        """Announce on `main` what is announced on another channel, and end that."""
        self._must_read()

        def change(record: Record) -> Record:
            entry = _listed(record, _on(record, channel))
            rest = {name: version for name, version in record.channels.items() if name != channel}
            promoted = msgspec.structs.replace(entry, channels=tuple(dict.fromkeys((*entry.channels, MAIN))))
            return msgspec.structs.replace(_with_entry(record, promoted), channels={**rest, MAIN: entry.version})

        if channel == MAIN:
            raise InputError("main is where others are promoted to")
        return self._update(f"promote {channel}", change)

    def withdraw(self, channel: str = CANARY) -> Announcement:
        """Take back what is announced on a channel; `main` goes back to its last version that was not withdrawn."""
        self._must_read()

        def change(record: Record) -> Record:
            entry = _listed(record, _on(record, channel))
            channels = {name: version for name, version in record.channels.items() if version != entry.version}
            if channel == MAIN or record.channels.get(MAIN) == entry.version:
                channels[MAIN] = _last_good(record, entry.version)
            withdrawn = msgspec.structs.replace(entry, withdrawn=True)
            return msgspec.structs.replace(_with_entry(record, withdrawn), channels=channels)

        return self._update(f"withdraw {channel}", change)

    def entry_of(self, version: int) -> AnnouncedVersion | None:
        """What was announced of a version, however long ago; None if it never was, or not by deltaic."""
        try:
            listed = self.read().entry(version)
        except NotFoundError:
            listed = None
        return listed or self._read_version(version)

    def was_announced(self, version: int, channel: str = MAIN) -> bool:
        """True if the version was announced on that channel once."""
        entry = self.entry_of(version)
        return entry is not None and channel in entry.channels

    def repair_number(self) -> Announcement:
        """Write the bare number again if a crash left it behind the record."""
        self._must_read()
        return self._write_number(self.read())

    def update(self, what: str, change: Callable[[Record], Record], *, write_number: bool = True) -> Announcement:
        """Change the record by a function of the current one, which may run several times; for leases."""
        return self._update(what, change) if write_number else self._put(what, change, self._new_token())

    def now_ms(self) -> int:
        """The time by the clock that was given, in milliseconds since 1970."""
        return self._now_ms()

    def _update(self, what: str, change: Callable[[Record], Record]) -> Announcement:
        token = self._new_token()
        landed = self._put(what, change, token)
        if landed.version(MAIN) is None:
            return landed
        return self._write_number(landed)

    def _put(self, what: str, change: Callable[[Record], Record], token: str) -> Announcement:
        delays = self._backoff.delays()
        asked: Record | None = None  # the write that was sent last and may have landed, whatever was answered
        unanswered = False
        for _ in range(_ATTEMPTS):
            found = self._read_or_none(asked is not None, what)
            if found is not None and found.record is not None and found.record.wrote(token):
                return found
            base = self._base(found)
            if asked is not None and base.sequence > asked.sequence + RECENT_TOKENS:
                raise self._unknown(what)
            if asked is not None and base.sequence >= asked.sequence:
                unanswered = False  # others wrote in its place, and it cannot land any more
            record = self._next(base, change, token)
            data = encode_record(record, found.unknown if found is not None else None)
            try:
                if found is None or found.record is None:
                    etag = self.store.put_if_absent(RECORD_NAME, data)
                else:
                    etag = self.store.put_if_match(RECORD_NAME, data, found.etag.partition(":")[2])
            except CommitConflictError:
                pass  # the next read tells who won; it may have been this very operation
            except CommitUnknownError:
                unanswered = True
            else:
                return Announcement(record, None, f"record:{etag}", found.unknown if found is not None else {})
            asked = record
            self._backoff.sleep(next(delays))
        if unanswered:
            raise self._unknown(what)
        raise CommitConflictError(f"cannot {what} in {self.store.url}: lost {_ATTEMPTS} races in a row")

    def _read_or_none(self, may_have_landed: bool, what: str) -> Announcement | None:
        try:
            return self.read()
        except NotFoundError:
            return None
        except StorageError as error:
            if may_have_landed:
                raise self._unknown(what) from error
            raise

    def _base(self, found: Announcement | None) -> Record:
        if found is None:
            return _EMPTY
        if found.record is not None:
            return found.record
        # A chain that a Java producer announced so far: its version is taken over, without files to check.
        assert found.number is not None
        entry = AnnouncedVersion(found.number, self._now_ms(), 0, (MAIN,), ())
        return msgspec.structs.replace(_EMPTY, channels={MAIN: found.number}, versions=(entry,))

    def _next(self, base: Record, change: Callable[[Record], Record], token: str) -> Record:
        record = self._trimmed(change(base))
        return msgspec.structs.replace(
            record,
            format=FORMAT,
            sequence=base.sequence + 1,
            token=token,
            tokens=(base.token, *base.tokens)[:RECENT_TOKENS] if base.sequence else (),
            written_ms=self._now_ms(),
            writer=self.writer,
        )

    def _trimmed(self, record: Record) -> Record:
        """Old versions leave the list, each for a file of its own, which is written before."""
        needed = {*record.channels.values(), record.pin}
        kept = tuple(
            entry
            for place, entry in enumerate(record.versions)
            if place < self._keep_versions or entry.version in needed
        )
        for entry in record.versions:
            if entry not in kept:
                self.store.put(version_name(entry.version), encode_version(entry))
        return msgspec.structs.replace(record, versions=kept)

    def _write_number(self, landed: Announcement) -> Announcement:
        """Bring the bare number to what the record says. Reading the number before the record keeps a slow writer
        from putting an older number over a newer one; reading the record again after finds those that were faster.
        """
        try:
            for _ in range(_ATTEMPTS):
                number_etag = self._number_etag()
                before = self.read()
                wanted = before.version(MAIN)
                if wanted is None:
                    return landed
                data = encode_number(wanted)
                try:
                    if number_etag is None:
                        self.store.put_if_absent(NUMBER_NAME, data)
                    elif self.store.get(NUMBER_NAME, limit_bytes=1024).data != data:
                        self.store.put_if_match(NUMBER_NAME, data, number_etag)
                except (CommitConflictError, CommitUnknownError):
                    self._backoff.sleep(next(self._backoff.delays()))
                    continue
                if self.read_if_changed(before.etag) is None:
                    return landed
        except (StorageError, NotFoundError) as error:
            log.warning("the bare number of %s is behind its record: %s", self.store.url, error)
        return replace(landed, number_written=False)

    def _number_etag(self) -> str | None:
        try:
            return self._backoff.read(lambda: self.store.head(NUMBER_NAME)).etag
        except NotFoundError:
            return None

    def _read_version(self, version: int) -> AnnouncedVersion | None:
        name = version_name(version)
        try:
            blob = self._backoff.read(lambda: self.store.get(name, limit_bytes=MAX_RECORD_BYTES))
        except NotFoundError:
            return None
        return decode_version(blob.data, self._at(name))

    def _must_read(self) -> Record:
        found = self.read()
        if found.record is None:
            raise InputError(
                f"{self.store.url} is announced by another producer ({NUMBER_NAME} only); a record would hide "
                "that producer's next versions: pin in the consumer instead"
            )
        return found.record

    def _new_token(self) -> str:
        return secrets.token_hex(16) if self._random is None else f"{self._random.getrandbits(128):032x}"

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _at(self, name: str) -> str:
        return f"{self.store.url}/{name}"

    def _unknown(self, what: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"cannot tell whether to {what} in {self.store.url} succeeded: the store gave no answer"
        )


def _check_epoch(record: Record, epoch: int) -> None:
    if epoch != record.epoch:
        raise CommitConflictError(
            f"the lease of epoch {epoch} is over, epoch {record.epoch} was granted since: do not announce"
        )


def _on(record: Record, channel: str) -> int:
    if channel not in record.channels:
        raise NotFoundError(f"nothing is announced on the channel {channel!r}")
    return record.channels[channel]


def _listed(record: Record, version: int) -> AnnouncedVersion:
    entry = record.find(version)
    if entry is None:
        raise NotFoundError(f"version {version} is not among the {len(record.versions)} that are listed")
    return entry


def _with_entry(record: Record, entry: AnnouncedVersion) -> Record:
    others = [other for other in record.versions if other.version != entry.version]
    versions = tuple(sorted((*others, entry), key=lambda each: -each.version))
    return msgspec.structs.replace(record, versions=versions)


def _without(record: Record, gone: frozenset[str]) -> Record:
    """The record without these files, and without versions that then list none."""
    needed = {*record.channels.values(), record.pin}
    versions = []
    for entry in record.versions:
        kept = tuple(artifact for artifact in entry.artifacts if artifact.name not in gone)
        if kept == entry.artifacts:
            versions.append(entry)
        elif kept:
            versions.append(msgspec.structs.replace(entry, artifacts=kept))
        elif entry.version in needed:
            raise InputError(f"consumers are sent to version {entry.version}: not all of its files can be removed")
    return msgspec.structs.replace(record, versions=tuple(versions))


def _last_good(record: Record, version: int) -> int:
    for entry in record.versions:
        if entry.version < version and MAIN in entry.channels and not entry.withdrawn:
            return entry.version
    raise NotFoundError(f"there is no version before {version} to go back to")
