"""Vector columns of a table: fixed-size lists of float32 whose field says `deltaic.vector`."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaic import Table
from deltaic.errors import DecodeError, InputError, SchemaError
from deltaic.storage import open_store
from deltaic.table.query.syntax_error import QuerySyntaxError
from deltaic.table.rows import WriteOptions, vector_field
from deltaic.table.rows.equality import value_codes
from deltaic.table.split import ColumnIndex, SplitOptions
from deltaic.table.split.open import open_split
from deltaic.table.split.vectors import is_vector

SIZE = 4
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("title", pa.string()), vector_field("embedding", SIZE)]
)
# A quiet NaN with a payload, a signalling one, both zeros, the smallest denormal, an infinity.
ODD_WORDS = np.array([[0x7FC12345, 0x7F800001, 0x80000000, 0x00000000], [1, 0x7F800000, 0xFF800000, 0xFFC00001]], "<u4")


def bits(column):
    """The words of every vector, None where there is none."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return [None if row is None else np.array(row, np.float32).view("<u4").tolist() for row in exact_rows(found)]


def exact_rows(array):
    # `to_pylist` goes through doubles, which quiet a signalling NaN.
    for place in range(len(array)):
        yield None if not array[place].is_valid else array[place].values.to_numpy()


def make_table(where=None, schema=SCHEMA, **more):
    return Table.create(open_store("memory:") if where is None else where, schema, key=("id",), **more)


def rows(numbers, start=0.0):
    numbers = list(numbers)
    matrix = np.array([[number + start, 0.5, -number, 1.0] for number in numbers], np.float32).reshape(-1, SIZE)
    return {"id": numbers, "title": [f"film {number}" for number in numbers], "embedding": matrix}


def vectors(table, **at):
    found = table.to_arrow(["id", "embedding"], **at).sort_by("id")
    return dict(zip(found.column("id").to_pylist(), found.column("embedding").to_pylist(), strict=True))


def test_vectors_come_back_bit_for_bit_with_their_field_and_nulls(tmp_path):
    table = make_table(tmp_path)
    matrix = np.ascontiguousarray(ODD_WORDS).view(np.float32)
    table.append({"id": [1, 2], "embedding": matrix})
    table.append([{"id": 3, "embedding": None}])
    found = Table.open(tmp_path).to_arrow().sort_by("id")
    assert found.schema.field("embedding").equals(SCHEMA.field("embedding"), check_metadata=True)
    assert bits(found.column("embedding")) == [*ODD_WORDS.tolist(), None]


@pytest.mark.parametrize(
    "given",
    [
        [{"id": 1, "embedding": [1, 2, 3, 4]}],
        [{"id": 1, "embedding": (1.0, 2.0, 3.0, 4.0)}],
        [{"id": 1, "embedding": np.array([1, 2, 3, 4], np.float32)}],
        {"id": [1], "embedding": np.array([[1, 2, 3, 4]], np.float32)},
        {"id": np.array([1]), "embedding": np.array([[1, 2, 3, 4]], np.float64)},
        {"id": np.array([1]), "embedding": np.array([[1], [2], [3], [4]], np.float32).T},
        {"id": pa.array([1]), "embedding": [[1, 2, 3, 4]]},
        pa.table({"id": [1], "embedding": pa.array([[1, 2, 3, 4]], pa.list_(pa.float32()))}),
        pa.table({"id": [1], "embedding": pa.array([[1, 2, 3, 4]], pa.large_list(pa.float64()))}),
        pa.table({"id": [1], "embedding": pa.array([[1, 2, 3, 4]], pa.list_(pa.float32(), 4))}),
    ],
    ids=["list", "tuple", "array", "matrix", "doubles", "columns first", "lists", "arrow list", "large", "fixed"],
)
def test_vectors_are_taken_in_every_form(given):
    table = make_table()
    table.append(given)
    assert vectors(table) == {1: [1, 2, 3, 4]}


def test_a_data_frame_of_arrays_is_taken():
    pandas = pytest.importorskip("pandas")
    table = make_table()
    table.append(pandas.DataFrame({"id": [1, 2], "embedding": [np.arange(4, dtype=np.float32), None]}))
    assert vectors(table) == {1: [0, 1, 2, 3], 2: None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"id": 1, "embedding": [1] * 4}, {"id": 2, "embedding": [1] * 3}], r"column embedding, row 1: .* 3 elements"),
        (
            pa.table({"id": [1, 2], "embedding": pa.array([[1] * 4, [1] * 5], pa.list_(pa.float32()))}),
            r"column embedding, row 1: .* 5 elements, the column's lists have 4",
        ),
        ({"id": [1], "embedding": np.zeros((1, 5), np.float32)}, r"column embedding, row 0: .*5 elements"),
        ({"id": [1], "embedding": np.array([[0.1, 0, 0, 0]])}, r"column embedding, row 0: .* another value"),
        ({"id": [1], "embedding": np.zeros((1, 2, 2), np.float32)}, r"column embedding: an array of shape \(1, 2, 2\)"),
        ({"id": [1, 2], "embedding": np.zeros((1, 4), np.float32)}, r"one length: id 2, embedding 1"),
        ({"id": [1], "vector": np.zeros((1, 4), np.float32)}, r"'vector' is no column"),
        ({"id": 1}, r"column id: a int is no column"),
        ({}, r"without any column"),
        ([{"id": 1, "embedding": [1, None, 3, 4]}], r"column embedding, row 0: .* element of the vector is null"),
        (
            [
                pa.table({"id": [1]}),
                pa.table({"id": [2, 3], "embedding": pa.array([None, [1, None, 2, 3]], pa.list_(pa.float32(), 4))}),
            ],
            r"column embedding, row 2: .* element of the vector is null",
        ),
        ([{"id": 1, "embedding": "abcd"}], r"column embedding, row 0: 'abcd': it is no"),
    ],
)
def test_what_is_no_vector_is_refused_with_column_and_row(given, message):
    table = make_table()
    with pytest.raises(InputError, match=message):
        table.append(given)
    assert table.version == 0


def test_old_versions_keep_their_vectors():
    table = make_table()
    table.append(rows(range(3)))
    table.update({"embedding": [9, 9, 9, 9]}, "id = 1")
    assert vectors(table)[1] == [9, 9, 9, 9]
    assert vectors(table, version=1)[1] == [1, 0.5, -1, 1]


def test_a_merge_brings_new_vectors_and_leaves_the_others():
    table = make_table()
    table.append(rows(range(5)))
    table.merge({"id": [3, 7], "embedding": np.array([[7, 7, 7, 7], [8, 8, 8, 8]], np.float32)})
    found = vectors(table)
    assert found[3] == [7, 7, 7, 7] and found[7] == [8, 8, 8, 8] and found[2] == [2, 0.5, -2, 1]
    assert table.to_arrow(["title"], "id = 3").column("title").to_pylist() == ["film 3"]


def test_a_merge_of_equal_vectors_changes_nothing():
    table = make_table()
    words = np.ascontiguousarray(ODD_WORDS).view(np.float32)
    table.append({"id": [1, 2], "embedding": words})
    assert table.merge({"id": [1, 2], "embedding": words.copy()}).version == 1
    flipped = words.copy()
    flipped.view("<u4")[0, 3] = 0x80000000  # only the sign of a zero
    assert table.merge({"id": [1], "embedding": flipped[:1]}).version == 2


def test_changes_tell_which_vectors_changed():
    table = make_table()
    table.append(rows(range(6)))
    table.merge({"id": [2], "embedding": np.array([[5, 5, 5, 5]], np.float32)})
    table.delete("id = 4")
    (updated, deleted) = sorted(table.changes(1, net=True).read_all().to_pylist(), key=lambda row: row["id"])
    assert (updated["_change"], updated["before"]["embedding"], updated["after"]["embedding"]) == (
        "update",
        [2, 0.5, -2, 1],
        [5, 5, 5, 5],
    )
    assert (deleted["_change"], deleted["id"]) == ("delete", 4)


def test_compaction_keeps_vectors():
    table = make_table()
    for start in range(4):
        table.append(rows(range(start * 3, start * 3 + 3)))
    table.append([{"id": 99, "embedding": None}])
    before = vectors(table)
    table.compact()
    assert len(list(table.files.snapshot().files())) == 1
    assert vectors(table) == before and before[99] is None


def test_a_vector_column_can_be_added_renamed_and_dropped():
    table = make_table(schema=SCHEMA.remove(2))
    table.append([{"id": 1, "title": "a"}])
    table.add_column("embedding", pa.list_(pa.float32(), SIZE), vector=True)
    table.append(rows([2]))
    assert vectors(table) == {1: None, 2: [2, 0.5, -2, 1]}
    table.rename_column("embedding", "meaning")
    found = table.to_arrow(["id", "meaning"]).sort_by("id")
    assert is_vector(found.schema.field("meaning"))
    assert found.column("meaning").to_pylist() == [None, [2, 0.5, -2, 1]]
    table.drop_column("meaning")
    table.add_column("embedding", pa.list_(pa.float32(), 2), vector=True)
    assert vectors(table) == {1: None, 2: None}
    assert vectors(table, version=3) == {1: None, 2: [2, 0.5, -2, 1]}


def test_a_vector_column_stays_what_it_is():
    table = make_table()
    with pytest.raises(SchemaError, match=r"embedding is a .*\[4\]: a .*\[5\] does not hold"):
        table.widen_column("embedding", pa.list_(pa.float32(), 5))
    with pytest.raises(SchemaError, match="a vector is a fixed-size list of float32"):
        table.widen_column("embedding", pa.list_(pa.float64(), SIZE))
    for kind in (pa.float32(), pa.list_(pa.float32()), pa.list_(pa.float64(), 4)):
        with pytest.raises(SchemaError, match="a vector is a fixed-size list of float32"):
            table.add_column("other", kind, vector=True)
    with pytest.raises(SchemaError, match="at least one dimension"):
        vector_field("embedding", 0)
    with pytest.raises(SchemaError, match="cannot be part of a key"):
        Table.create(open_store("memory:"), SCHEMA, key=("embedding",))
    with pytest.raises(SchemaError, match="cannot be partitioned by"):
        Table.create(open_store("memory:"), SCHEMA, partition_by=("embedding",))


def test_vectors_have_no_statistics_and_no_field_in_the_index(tmp_path):
    table = make_table(tmp_path, index={"title": ColumnIndex(kind="text")})
    table.append(rows(range(10)))
    (add,) = table.files.snapshot().files()
    assert set(add.min_values) == set(add.max_values) == {"id", "title"}
    split = open_split(*table.files.locate(add.path), add)
    assert split.mapping["embedding"].kind == "none"
    assert "embedding" not in json.dumps(json.loads(split.member("meta.json"))["schema"])
    assert table.count("film") == 10


def test_a_vector_in_a_split_is_its_bytes(tmp_path):
    table = make_table(tmp_path)
    table.append({"id": [1, 2, 3], "embedding": np.arange(12, dtype=np.float32).reshape(3, 4)})
    (add,) = table.files.snapshot().files()
    split = open_split(*table.files.locate(add.path), add)
    file = pq.ParquetFile(pa.BufferReader(split.member("_rows.parquet")))
    place = [file.schema.column(leaf).path for leaf in range(len(file.schema))].index("embedding")
    assert (file.schema.column(place).physical_type, file.schema.column(place).length) == ("FIXED_LEN_BYTE_ARRAY", 16)
    chunk = file.metadata.row_group(0).column(place)
    assert chunk.statistics is None and not chunk.has_dictionary_page
    assert file.read(["embedding"]).column(0)[1].as_py() == np.arange(4, 8, dtype="<f4").tobytes()


def test_rows_of_a_large_split_are_read_by_number_and_column(tmp_path):
    options = WriteOptions(split=SplitOptions(row_group_rows=1000, compression="none"))
    schema = pa.schema([pa.field("id", pa.int64()), vector_field("embedding", 384), vector_field("other", 2)])
    table = Table.create(tmp_path, schema, write=options)
    matrix = np.random.default_rng(1).standard_normal((4000, 384)).astype(np.float32)
    table.append({"id": np.arange(4000), "embedding": matrix, "other": matrix[:, :2].copy()})
    (add,) = table.files.snapshot().files()
    split = open_split(*table.files.locate(add.path), add)
    found = split.rows(["other", "embedding"], np.array([0, 999, 1000, 3999]))
    kept = np.stack(found.column("embedding").combine_chunks().to_numpy(zero_copy_only=False))
    assert np.array_equal(kept, matrix[[0, 999, 1000, 3999]])
    assert found.column("other").to_pylist()[1] == matrix[999, :2].tolist()


def test_sliced_and_masked_columns_are_packed_right():
    column = pa.array([[1, 2], None, [3, 4], [5, 6], None, [7, 8]], pa.list_(pa.float32(), 2))
    schema = pa.schema([("id", pa.int64()), vector_field("v", 2)])
    for start in range(6):
        for stop in range(start, 7):
            table = Table.create(open_store("memory:"), schema)
            piece = column.slice(start, stop - start)
            table.append(pa.table({"id": pa.array(range(start, stop), pa.int64()), "v": piece}))
            assert table.to_arrow(["v"]).column("v").to_pylist() == column.to_pylist()[start:stop]


def test_rows_of_the_wrong_width_are_a_decode_error(tmp_path):
    from deltaic.table.split.rows import parse_rows, write_rows

    wide = pa.table({"v": pa.array([[1, 2, 3]], pa.list_(pa.float32(), 3))}, schema=pa.schema([vector_field("v", 3)]))
    narrow = pa.table({"v": pa.array([[1, 2]], pa.list_(pa.float32(), 2))}, schema=pa.schema([vector_field("v", 2)]))
    terms = {"compression": "zstd", "compression_level": None, "row_group_rows": 10}
    write_rows(wide, tmp_path / "wide", **terms)
    index = write_rows(narrow, tmp_path / "narrow", **terms)
    with pytest.raises(DecodeError, match="v holds 12 bytes a row"):
        parse_rows(index, (tmp_path / "wide").read_bytes(), "here")


def test_predicates_over_vectors_are_refused_with_a_reason():
    table = make_table()
    table.append(rows(range(3)))
    table.append([{"id": 5}])
    for text in ("embedding = 1", "embedding > 0.5", "embedding in (1, 2)"):
        with pytest.raises(InputError, match=r"embedding is a fixed_size_list.*cannot be compared with"):
            table.count(where=text)
    assert table.count(where="embedding is null") == 1
    assert table.count(where="embedding is not null and id > 0") == 2


def test_an_index_for_a_vector_is_refused():
    with pytest.raises(InputError, match="'embedding' is a vector"):
        make_table(index={"embedding": ColumnIndex(fast=True)})
    make_table(index={"embedding": ColumnIndex(kind="none")})


def test_native_splits_hold_vectors_in_their_rows_only(tmp_path):
    table = make_table(tmp_path, write=WriteOptions(split=SplitOptions(native=True)))
    table.append(rows(range(3)))
    assert vectors(table)[2] == [2, 0.5, -2, 1]


def test_a_search_gives_rows_with_their_vectors():
    table = make_table(index={"title": ColumnIndex(kind="text")})
    table.append(rows(range(5)))
    found = table.search("title:3", columns=["id", "embedding"])
    assert [(row["id"], row["embedding"]) for row in found.to_pylist()] == [(3, [3, 0.5, -3, 1])]


def test_equal_vectors_have_equal_numbers_and_only_those():
    kind = pa.list_(pa.float32(), 2)
    column = pa.array([[0.0, 1], [-0.0, 1], None, [0.0, 1], None, [1, 0]], kind)
    codes = value_codes(column)
    assert codes[0] == codes[3] and codes[2] == codes[4] and len(set(codes.tolist())) == 4
    assert value_codes(column.slice(1)).tolist() != [] and len(set(value_codes(column.slice(1, 3)).tolist())) == 3
    broken = pa.array([[0.0, None], [0.0, 0.0], [0.0, None], None], kind)
    codes = value_codes(broken)
    assert codes[0] == codes[2] and len(set(codes.tolist())) == 3


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.uint8(), pa.int16()], ids=str)
def test_wide_lists_are_told_apart_exactly(kind):
    numbers = np.random.default_rng(3)
    rows = numbers.integers(0, 2, (500, 64)).astype(kind.to_pandas_dtype())
    rows[100:200] = rows[:100]
    rows[200:300, 1:] = rows[:100, 1:]
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 64)
    codes = value_codes(column.slice(7))
    texts = [row.tobytes() for row in rows[7:]]
    expected = {text: codes[place] for place, text in enumerate(texts)}
    assert [expected[text] for text in texts] == codes.tolist() and len(set(codes.tolist())) == len(set(texts))


def test_rows_with_one_hash_are_still_compared(monkeypatch):
    from deltaic.table.rows import equality

    monkeypatch.setattr(equality, "_row_hashes", lambda rows: np.zeros(len(rows), np.uint64))
    column = pa.array([[1.0] * 16, [2.0] * 16, [1.0] * 16], pa.list_(pa.float32(), 16))
    codes = value_codes(column)
    assert codes[0] == codes[2] != codes[1]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64())], ids=str)
def test_lists_with_nulls_become_vectors_in_every_slice(kind):
    column = pa.array([[1, 2, 3, 4], None, [5, 6, 7, 8], None, None, [9, 10, 11, 12]], kind)
    for start in range(6):
        for stop in range(start, 7):
            table = make_table()
            piece = column.slice(start, stop - start)
            # As a stream has it: buffers of its own, none where there are no elements.
            sink = pa.BufferOutputStream()
            given = pa.table({"id": pa.array(range(start, stop), pa.int64()), "embedding": piece})
            with pa.ipc.new_stream(sink, given.schema) as writer:
                writer.write_table(given)
            table.append(pa.ipc.open_stream(sink.getvalue()).read_all())
            assert list(vectors(table).values()) == column.to_pylist()[start:stop]


def test_the_command_takes_vectors_from_json_and_parquet(tmp_path):
    from typer.testing import CliRunner

    from deltaic.cli.table import app

    table = make_table(tmp_path / "films")
    (tmp_path / "a.jsonl").write_text('{"id": 1, "embedding": [1, 2, 3, 0.1]}\n{"id": 2, "embedding": null}\n')
    pq.write_table(pa.table({"id": [3], "embedding": [[1.0, 2, 3, 4]]}), tmp_path / "b.parquet")
    for name in ("a.jsonl", "b.parquet"):
        done = CliRunner().invoke(app, ["append", str(tmp_path / "films"), str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    assert vectors(table) == {1: [1, 2, 3, float(np.float32(0.1))], 2: None, 3: [1, 2, 3, 4]}
    (tmp_path / "c.jsonl").write_text('{"id": 4, "embedding": [1, 2]}\n')
    done = CliRunner().invoke(app, ["append", str(tmp_path / "films"), str(tmp_path / "c.jsonl")])
    assert done.exit_code != 0 and "column embedding, row 0" in f"{done.output}{done.exception}"


def test_the_numbers_of_a_vector_are_no_words_to_search_for():
    table = make_table()
    table.append([{"id": 1, "embedding": [1, 2, 3, 4]}, {"id": 2, "embedding": None}])
    with pytest.raises(QuerySyntaxError, match=r"'embedding' is a vector: rows near another one are found by nearest"):
        table.search("embedding:3")
    assert table.search("embedding:*").table["id"].to_pylist() == [1]
