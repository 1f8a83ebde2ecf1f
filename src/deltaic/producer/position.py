"""Where a producer stands: its lease, what is announced, and a write state at the version that the chain goes on from.

Every cycle starts here, so that a cycle that failed, a restart and another producer's work are all the same case.
"""

import logging
import random
from collections.abc import Callable, Iterable

from deltaic.errors import CommitConflictError
from deltaic.limits import Limits
from deltaic.producer.attempt import Attempt
from deltaic.producer.holding import LeaseHolder
from deltaic.producer.leftovers import base_version, remove_leftovers
from deltaic.producer.restoring import load_version
from deltaic.producer.stage import sweep_staging
from deltaic.schema.evolve import Renames
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.storage.announced import Record
from deltaic.storage.announcement import Announcements

log = logging.getLogger("deltaic.producer")


class Position:
    """The version before the next one, as a state to compare with and as a write state to go on with.

    Args:
        announcements: of the chain.
        lease: taken with the first cycle.
        new_write_state: makes an empty write state of the model.
        limits: bounds on blobs that are read at a restart.
        renamed: what fields of the model were called before.
        randomness: where the state tags of versions come from that are built outside.
    """

    def __init__(
        self,
        announcements: Announcements,
        lease: LeaseHolder,
        new_write_state: Callable[[], WriteState],
        limits: Limits,
        renamed: Callable[[], Renames] = dict,
        randomness: random.Random | None = None,
    ) -> None:
        self._announcements, self._lease = announcements, lease
        self._new_write_state, self._limits, self._renamed = new_write_state, limits, renamed
        self._randomness, self._outside = randomness, False
        self.version: int | None = None
        self.state: ReadState | None = None
        self._write_state: WriteState | None = None
        self._record: Record | None = None
        self._unsure = True
        """True if the store may hold leftovers of a cycle that failed, of this producer or of one before."""
        self._own_leftovers: set[str] = set()
        self._unanswered: Attempt | None = None
        """An attempt whose announcement got no answer: the next cycle finds out."""

    @property
    def write_state(self) -> WriteState:
        """The write state, at the start of the next version."""
        assert self._write_state is not None
        return self._write_state

    @property
    def record(self) -> Record:
        """What is announced, as it was read last."""
        assert self._record is not None
        return self._record

    def take(self, *, at_work: Iterable[str] = (), outside: bool = False) -> bool:
        """Hold the lease, know what is announced, clear leftovers, and have a write state at the announced version.

        Args:
            at_work: cycle ids whose staging folders are still needed.
            outside: the version is built outside of this process: the write state is for its tags alone.

        Returns:
            True if the write state was restored from the chain.
        """
        epoch = None if self._lease.lease is None else self._lease.lease.epoch
        if self._unsure or epoch is None:
            self._lease.take()
        else:
            try:
                self._lease.keep()
            except CommitConflictError:
                self._lease.take()
        self._unsure |= self._lease.epoch != epoch
        record = self._announcements.read().record
        assert record is not None
        self._record = record
        self._settle(record)
        base = base_version(record)
        if self._unsure or base != self.version:
            # Leftovers of a crash, or of a version that was withdrawn since: nobody may be led over them.
            store = self._announcements.store
            removed = remove_leftovers(store, record, self._announcements, own=self._own_leftovers)
            removed += sweep_staging(store, keep=at_work)
            if removed:
                log.info("removed %d leftovers of cycles that failed: %s", len(removed), ", ".join(removed[:8]))
            self._own_leftovers.clear()
            self._unsure = False
        if self._write_state is None or base != self.version or outside != self._outside:
            self._outside = outside
            self._rebuild(base)
            return base is not None
        return False

    def check(self) -> None:
        """Right before anything gets a final name: the lease is still ours, and the base is still the newest."""
        record = self._announcements.read().record
        if record is None or record.epoch != self._lease.epoch:
            self._lease.lost()
            raise CommitConflictError("another producer took the lease during this cycle: nothing was published")
        if base_version(record) != self.version:
            raise CommitConflictError(
                f"version {self.version}, which this cycle starts from, was withdrawn meanwhile: nothing was published"
            )
        self._record = record

    def accept(self, attempt: Attempt) -> None:
        """The attempt is announced: the next version starts from it."""
        self.write_state.next_cycle()
        self.state, self.version = attempt.state, attempt.version
        self._unsure |= not attempt.unstage()

    def give_up(self, attempt: Attempt | None, *, announced: bool | None, fenced: bool) -> None:
        """The attempt failed: back to the start of the version.

        Args:
            attempt: what was tried, if it came that far.
            announced: None if it may be announced after all: nothing that it needs is removed before that is known.
            fenced: another producer may be at work.
        """
        self._unsure |= fenced
        if attempt is not None and announced is None:
            self._unanswered, self._unsure = attempt, True
            return
        if attempt is not None and not attempt.take_back():
            self._unsure = True
            self._own_leftovers |= {str(blob.name) for blob in attempt.blobs.values()}
            self._own_leftovers |= {str(blob.name) for blob in attempt.staged.values()}
            self._own_leftovers |= {file.name for file in attempt.attached}
        self.reset()

    def begin_again(self) -> None:
        """Make the write state anew from the state of the version before: the model is another one."""
        self._write_state = None

    def reset(self) -> None:
        """Forget what was added since the version before."""
        if self._write_state is None:
            return
        try:
            self._write_state.reset_to_last()
        except Exception:
            log.exception("the write state could not be reset; it is built again from the chain")
            self._write_state = None

    def _settle(self, record: Record) -> None:
        """Find out what became of an unanswered announcement; the lease was renewed since, so it cannot land late."""
        attempt, self._unanswered = self._unanswered, None
        if attempt is None or self._write_state is None:
            return
        if record.find(attempt.version) is not None:
            log.info("version %d was announced after all", attempt.version)
            self._write_state.next_cycle()
            self.state, self.version = attempt.state, attempt.version
        else:
            self._write_state.reset_to_last()

    def _rebuild(self, base: int | None) -> None:
        if self._outside:
            self._write_state = WriteState((), randomness=self._randomness)
            self.state, self.version = None, base
            return
        write_state = self._new_write_state()
        state = self.state if base == self.version else None
        if base is not None:
            if state is None:
                state = load_version(self._announcements.store, self._announcements, base, limits=self._limits)
            write_state.restore(state, exact=True, renamed=self._renamed())
            log.info("restored version %d", base)
        self._write_state, self.state, self.version = write_state, state, base
