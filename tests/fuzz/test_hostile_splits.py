"""Splits made by hand to lie about sizes, counts and depths: refused before anything is allocated for them."""

import json
import struct
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest

from deltaic.errors import DecodeError, LimitError
from deltaic.storage.local import LocalStore
from deltaic.table.split import open_split
from deltaic.table.split.container import pack
from deltaic.table.split.docstore import read_store
from deltaic.table.split.hotcache import pack_hotcache

SEGMENT = "ab" * 16
VERSION = '{"major":0,"minor":23,"patch":0,"index_format_version":7}'


def vint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127)
        number >>= 7
    return bytes([*out, number | 128])


def sealed(body: bytes, version: str = VERSION) -> bytes:
    text = f'{{"version":{version},"crc":{zlib.crc32(body)}}}'.encode()
    return body + text + struct.pack("<II", len(text), 1337)


def store_of(documents: list[bytes], *, stated: int | None = None, compressor: int = 1) -> bytes:
    """A document store of one block."""
    starts, at = [], 0
    for document in documents:
        starts.append(at)
        at += len(document)
    block = b"".join(documents) + b"".join(struct.pack("<I", start) for start in starts)
    block += struct.pack("<I", len(documents))
    return store_of_block(block, len(documents), stated=stated, compressor=compressor)


def store_of_block(block: bytes, count: int, *, stated: int | None = None, compressor: int = 1) -> bytes:
    packed = block
    if compressor == 1:
        size = len(block) if stated is None else stated
        packed = struct.pack("<I", size) + bytes(cramjam.lz4.compress_block(block, store_size=False))
    layer = b"\x81\x80\x80" + vint(count) + vint(len(packed))
    return packed + b"\x81" + vint(len(layer)) + layer + struct.pack("<IQB15x", 2, len(packed), compressor)


def meta_of(max_doc: int, fields: list[dict], **more) -> bytes:
    segment = {"segment_id": SEGMENT, "max_doc": max_doc, "deletes": None, **more}
    return json.dumps({"segments": [segment], "schema": fields, "opstamp": 1}).encode()


def field(name: str, kind: str) -> dict:
    return {"name": name, "type": kind, "options": {"stored": True}}


def opened(tmp_path: Path, store: bytes, meta: bytes, **members: bytes):
    files = {f"{SEGMENT}.store": sealed(store), "meta.json": meta, **members}
    (tmp_path / "split").write_bytes(pack(list(files.items()), pack_hotcache({}, {})))
    return open_split(LocalStore(tmp_path), "split")


def text_document(text: bytes) -> bytes:
    return vint(1) + struct.pack("<IB", 0, 0) + vint(len(text)) + text


def test_the_store_made_here_is_sound(tmp_path):
    documents = [text_document(b"one"), vint(0), text_document(b"three")]
    split = opened(tmp_path, store_of(documents), meta_of(3, [field("t", "text")]))
    assert split.rows().to_pydict() == {"t": ["one", None, "three"]}
    plain = opened(tmp_path, store_of(documents, compressor=0), meta_of(3, [field("t", "text")]))
    assert plain.rows().to_pydict() == {"t": ["one", None, "three"]}


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (vint(1) + struct.pack("<IB", 0, 0) + vint(2**31), "Truncated"),
        (vint(2**31), "BadStore"),
        (b"\x00" * 6, "InvalidVarint"),
        (vint(1) + struct.pack("<IB", 0, 77), "UnknownType"),
        (vint(1) + struct.pack("<IB", 0, 77) + bytes(8), "UnknownType"),
        (vint(1) + struct.pack("<IB", 0, 2) + bytes(4), "Truncated"),
        (vint(1) + struct.pack("<IB", 0, 2) + bytes(9), "BadStore"),
        (vint(1) + struct.pack("<IB", 9, 2) + bytes(8), "BadStore"),
        (vint(1) + struct.pack("<IB", 0, 2) + bytes(8), "BadStore"),
        (vint(1) + struct.pack("<IB", 0, 0) + vint(2) + b"\xff\xfe", "BadText"),
    ],
)
def test_documents_that_lie_are_refused(tmp_path, document, code):
    documents = [text_document(b"sound"), document]
    split = opened(tmp_path, store_of(documents), meta_of(2, [field("t", "text")]))
    with pytest.raises(DecodeError) as caught:
        split.rows()
    assert caught.value.code == code


def test_nested_values_deeper_than_anyone_has_are_refused(tmp_path):
    document = vint(1) + struct.pack("<IB", 0, 13) + vint(2) + b"\0" + vint(1) + b"a"
    document += b"".join(b"\x0c" + vint(1) for _ in range(5000)) + b"\x0b"
    split = opened(tmp_path, store_of([document]), meta_of(1, [field("j", "json_object")]))
    with pytest.raises(DecodeError, match="levels"):
        split.rows()


def test_a_list_that_lies_about_its_length_is_refused(tmp_path):
    document = vint(1) + struct.pack("<IB", 0, 13) + vint(2) + b"\0" + vint(1) + b"a" + b"\x0c" + vint(2**30)
    split = opened(tmp_path, store_of([document]), meta_of(1, [field("j", "json_object")]))
    with pytest.raises(DecodeError):
        split.rows()


@pytest.mark.parametrize("stated", [2**32 - 1, 600 << 20, 100_000, 5])
def test_a_block_that_lies_about_its_size_costs_no_memory(tmp_path, stated):
    body = store_of([text_document(b"x" * 200)], stated=stated)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            list(read_store(memoryview(body), 1, "x"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_documents_without_bytes_are_refused():
    # All offsets the same would pack 255 to 1: a small file with any number of documents.
    block = vint(0) + bytes(4 * 100_000) + struct.pack("<I", 100_000)
    body = store_of_block(block, 100_000)
    assert len(body) < 5000
    with pytest.raises(DecodeError, match="follow each other"):
        list(read_store(memoryview(body), 100_000, "x"))


@pytest.mark.parametrize("max_doc", [0, 1, 3, 2**31 - 1, 2**31, 2**64])
def test_a_number_of_documents_that_is_another_is_refused(tmp_path, max_doc):
    split = opened(
        tmp_path, store_of([text_document(b"a"), text_document(b"b")]), meta_of(max_doc, [field("t", "text")])
    )
    with pytest.raises(DecodeError):
        split.rows()


def test_more_columns_times_rows_than_memory_are_refused(tmp_path):
    fields = [field(f"c{number}", "text") for number in range(200_000)]
    split = opened(tmp_path, store_of([vint(0)] * 3000), meta_of(3000, fields))
    with pytest.raises(LimitError):
        split.rows()


@pytest.mark.parametrize(
    "meta",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        meta_of(1, [{"name": 5, "type": "text"}]),
        meta_of(1, [{"name": "a", "type": "text", "options": []}]),
        meta_of(1, [field("a", "facet")]),
        meta_of(1, [field("a", "text"), field("a", "i64")]),
        meta_of(1, [field("a", "text")], segment_id="../../../../etc/passwd"),
        meta_of(1, [field("a", "text")], deletes={"num_deleted_docs": 5, "opstamp": 3}),
        meta_of(1, [field("a", "text")], deletes={"num_deleted_docs": 1, "opstamp": 3}),
        meta_of(1, [field("a", "text")], deletes=[]),
    ],
)
def test_a_meta_json_that_is_none_is_refused(tmp_path, meta):
    split = opened(tmp_path, store_of([text_document(b"a")]), meta)
    with pytest.raises(DecodeError):
        split.rows()


def test_a_newer_index_format_is_refused(tmp_path):
    newer = VERSION.replace("7}", "8}")
    files = {f"{SEGMENT}.store": sealed(store_of([vint(0)]), newer), "meta.json": meta_of(1, [field("a", "text")])}
    (tmp_path / "split").write_bytes(pack(list(files.items()), pack_hotcache({}, {})))
    with pytest.raises(DecodeError, match="newer"):
        open_split(LocalStore(tmp_path), "split").rows()
