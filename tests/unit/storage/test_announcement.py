"""Announcements: what each operation does, what it refuses, and what the bytes are."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from deltaic.errors import CommitConflictError, DecodeError, InputError, NotFoundError
from deltaic.storage.announced import Artifact, decode_number, decode_record, encode_record
from deltaic.storage.announcement import Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.checksum import checksum
from deltaic.storage.lease import acquire_lease, release_lease, renew_lease
from deltaic.testing.simulated_store import SimulatedStore
from tests.unit.storage import plain_announcement

NO_WAIT = Backoff(sleep=lambda seconds: None)


def delta(before: int, after: int) -> Artifact:
    return Artifact("delta", f"delta-{before}-{after}", 9, checksum(b"123456789"), before, after)


class World:
    """A chain, its clock and a producer's lease."""

    def __init__(self, **options: Any) -> None:
        self.now = 1_000.0
        self.store = SimulatedStore(clock=lambda: self.now)
        self.announcements = Announcements(
            self.store, clock=lambda: self.now, backoff=NO_WAIT, writer="test", **options
        )
        self.epoch = 0

    def lease(self, holder: str = "one") -> None:
        self.epoch = acquire_lease(self.announcements, holder=holder).epoch

    def announce(self, *versions: int, channel: str = "main") -> None:
        for version in versions:
            self.announcements.announce(version, [delta(version - 1, version)], epoch=self.epoch, channel=channel)

    def version(self, channel: str = "main") -> int | None:
        return self.announcements.read().version(channel)

    def number(self) -> bytes:
        return self.store.get("announced.version").data


@pytest.fixture
def world() -> World:
    made = World()
    made.lease()
    return made


def test_an_announced_version_is_read_back_with_its_files(world: World) -> None:
    world.announce(5)
    found = world.announcements.read()
    entry = found.entry(5)
    assert (found.version(), found.version("canary"), found.verified, found.pin) == (5, 5, True, None)
    assert entry is not None and entry.artifacts == (delta(4, 5),)
    assert world.number() == b"5"


def test_nothing_announced_is_not_found(world: World) -> None:
    with pytest.raises(NotFoundError):
        Announcements(SimulatedStore()).read()
    assert world.version() is None
    with pytest.raises(NotFoundError):
        world.number()


def test_an_unchanged_announcement_is_not_read_again(world: World) -> None:
    world.announce(1)
    found = world.announcements.read()
    assert world.announcements.read_if_changed(found.etag) is None
    world.announce(2)
    again = world.announcements.read_if_changed(found.etag)
    assert again is not None and again.version() == 2


@pytest.mark.parametrize("version", [3, 2, 0, -1, 2**63 - 1])
def test_only_a_newer_version_is_announced(world: World, version: int) -> None:
    world.announce(3)
    with pytest.raises(InputError):
        world.announce(version)
    assert world.version() == 3


def test_a_canary_is_seen_by_its_group_only(world: World) -> None:
    world.announce(1)
    world.announce(2, channel="canary")
    assert (world.version(), world.version("canary"), world.number()) == (1, 2, b"1")
    assert not world.announcements.was_announced(2)
    world.announcements.promote()
    assert (world.version(), world.version("canary"), world.number()) == (2, 2, b"2")
    assert world.announcements.was_announced(2)
    with pytest.raises(NotFoundError):
        world.announcements.promote()
    with pytest.raises(InputError):
        world.announcements.promote("main")


def test_a_withdrawn_canary_leaves_its_group_at_main(world: World) -> None:
    world.announce(1)
    world.announce(2, channel="canary")
    world.announcements.withdraw()
    assert (world.version(), world.version("canary"), world.number()) == (1, 1, b"1")
    with pytest.raises(NotFoundError):
        world.announcements.withdraw()
    entry = world.announcements.entry_of(2)
    assert entry is not None and entry.withdrawn
    with pytest.raises(InputError):
        world.announce(2)


def test_a_withdrawn_main_goes_back_past_other_withdrawn_versions(world: World) -> None:
    world.announce(1, 2)
    world.announce(3, channel="canary")
    world.announcements.withdraw()
    world.announce(4)
    world.announcements.withdraw("main")
    assert (world.version(), world.number()) == (2, b"2")
    world.announcements.withdraw("main")
    assert world.version() == 1
    with pytest.raises(NotFoundError):
        world.announcements.withdraw("main")
    assert world.version() == 1


def test_an_announcement_on_main_ends_a_canary(world: World) -> None:
    world.announce(1)
    world.announce(2, channel="canary")
    world.announce(3)
    assert (world.version(), world.version("canary")) == (3, 3)


def test_a_pin_holds_everybody_also_java(world: World) -> None:
    world.announce(1, 2, 3)
    world.announcements.pin(1)
    assert (world.version(), world.version("canary"), world.number()) == (1, 1, b"1")
    world.announce(4)
    world.announce(5, channel="canary")
    assert (world.version(), world.version("canary"), world.number()) == (1, 1, b"1")
    world.announcements.unpin()
    assert (world.version(), world.version("canary"), world.number()) == (4, 5, b"4")
    with pytest.raises(NotFoundError):
        world.announcements.pin(77)


def test_files_are_added_to_an_announced_version(world: World) -> None:
    world.announce(1)
    snapshot = Artifact("snapshot", "snapshot-1", 5, "crc32c:00000001")
    world.announcements.add_artifacts(1, [snapshot], epoch=world.epoch)
    world.announcements.add_artifacts(1, [snapshot], epoch=world.epoch)
    entry = world.announcements.entry_of(1)
    assert entry is not None and entry.artifacts == (delta(0, 1), snapshot)
    with pytest.raises(NotFoundError):
        world.announcements.add_artifacts(9, [snapshot], epoch=world.epoch)
    with pytest.raises(CommitConflictError):
        world.announcements.add_artifacts(1, [snapshot], epoch=world.epoch - 1)


def test_versions_that_left_the_list_are_still_known() -> None:
    world = World(keep_versions=4)
    world.lease()
    world.announce(*range(1, 11))
    record = world.announcements.read().record
    assert record is not None and [entry.version for entry in record.versions] == [10, 9, 8, 7]
    old = world.announcements.entry_of(2)
    assert old is not None and old.artifacts == (delta(1, 2),)
    assert [world.announcements.was_announced(version) for version in (1, 6, 7, 10, 11, 0)] == [True] * 4 + [False] * 2
    world.announcements.pin(2)
    assert world.version() == 2
    world.announce(11, 12, 13, 14, 15)
    assert world.version() == 2 and world.announcements.read().entry(2) == old
    world.announcements.unpin()
    assert world.announcements.read().entry(2) is None
    assert world.announcements.entry_of(2) == old


def test_a_lease_is_one_holders(world: World) -> None:
    with pytest.raises(CommitConflictError, match="one holds the lease"):
        acquire_lease(world.announcements, holder="two")
    world.now += 61
    second = acquire_lease(world.announcements, holder="two", ttl_seconds=10)
    assert second.epoch == world.epoch + 1
    with pytest.raises(CommitConflictError):
        acquire_lease(world.announcements, holder="one")


def test_a_producer_whose_lease_was_taken_cannot_announce(world: World) -> None:
    world.announce(1)
    world.now += 61
    second = acquire_lease(world.announcements, holder="two")
    with pytest.raises(CommitConflictError, match="epoch"):
        world.announce(2)
    assert world.version() == 1
    with pytest.raises(CommitConflictError):
        world.announcements.announce(2, [], epoch=second.epoch + 1)
    world.announcements.announce(2, [], epoch=second.epoch)
    assert world.version() == 2


def test_an_expired_lease_that_nobody_took_still_announces(world: World) -> None:
    world.now += 1000
    world.announce(1)
    assert world.version() == 1


def test_a_lease_is_renewed_and_released(world: World) -> None:
    world.now += 59
    lease = acquire_lease(world.announcements, holder="one", ttl_seconds=60)
    assert lease.epoch == world.epoch + 1
    world.now += 50
    renewed = renew_lease(world.announcements, lease, ttl_seconds=60)
    assert (renewed.epoch, renewed.expires_ms) == (lease.epoch, int((world.now + 60) * 1000))
    release_lease(world.announcements, renewed)
    other = acquire_lease(world.announcements, holder="two")
    assert other.epoch == lease.epoch + 1
    with pytest.raises(CommitConflictError, match="lost"):
        renew_lease(world.announcements, renewed)
    release_lease(world.announcements, renewed)
    renew_lease(world.announcements, other)


def test_two_producers_of_one_default_name_are_two(world: World) -> None:
    world.now += 100
    acquire_lease(world.announcements)
    with pytest.raises(CommitConflictError):
        acquire_lease(world.announcements)


def test_a_java_chain_is_followed_unverified() -> None:
    store = SimulatedStore()
    store.put("announced.version", b"20240101000000001")
    announcements = Announcements(store)
    found = announcements.read()
    assert (found.version(), found.version("canary"), found.verified) == (20240101000000001,) * 2 + (False,)
    assert announcements.read_if_changed(found.etag) is None
    store.put("announced.version", b"20240101000000002")
    again = announcements.read_if_changed(found.etag)
    assert again is not None and again.version() == 20240101000000002
    for call in (announcements.unpin, announcements.promote, announcements.withdraw, lambda: announcements.pin(1)):
        with pytest.raises(InputError, match="another producer"):
            call()
    assert {info.key for info in store.list()} == {"announced.version"}


def test_a_producer_that_takes_a_java_chain_over_goes_on_from_its_version() -> None:
    world = World()
    world.store.put("announced.version", b"7")
    world.lease()
    assert (world.version(), world.number()) == (7, b"7")
    entry = world.announcements.entry_of(7)
    assert entry is not None and entry.artifacts == ()
    with pytest.raises(InputError):
        world.announce(7)
    world.announce(8)
    assert (world.version(), world.number()) == (8, b"8")


@pytest.mark.parametrize(
    "data", [b"", b"x", b"-5", b"+5", b"1.0", b"1e3", b"9" * 30, b"9223372036854775807", b"\xff", b"1 2", "٣".encode()]
)
def test_a_bare_number_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_number(data)


def test_a_bare_number_may_end_in_a_newline() -> None:
    assert decode_number(b"20240101000000001\n") == 20240101000000001


def test_a_field_of_a_later_version_survives(world: World) -> None:
    world.announce(1)
    value = json.loads(world.store.get("announced.json").data)
    value["later"] = {"deep": [1, 2]}
    world.store.put("announced.json", json.dumps(value).encode())
    world.announce(2)
    assert json.loads(world.store.get("announced.json").data)["later"] == {"deep": [1, 2]}


def test_a_slow_writer_leaves_no_older_number_behind(world: World) -> None:
    world.announce(1)

    class Slow(SimulatedStore):
        """Another producer announces just before this one puts its number."""

        def put_if_match(self, key: str, data: bytes | bytearray | memoryview, etag: str) -> str:
            if key == "announced.version" and not self.done:
                self.done = True
                world.announcements.announce(3, [], epoch=world.epoch)
            return super().put_if_match(key, data, etag)

    slow = Slow()
    slow.done, slow._world = False, world.store._world
    Announcements(slow, backoff=NO_WAIT).announce(2, [], epoch=world.epoch)
    assert (world.version(), world.number()) == (3, b"3")


def example() -> bytes:
    page = Path(__file__).parents[3] / "docs" / "formats" / "announcement.md"
    found = re.search(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1).encode()


def test_the_example_of_the_format_page_is_one() -> None:
    record = decode_record(example()).record
    assert (record.target("main"), record.target("canary")) == (20261105120000001, 20261105120500002)
    assert record.versions[0].artifacts[0].checksum == checksum(bytes.fromhex("313233343536373839"))
    assert json.loads(encode_record(record)) == json.loads(example())
    page = (Path(__file__).parents[3] / "docs" / "formats" / "announcement.md").read_text()
    digits = re.search(r"^((?:[0-9a-f]{2} ?){17})$", page, re.MULTILINE)
    assert digits is not None and decode_number(bytes.fromhex(digits.group(1))) == record.target("main")


def test_the_plain_reader_reads_what_is_written(world: World) -> None:
    world.announce(1, 2)
    world.announce(3, channel="canary")
    world.announcements.pin(1)
    value = plain_announcement.read(world.store.get("announced.json").data)
    assert plain_announcement.target(value, "canary") == 1
    world.announcements.unpin()
    value = plain_announcement.read(world.store.get("announced.json").data)
    assert [plain_announcement.target(value, channel) for channel in ("main", "canary", "other")] == [2, 3, 2]


def broken_records() -> list[tuple[str, bytes]]:
    """The example with one field missing, of another type, or out of range; each path of the object once."""
    value = json.loads(example())
    packed = {"kind": "snapshot", "name": "snapshot-2", "size": 0, "checksum": "crc32c:00000000"}
    value["versions"][0]["artifacts"].append({**packed, "codec": "zstd", "unpacked_size": 9})
    cases: list[tuple[str, bytes]] = []

    def visit(node: Any, path: tuple[Any, ...]) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inner in list(items):
            for wrong in (
                "<gone>",
                None,
                -1,
                2**63,
                2**70,
                1.5,
                "",
                "..",
                "../x",
                "x" * 300,
                [],
                {},
                True,
                [None],
                {"a b": 1},
            ):
                changed = copy.deepcopy(value)
                target = changed
                for step in path:
                    target = target[step]
                if wrong == "<gone>":
                    del target[key]
                else:
                    target[key] = wrong
                cases.append((f"{'.'.join(map(str, (*path, key)))} = {str(wrong)[:20]}", json.dumps(changed).encode()))
            visit(inner, (*path, key))

    visit(value, ())
    for wrong_bytes in (b"", b"{", b"[]", b"null", b'{"format": 1}', b"\xff\xfe", b'{"format": NaN}', example() + b"x"):
        cases.append((repr(wrong_bytes[:20]), wrong_bytes))
    cases += [
        ("format 2", example().replace(b'"format": 1', b'"format": 2')),
        ("deep", b'{"format": 1, "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
        ("large", b'{"format": 1, "x": "' + b"x" * (5 << 20) + b'"}'),
    ]
    return cases


def test_both_readers_agree_on_what_is_no_announcement() -> None:
    refused = 0
    for name, data in broken_records():
        try:
            ours: str | None = None
            decode_record(data)
        except DecodeError as error:
            ours = error.code
        try:
            plain: str | None = None
            plain_announcement.read(data)
        except plain_announcement.Refused as error:
            plain = str(error)
        assert ours == plain, name
        refused += ours is not None
    assert refused > 300


def test_every_prefix_is_refused() -> None:
    whole = example().strip()
    for cut in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_record(whole[:cut])
