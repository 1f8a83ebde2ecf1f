"""Native splits: the files that others search, byte for byte, and ours beside them."""

import datetime
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
import tantivy

from deltaic.errors import InputError
from deltaic.storage.local import LocalStore
from deltaic.table.split import ColumnIndex, DocMapping, SplitCache, SplitOptions, open_index, open_split, write_split
from deltaic.table.split.container import pack, read_split
from deltaic.table.split.engine import guarded_writer, new_index
from deltaic.table.split.native import documents_of, segment_parts
from deltaic.table.split.segment import check_segment_file, footer_version, read_meta, segment_footer
from tests.unit.table.split.plain_reader import members_of, segment_body

NATIVE = SplitOptions(native=True)


def test_recorded_rows_give_the_recorded_files_to_the_byte(fixtures_dir: Path):
    found = sorted((fixtures_dir / "indextables").rglob("*.split"))
    assert len(found) == 106
    for path in found:
        split = open_split(LocalStore(path.parent), path.name)
        parts = segment_parts(split.meta.fields, documents_of(split.rows().to_pydict()), split.num_rows)
        for suffix in ("term", "idx", "pos", "fieldnorm"):
            recorded = split.member(split.meta.segments[0].file(f".{suffix}"))
            body = getattr(parts, suffix)
            assert body + segment_footer(body, footer_version(recorded, path.name)) == recorded, (path, suffix)


def _text(record: str, norms: bool, tokenizer: str) -> dict:
    indexing = {"record": record, "fieldnorms": norms, "tokenizer": tokenizer}
    return {"name": f"{record}-{norms}-{tokenizer}", "type": "text", "options": {"indexing": indexing, "stored": False}}


def _json(record: str, norms: bool, tokenizer: str) -> dict:
    made = _text(record, norms, tokenizer)
    made["options"].update(fast=False, expand_dots_enabled=False)
    return {**made, "name": f"json-{made['name']}", "type": "json_object"}


FIELDS = [
    make(record, norms, tokenizer)
    for make in (_text, _json)
    for record in ("basic", "freq", "position")
    for norms in (True, False)
    for tokenizer in ("default", "raw", "whitespace", "stem_french")
]
WORDS = [*(f"mots{number}" for number in range(60)), "x" * 45, "été", "aimer", "aimera"]


def _values(field: dict, random_: random.Random) -> list:
    if field["type"] == "text":
        lengths = (0, 1, 3, 12, 60)
        weights = [1 / (place + 1) for place in range(len(WORDS))]
        return [
            " ".join(random_.choices(WORDS, weights, k=random_.choice(lengths)))
            for _ in range(random_.choice((0, 1, 1, 1, 2)))
        ]
    leaves = (1, -1, "un deux trois", "un", True, 2**63 + 1, 2.5, 3.0, 3, None, "2024-01-01T00:00:00Z", "2024-01-01")
    return [
        {"a": random_.choice(leaves), "b": {"c": [random_.choice(leaves), random_.choice(leaves)], "c!": 1}}
        for _ in range(random_.choice((0, 1, 1, 2)))
    ]


@pytest.mark.parametrize("seed", [1])
def test_postings_positions_and_norms_are_those_of_the_engine(tmp_path, seed):
    random_ = random.Random(seed)
    count = 700
    values = {field["name"]: [_values(field, random_) for _ in range(count)] for field in FIELDS}
    index = new_index(tmp_path, FIELDS)
    with guarded_writer(index, "x") as writer:
        for row in range(count):
            document = tantivy.Document()
            for field in FIELDS:
                add = document.add_text if field["type"] == "text" else document.add_json
                for value in values[field["name"]][row]:
                    add(field["name"], value)
            writer.add_document(document)
    (segment,) = read_meta((tmp_path / "meta.json").read_bytes(), "x").segments
    made = segment_parts(FIELDS, values, count)
    for suffix in ("idx", "pos", "fieldnorm"):
        theirs = check_segment_file((tmp_path / segment.file(f".{suffix}")).read_bytes(), suffix)
        assert getattr(made, suffix) == theirs, suffix


@pytest.fixture
def movies() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([3, 1, None], pa.int32()),
            "title": ["Solaris", "Stalker", None],
            "plot": ["the ocean thinks", "the zone; the room", None],
            "seen": pa.array([datetime.datetime(1972, 3, 20, 1, 2, 3, 4), None, None], pa.timestamp("us", "UTC")),
            "released": pa.array([datetime.date(1972, 3, 20), datetime.date(1979, 5, 25), None]),
            "price": pa.array(["1.50", "-2.25", None]).cast(pa.decimal128(9, 2)),
            "crew": [{"director": "Tarkovsky"}, {"director": None}, None],
            "genres": [["sci-fi", "drama"], [], None],
        }
    )


def _mapping(rows: pa.Table) -> DocMapping:
    return DocMapping.from_schema(rows.schema, {"plot": ColumnIndex("text")})


def test_a_native_split_has_a_native_dictionary_and_ours_beside_it(tmp_path, movies):
    write_split(movies, _mapping(movies), tmp_path / "a", options=NATIVE)
    members = members_of((tmp_path / "a").read_bytes())
    (term,) = (data for name, data in members.items() if name.endswith(".term") and not name.startswith("_"))
    body = segment_body(term)
    assert b"Solaris" in body and b"ocean" in body
    assert _dictionary_types(body) == {2}
    assert _dictionary_types(segment_body(members["_dictionary.term"])) == {1}


def _dictionary_types(body: bytes) -> set[int]:
    """The type at the end of each field's dictionary."""
    length = int.from_bytes(body[-4:], "little")
    listed, ends, at, offset = body[-4 - length : -4], [], 1, 0
    for _ in range(listed[0] & 127):
        delta = shift = 0
        while True:
            byte = listed[at]
            at += 1
            delta |= (byte & 127) << shift
            shift += 7
            if byte >= 128:
                break
        offset += delta
        ends.append(offset)
        at += 5
    ends = [*ends[1:], len(body) - 4 - length]
    return {int.from_bytes(body[end - 4 : end], "little") for end in ends}


def test_rows_and_search_of_a_native_split_are_as_of_any_other(tmp_path, movies):
    write_split(movies, _mapping(movies), tmp_path / "a", options=NATIVE)
    split = open_split(LocalStore(tmp_path), "a")
    assert split.kind == "native"
    assert split.rows().equals(movies)
    cached = SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "a")
    assert not cached.reindexed
    index = open_index(cached.index_folder)
    for name, value, count in (("plot", "the", 2), ("title", "Stalker", 1), ("crew.director", "Tarkovsky", 1)):
        query = tantivy.Query.term_query(index.schema, name, value)
        assert index.searcher().search(query).count == count
    day = cached.mapping["released"]
    query = tantivy.Query.term_query(
        index.schema, day.field, (datetime.date(1979, 5, 25) - datetime.date(1970, 1, 1)).days
    )
    assert index.searcher().search(query).count == 1


def test_a_native_split_whose_private_members_were_lost_is_read_as_a_foreign_one(tmp_path, movies):
    write_split(movies, _mapping(movies), tmp_path / "a", options=NATIVE)
    data = (tmp_path / "a").read_bytes()
    kept = [(name, member) for name, member in members_of(data).items() if not name.startswith("_")]
    (tmp_path / "b").write_bytes(pack(kept, read_split(data, "a").hotcache))
    split = open_split(LocalStore(tmp_path), "b")
    assert split.kind == "foreign"
    rows = split.rows().to_pylist()
    assert rows[0] == {
        "id": 3,
        "title": "Solaris",
        "plot": "the ocean thinks",
        "seen": datetime.datetime(1972, 3, 20, 1, 2, 3, 4, datetime.UTC),
        "released": datetime.datetime(1972, 3, 20, tzinfo=datetime.UTC),
        "price": "1.50",
        "crew": '{"director": "Tarkovsky"}',
        "genres": ["sci-fi", "drama"],
    }
    assert set(rows[2].values()) == {None}
    cached = SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "b")
    assert cached.reindexed
    index = open_index(cached.index_folder)
    query = tantivy.Query.term_query(index.schema, "plot", "zone")
    assert index.searcher().search(query).count == 1
    assert cached.mapping["plot"].tokenizer == "default"


def test_the_public_mapping_has_only_what_others_know(tmp_path, movies):
    written = write_split(movies, _mapping(movies), tmp_path / "a", options=NATIVE)
    for entry in json.loads(written.doc_mapping_json):
        assert set(entry) <= {
            *(
                "name",
                "type",
                "stored",
                "indexed",
                "fast",
                "tokenizer",
                "fast_tokenizer",
                "expand_dots",
                "field_mappings",
            ),
        }
        assert entry["stored"]
    types = {entry["name"]: entry["type"] for entry in json.loads(written.doc_mapping_json)}
    assert types["seen"] == types["released"] == "datetime"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pa.table({"_row": [1]}), "hidden fields"),
        (pa.table({"a": ["x" * 32_001]}), "over 32,000 bytes"),
        (pa.table({"a": pa.array([datetime.date(1, 1, 1)])}), "from 1677 to 2262"),
        (pa.table({"a": pa.array([1], pa.timestamp("ns"))}), "microseconds"),
        (pa.table({"a": [f"{number:06d}" for number in range(100_001)]}), "100,001 terms"),
    ],
)
def test_what_a_native_split_cannot_hold_is_refused(tmp_path, rows, words):
    with pytest.raises(InputError, match=words):
        write_split(rows, DocMapping.from_schema(rows.schema), tmp_path / "a", options=NATIVE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2024-02-31T00:00:00Z"])
def test_a_date_in_json_that_the_engine_cannot_keep_is_refused_or_is_text(tmp_path, text):
    rows = pa.table({"a": [json.dumps({"at": text})]})
    mapping = DocMapping.from_schema(rows.schema, {"a": ColumnIndex("json")})
    with pytest.raises(InputError, match="natively|native split"):
        write_split(rows, mapping, tmp_path / "a", options=NATIVE)
    write_split(rows, mapping, tmp_path / "b")
    assert open_split(LocalStore(tmp_path), "b").rows().equals(rows)


def test_a_native_split_without_rows(tmp_path, movies):
    rows = movies.slice(0, 0)
    write_split(rows, _mapping(rows), tmp_path / "a", options=NATIVE)
    assert open_split(LocalStore(tmp_path), "a").rows().equals(rows)
    assert SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "a").rows.num_rows == 0
