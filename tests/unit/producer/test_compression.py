"""Blobs that are stored packed: everybody who reads the announcement unpacks them, and nothing else."""

import gzip
from pathlib import Path

import msgspec
import pytest

from deltaic.consumer import Consumer, verify_chain
from deltaic.dataset import Dataset
from deltaic.errors import ChecksumError, DecodeError, DeltaicError, InputError, LimitError
from deltaic.limits import Limits
from deltaic.producer import clean_chain, patch_chain
from deltaic.producer.restoring import load_version
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.checksum import checksum
from deltaic.storage.decompress import compress, iter_compressed
from deltaic.storage.packing import unpacked
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from tests.unit.producer.catalogue import content, content_of, movies, producer_of

MANY = range(300)


def packed_chain(place: Path | str, codec: str | None, versions: int = 3, **options: object) -> Store:
    store = open_store(place)
    with producer_of(store, compression=codec, **options) as producer:
        for last in range(1, versions + 1):
            producer.publish(movies(*MANY, 1000 + last))
        producer.wait_for_snapshots()
    return store


def test_the_listing_says_how_each_file_is_packed() -> None:
    store, plain = packed_chain("memory:", "zstd"), packed_chain("memory:", None)
    [newest, *_] = Announcements(store).read().record.versions
    unpacked_sizes = {each.name: each.size for each in Announcements(plain).read().record.versions[0].artifacts}
    for artifact in newest.artifacts:
        data = store.get(artifact.name).data
        assert (artifact.size, artifact.checksum) == (len(data), checksum(data))
        if artifact.kind == "header":
            assert artifact.codec is None and artifact.unpacked_size is None
        else:
            assert artifact.codec == "zstd"
            # Tags hold the time and a random number, so that two chains differ by a few bytes.
            assert artifact.unpacked_size == pytest.approx(unpacked_sizes[artifact.name], abs=40)
    snapshot = newest.artifact("snapshot-3")
    assert snapshot.size < snapshot.unpacked_size / 2


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
@pytest.mark.parametrize("cached", [True, False])
def test_consumers_walk_a_packed_chain_forward_and_back(tmp_path: Path, codec: str, cached: bool) -> None:
    store = packed_chain(tmp_path / "chain", codec)
    consumer = Consumer(store, cache_dir=tmp_path / "cache" if cached else False)
    for version in (1, 2, 3, 2, 1, 3):
        refresh = consumer.refresh(to=version)
        assert consumer.version == version and refresh.verified
        assert content(consumer.state) == content_of(movies(*MANY, 1000 + version))
        sizes = [store.head(step.blob).size_bytes for step in refresh.steps]
        assert refresh.size_bytes == sum(sizes)
    assert verify_chain(store).findings == ()


@pytest.mark.parametrize("background", [True, False])
def test_a_producer_goes_on_from_packed_blobs_and_may_stop_packing(tmp_path: Path, background: bool) -> None:
    store = packed_chain(tmp_path, "zstd", snapshots_in_background=background)
    with producer_of(store) as producer:
        cycle = producer.publish(movies(*MANY, 2000))
    assert cycle.from_version == 3 and all(artifact.codec is None for artifact in cycle.artifacts)
    assert content(load_version(store, Announcements(store), 4)) == content_of(movies(*MANY, 2000))
    assert verify_chain(store).findings == ()
    assert Dataset.open(store).model.schemas.names


def test_a_bare_packed_chain_gives_its_model_and_is_patched_and_cleaned() -> None:
    store = packed_chain("memory:", "gzip", versions=6)
    assert "Movie" in Dataset.open(store).model.schemas
    Announcements(store).remove_artifacts(["delta-3-4", "reversedelta-4-3"])
    store.delete("delta-3-4")
    store.delete("reversedelta-4-3")
    patch_chain(store, 3, 4)
    assert verify_chain(store).findings == ()
    clean_chain(store, keep_snapshots=1, keep_versions=4, older_than_seconds=-1, dry_run=False)
    assert verify_chain(store).findings == ()


def test_gzip_is_what_every_gzip_reader_reads() -> None:
    store = packed_chain("memory:", "gzip", versions=1)
    [entry] = Announcements(store).read().record.versions
    data = gzip.decompress(store.get("snapshot-1").data)
    assert len(data) == entry.artifact("snapshot-1").unpacked_size


def relisted(store: Store, data: bytes, **changes: object) -> None:
    """Let the newest version announce other bytes for its snapshot, as a hostile writer would."""
    announcements = Announcements(store)
    record = announcements.read().record
    entry = record.versions[0]
    name = f"snapshot-{entry.version}"
    store.put(name, data)
    artifact = msgspec.structs.replace(entry.artifact(name), size=len(data), checksum=checksum(data), **changes)
    announcements.add_artifacts(entry.version, [artifact], epoch=record.epoch)


HOSTILE = {
    "a bomb": (lambda plain: compress(bytes(50_000_000), "zstd"), {}, (LimitError, DecodeError)),
    "a bomb that says so": (
        lambda plain: compress(bytes(50_000_000), "zstd"),
        {"unpacked_size": 50_000_000},
        (LimitError,),
    ),
    "less than announced": (lambda plain: compress(plain[:-1], "zstd"), {}, (DecodeError,)),
    "more than announced": (lambda plain: compress(plain + b"x", "zstd"), {}, (DecodeError,)),
    "cut": (lambda plain: compress(plain, "zstd")[:-3], {}, (DecodeError,)),
    "followed by others": (lambda plain: compress(plain, "zstd") + b"rest", {}, (DecodeError,)),
    "not packed at all": (lambda plain: plain, {}, (DecodeError,)),
    "another codec": (lambda plain: compress(plain, "zstd"), {"codec": "gzip"}, (DecodeError,)),
    "a codec of the future": (lambda plain: compress(plain, "zstd"), {"codec": "brotli"}, (DecodeError,)),
    "a codec that is no file's": (lambda plain: compress(plain, "snappy"), {"codec": "snappy"}, (DecodeError,)),
    "none where there is one": (
        lambda plain: compress(plain, "zstd"),
        {"codec": None, "unpacked_size": None},
        (DecodeError,),
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_packing_is_refused_and_leaves_the_consumer_where_it_was(case: str) -> None:
    store = packed_chain("memory:", "zstd", versions=1)
    entry = Announcements(store).read().record.versions[0]
    plain = bytes(unpacked(store.get("snapshot-1").data, entry.artifact("snapshot-1"), 1 << 30))
    make, changes, expected = HOSTILE[case]
    relisted(store, make(plain), **changes)
    consumer = Consumer(store, limits=Limits(max_blob_bytes=10_000_000))
    with pytest.raises(DecodeError) as refused:
        consumer.refresh()
    assert isinstance(refused.value, expected) and "snapshot-1" in str(refused.value)
    assert consumer.version is None
    with pytest.raises(DeltaicError):
        load_version(store, Announcements(store), 1, limits=Limits(max_blob_bytes=10_000_000))


def test_damage_to_packed_bytes_is_noticed_before_they_are_unpacked() -> None:
    store = packed_chain("memory:", "zstd", versions=1)
    damaged = bytearray(store.get("snapshot-1").data)
    damaged[len(damaged) // 2] ^= 1
    store.put("snapshot-1", bytes(damaged))
    with pytest.raises(ChecksumError):
        Consumer(store).refresh()


def test_large_blobs_are_read_through_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaic.producer.reading.IN_MEMORY_BYTES", 100)
    store = packed_chain("memory:", "zstd")
    assert content(load_version(store, Announcements(store), 3)) == content_of(movies(*MANY, 1003))
    assert verify_chain(store).findings == ()


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_streams_are_packed_whatever_their_pieces(codec: str) -> None:
    pieces = [b"", b"a" * 100_000, b"", b"bc"]
    packed = b"".join(iter_compressed(pieces, codec))
    artifact = Artifact("snapshot", "snapshot-1", len(packed), checksum(packed), codec=codec, unpacked_size=100_002)
    assert unpacked(packed, artifact, 1 << 20) == b"".join(pieces)
    assert b"".join(iter_compressed([], codec))


def test_what_is_no_compression_is_refused() -> None:
    with pytest.raises(InputError, match="compression 'lzma'"):
        producer_of(open_store("memory:"), compression="lzma")
    with pytest.raises(InputError, match="zstd or gzip"):
        list(iter_compressed([b"x"], "snappy"))
    with pytest.raises(ValueError, match="go together"):
        Artifact("snapshot", "snapshot-1", 0, "crc32c:00000000", codec="zstd")
