"""Functions over columns of vectors: on Arrow arrays, then the same through Spark."""

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import DecodeError, InputError
from deltaic.spark.vector_columns import applied_column, delta_column, dequantized_column, quantized_column
from deltaic.wire.vectors import EncodeOptions, encode_message, read_message

EXACT = EncodeOptions()
KIND = pa.list_(pa.float32())


def random_vectors(count=50, dims=64, seed=1):
    numbers = np.random.default_rng(seed)
    old = numbers.standard_normal((count, dims)).astype(np.float32)
    new = old.copy()
    new[:, :5] += np.float32(0.25)
    new[3] = old[3]
    new[4].view(np.uint32)[:] = 0x7FC00001  # a NaN with a payload
    return old, new


def column(matrix):
    return pa.array(list(matrix), KIND)


@pytest.mark.parametrize("kind", [KIND, pa.large_list(pa.float32()), pa.list_(pa.float32(), 64)], ids=str)
def test_a_delta_leads_from_one_vector_to_the_other_bit_for_bit(kind):
    old, new = random_vectors()
    before = pa.array(list(old), kind)
    deltas = delta_column(before, column(new), EXACT)
    assert deltas[0].as_py() == encode_message(old[0], new[0])
    assert max(len(each.as_py()) for each in deltas if each is not deltas[4]) < 4 * 64 + 40
    found = applied_column(before, deltas)
    assert np.array_equal(found.values.to_numpy().view(np.uint32), new.view(np.uint32).reshape(-1))


def test_slices_and_nulls_keep_their_rows():
    old = pa.array([[9, 9], [1, 2], None, [3, 4], [5, 6]], KIND).slice(1)
    new = pa.array([[9, 9], [1, 3], [7, 8], None, [5, 6]], KIND).slice(1)
    deltas = delta_column(old, new, EXACT)
    assert [each.is_valid for each in deltas] == [True, True, False, True]
    assert applied_column(old, deltas).to_pylist() == [[1, 3], [7, 8], None, [5, 6]]
    assert read_message(deltas[3].as_py()).delta.is_identity


def test_what_is_no_vector_is_refused_with_its_row():
    good = pa.array([[1, 2]], KIND)
    with pytest.raises(InputError, match="row 0: .*2 dimensions became one of 3"):
        delta_column(good, pa.array([[1, 2, 3]], KIND), EXACT)
    with pytest.raises(InputError, match=r"old: a vector is an array<float>, not list<item: double>"):
        delta_column(pa.array([[1.0, 2]], pa.list_(pa.float64())), good, EXACT)
    with pytest.raises(InputError, match="new, row 1: an element of the vector is null"):
        delta_column(pa.array([[1, 2]] * 2, KIND), pa.array([[1, 2], [1, None]], KIND), EXACT)
    with pytest.raises(DecodeError, match="row 0"):
        applied_column(good, pa.array([b"junk"]))
    with pytest.raises(InputError, match="row 0: the delta changes some dimensions of a vector that is null"):
        applied_column(pa.array([None], KIND), delta_column(pa.array([[1, 2]], KIND), pa.array([[1, 3]], KIND), EXACT))
    with pytest.raises(InputError, match="row 0"):
        applied_column(pa.array([[1, 2, 3]], KIND), delta_column(good, pa.array([[4, 5]], KIND), EXACT))


@pytest.mark.parametrize(
    ("how", "most_bytes", "most_error"), [("none", 290, 0), ("f16", 150, 2e-3), ("int8", 90, 0.03)]
)
def test_quantised_vectors_are_small_and_near(how, most_bytes, most_error):
    old, _ = random_vectors()
    small = quantized_column(column(old), EncodeOptions(quantization=how))
    assert max(len(each.as_py()) for each in small) <= most_bytes
    found = np.stack(dequantized_column(small).to_numpy(zero_copy_only=False))
    assert np.abs(found - old).max() <= most_error
    assert dequantized_column(quantized_column(pa.array([None, [0, 0]], KIND), EXACT)).to_pylist() == [None, [0, 0]]


def test_a_relative_delta_is_no_quantised_vector():
    relative = encode_message(np.zeros(4, np.float32), np.ones(4, np.float32), EncodeOptions(relative=True))
    with pytest.raises(InputError, match="row 0: a relative delta is no vector"):
        dequantized_column(pa.array([relative]))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
class TestInSpark:
    """The same over DataFrames and in SQL."""

    @pytest.fixture
    def frame(self, spark):
        old, new = random_vectors(20, 16)
        rows = [
            (place, before.tolist(), after.tolist()) for place, (before, after) in enumerate(zip(old, new, strict=True))
        ]
        rows.append((20, None, [1.0] * 16))
        rows.append((21, [1.0] * 16, None))
        return spark.createDataFrame(rows, "id int, old array<float>, new array<float>").repartition(2)

    def test_deltas_of_a_frame_lead_to_its_new_vectors(self, frame):
        from deltaic.spark import functions

        options = EncodeOptions(compression="zstd", compress_min=0)
        moved = frame.withColumn("delta", functions.vector_delta("old", "new", options))
        found = moved.select(
            "id", "new", "delta", functions.apply_vector_delta("old", "delta").alias("again")
        ).collect()
        assert len(found) == 22
        for row in found:
            assert repr(row.again) == repr(row.new) and (row.delta is None) == (row.id == 21)

    def test_quantised_columns_come_back_near(self, frame):
        from deltaic.spark import functions

        small = frame.select("old", functions.quantize("old", "f16").alias("small"))
        for row in small.select("old", "small", functions.dequantize("small").alias("again")).collect():
            if row.old is None:
                assert row.again is None
            else:
                assert np.allclose(row.old, row.again, atol=2e-3) and len(row.small) < 16 * 4

    def test_sql_knows_them(self, spark, frame):
        from deltaic.spark import functions

        functions.register(spark)
        frame.createOrReplaceTempView("moved")
        found = spark.sql(
            "SELECT id, new, apply_vector_delta(old, vector_delta(old, new)) AS again, "
            "size(dequantize(quantize_int8(new))) AS size FROM moved WHERE id < 4"
        ).collect()
        assert len(found) == 4 and all(row.again == row.new and row.size == 16 for row in found)

    def test_an_error_names_the_row(self, spark):
        from deltaic.spark import functions

        frame = spark.createDataFrame([([1.0], [1.0, 2.0])], "old array<float>, new array<float>")
        with pytest.raises(Exception, match="row 0: .*became one of 2"):
            frame.select(functions.vector_delta("old", "new")).collect()
