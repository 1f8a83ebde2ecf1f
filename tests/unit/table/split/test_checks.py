"""What is checked before it is believed: versions, checksums, tags, panics; and the page that says so."""

import errno
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
import tantivy

from deltaic.errors import ChecksumError, DecodeError, InputError, StorageError
from deltaic.storage.checksum import checksum
from deltaic.storage.local import LocalStore
from deltaic.table import AddFile
from deltaic.table.split import ColumnIndex, DocMapping, SplitCache, open_index, open_split, write_split, write_splits
from deltaic.table.split import write as writing
from deltaic.table.split.container import pack
from deltaic.table.split.engine import check_engine_version, engine_version, guarded, new_index
from deltaic.table.split.hotcache import pack_hotcache
from deltaic.table.split.tokenizers import LANGUAGES, analyzer, tokenizer_names
from tests.unit.table.split.plain_reader import hot_cache_of, members_of

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})
MAPPING = DocMapping.from_schema(ROWS.schema)


def _described(data: bytes, **changes) -> bytes:
    """The split with another description, sealed again."""
    members = members_of(data)
    described = {**json.loads(members["_deltaic.json"].split(b"\n")[0]), **changes}
    line = json.dumps(described).encode()
    members["_deltaic.json"] = line + b"\n" + checksum(line).encode() + b"\n"
    return pack(list(members.items()), hot_cache_of(data))


@pytest.fixture
def split(tmp_path: Path) -> Path:
    write_split(ROWS, MAPPING, tmp_path / "a")
    return tmp_path / "a"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"engine": "tantivy v0.28.0, index_format v7"}, "NewerEngine"),
        ({"engine": "tantivy v1.0.0, index_format v7"}, "NewerEngine"),
        ({"engine": "tantivy v0.27.0, index_format v8"}, "NewerEngine"),
        ({"engine": "lucene 9"}, "UnknownEngine"),
        ({"format": 2}, "UnknownVersion"),
        ({"format": "1"}, "BadDescription"),
        ({"num_rows": 4}, "BadRows"),
        ({"members": {}}, "BadDescription"),
        ({"columns": [{"name": "id"}]}, "BadDescription"),
    ],
)
def test_a_description_of_something_else_is_refused(split, changes, code):
    split.write_bytes(_described(split.read_bytes(), **changes))
    with pytest.raises(DecodeError) as caught:
        open_split(LocalStore(split.parent), "a").rows()
    assert caught.value.code == code
    with pytest.raises(DecodeError):
        SplitCache(split.parent / "cache").get(LocalStore(split.parent), "a")


def test_an_older_engine_is_read():
    check_engine_version("tantivy v0.24.1, index_format v7", "x")
    check_engine_version(engine_version(), "x")


def test_a_sealed_forgery_is_seen_by_the_tag_in_the_log(tmp_path):
    written = write_split(ROWS, MAPPING, tmp_path / "a")
    add = AddFile(
        "a", {}, written.size, 0, footer_start=written.footer_start, footer_end=written.size, tags=written.tags
    )
    assert open_split(LocalStore(tmp_path), "a", add).rows().equals(ROWS)
    data = _described((tmp_path / "a").read_bytes(), split_id="another")
    (tmp_path / "a").write_bytes(data)
    assert open_split(LocalStore(tmp_path), "a").rows().equals(ROWS)
    add = AddFile("a", {}, len(data), 0, tags=written.tags)
    with pytest.raises(ChecksumError):
        open_split(LocalStore(tmp_path), "a", add).rows()


def test_a_split_that_lost_its_description_is_not_taken_for_a_foreign_one_if_the_log_knows_better(tmp_path):
    written = write_split(ROWS, MAPPING, tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    public = [(name, member) for name, member in members_of(data).items() if not name.startswith("_")]
    (tmp_path / "b").write_bytes(pack(public, hot_cache_of(data)))
    add = AddFile("b", {}, (tmp_path / "b").stat().st_size, 0, tags=written.tags)
    with pytest.raises(ChecksumError):
        open_split(LocalStore(tmp_path), "b", add).rows()


@pytest.mark.parametrize("hint", [0, 1, 10**9, None])
def test_a_wrong_hint_of_where_the_footer_starts_does_no_harm(split, hint):
    size = split.stat().st_size
    add = AddFile("a", {}, size, 0, footer_start=hint, footer_end=size)
    assert open_split(LocalStore(split.parent), "a", add).rows().equals(ROWS)


def test_every_byte_of_what_is_read_counts(split):
    """A flipped bit in any member of ours is found; the hot cache is not read, and has no say."""
    data = split.read_bytes()
    for name, member in members_of(data).items():
        if not member:
            continue
        at = data.index(member) + len(member) // 2
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        split.write_bytes(damaged)
        with pytest.raises(DecodeError):
            SplitCache(split.parent / "cache").get(LocalStore(split.parent), "a")
        assert name


def test_a_panic_of_the_engine_is_an_error_of_ours(tmp_path):
    field = {"name": "a", "type": "text", "options": {"stored": False}}
    with pytest.raises(DecodeError, match="gave up"):
        new_index(tmp_path, [field, field])


def test_what_is_no_panic_passes_the_guard():
    with pytest.raises(KeyboardInterrupt), guarded("wait", "x"):
        raise KeyboardInterrupt
    with pytest.raises(InputError), guarded("ask", "x"):
        raise InputError("no")
    with pytest.raises(StorageError) as caught, guarded("write", "x"):
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")
    assert caught.value.errno == errno.ENOSPC


def test_a_full_memory_folder_is_no_reason_to_fail(tmp_path, monkeypatch):
    real, places = writing._write, []

    def full_at_first(rows, mapping, target, options, split_id, scratch):
        places.append(scratch)
        if len(places) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(rows, mapping, target, options, split_id, scratch)

    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(writing, "_scratch", lambda size, beside: tmp_path / "memory")
    monkeypatch.setattr(writing, "_write", full_at_first)
    write_split(ROWS, MAPPING, tmp_path / "a")
    assert places == [tmp_path / "memory", tmp_path]
    assert open_split(LocalStore(tmp_path), "a").rows().equals(ROWS)


def test_splits_written_side_by_side_are_those_written_one_by_one(tmp_path):
    tables = [pa.table({"id": range(first, first + 50), "text": ["x"] * 50}) for first in range(0, 400, 50)]
    written = write_splits([(rows, tmp_path / str(place)) for place, rows in enumerate(tables)], MAPPING, threads=4)
    assert len({one.split_id for one in written}) == 8
    for place, rows in enumerate(tables):
        assert open_split(LocalStore(tmp_path), str(place)).rows().equals(rows)


def test_if_one_of_several_splits_fails_none_is_left(tmp_path):
    bad = pa.table({"id": [1], "other": ["x"]})
    with pytest.raises(InputError):
        write_splits([(ROWS, tmp_path / "0"), (bad, tmp_path / "1"), (ROWS, tmp_path / "2")], MAPPING, threads=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", tokenizer_names())
def test_every_tokenizer_indexes_what_it_cuts(tmp_path, name):
    text = "Running naïve Dogs, 3.5 times: ÀÉ ελληνικά русские"
    rows = pa.table({"text": [text]})
    write_split(
        rows, DocMapping.from_schema(rows.schema, {"text": ColumnIndex("text", tokenizer=name)}), tmp_path / "a"
    )
    cached = SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "a")
    index = open_index(cached.index_folder)
    tokens = analyzer(name).analyze(text)
    assert tokens
    for token in tokens:
        assert index.searcher().search(tantivy.Query.term_query(index.schema, "text", token)).count == 1, token


def test_stems_are_those_of_the_language():
    assert analyzer("en_stem").analyze("running") == analyzer("stem_english").analyze("runs") == ["run"]
    assert analyzer("stem_german").analyze("Häuser") == ["haus"]
    assert len(LANGUAGES) == 18


@pytest.mark.parametrize(
    ("wanted", "found", "fast", "phrase"),
    [
        (ColumnIndex("text"), True, False, True),
        (ColumnIndex("text", positions=False), True, False, False),
        (ColumnIndex("text", fast=True), True, True, True),
        (ColumnIndex(), False, True, False),
        (ColumnIndex(fast=False), False, False, False),
    ],
)
def test_options_of_a_column_decide_what_its_index_can_do(tmp_path, wanted, found, fast, phrase):
    rows = pa.table({"text": ["big world", None]})
    write_split(rows, DocMapping.from_schema(rows.schema, {"text": wanted}), tmp_path / "a")
    cached = SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "a")
    index = open_index(cached.index_folder)
    searcher, query = index.searcher(), tantivy.Query
    assert searcher.search(query.term_query(index.schema, "text", "world")).count == found
    if phrase:
        assert searcher.search(query.phrase_query(index.schema, "text", ["big", "world"])).count == 1
    if fast:
        assert searcher.search(query.exists_query("text")).count == 1
    else:
        with pytest.raises(ValueError):
            searcher.search(query.exists_query("text"))


def test_a_column_without_an_index_is_in_the_rows_alone(tmp_path):
    rows = pa.table({"a": [1], "b": ["x"]})
    options = {"a": ColumnIndex("none"), "b": ColumnIndex(indexed=False, fast=False)}
    mapping = DocMapping.from_schema(rows.schema, options)
    assert [column.kind for column in mapping.columns] == ["none", "none"]
    write_split(rows, mapping, tmp_path / "a")
    assert open_split(LocalStore(tmp_path), "a").rows().equals(rows)


def test_partition_columns_are_not_in_the_mapping():
    assert [column.name for column in DocMapping.from_schema(ROWS.schema, partition_columns=["id"]).columns] == ["text"]


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "5", '[{"type":"text"}]', "[5]", '[{"name":"a","type":"text","deltaic":{}}]']
)
def test_a_mapping_that_is_none_is_refused(text):
    with pytest.raises(DecodeError):
        DocMapping.from_json(text)


def test_a_mapping_of_the_public_implementation_is_read():
    text = (
        '[{"fast":true,"indexed":true,"name":"id","stored":true,"type":"i64"},'
        '{"fast":true,"indexed":true,"name":"text","stored":true,"tokenizer":"raw","type":"text"},'
        '{"fast":false,"indexed":true,"name":"body","stored":true,"tokenizer":"default","type":"text"}]'
    )
    mapping = DocMapping.from_json(text)
    assert [(column.name, column.kind) for column in mapping.columns] == [
        ("id", "integer"),
        ("text", "string"),
        ("body", "text"),
    ]
    assert DocMapping.from_json('{"field_mappings":' + text + "}") == mapping


def test_the_bytes_on_the_page_are_those_that_are_written(project_root):
    page = (project_root / "docs/formats/split.md").read_text()
    dumps = []
    for block in page.split("```")[1::2]:
        lines = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} )*[0-9a-f]{2})  ", block, re.MULTILINE)
        if lines:
            dumps.append(b"".join(bytes.fromhex(line) for line in lines))
    container, hot = dumps
    assert container == pack([("f1", b"hello"), ("f2", b"world")], b"abc")
    assert hot == pack_hotcache({"meta.json": 2, "x": 5}, {"meta.json": b"{}"})
