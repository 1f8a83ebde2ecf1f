"""Skipping files never loses a row: predicates over rows and over statistics say the same."""

import datetime
import decimal
import math
import operator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from deltaic.errors import InputError
from deltaic.table import Settings
from deltaic.table.predicate import Compare, In, IsNull, Not, column, parse_predicate
from deltaic.table.rows import WriteOptions
from deltaic.table.rows.matching import matches, predicate_text, truth
from tests.unit.table.rows.making import FAST, films, ids, make_table

UTC = datetime.UTC
PREFIX = "thirty-two characters that agree"
SAMPLES = {
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int64(): [-(2**63), -(2**53) - 1, 0, 2**53, 2**53 + 1, 2**63 - 1],
    pa.uint32(): [0, 1, 2**31, 2**32 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float32(): [-math.inf, -1.5, -0.0, 0.0, 0.10000000149011612, 1.5, math.inf, math.nan],
    pa.float64(): [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.0**53, math.inf, math.nan],
    pa.string(): ["", "a", PREFIX, PREFIX + "a", PREFIX + "b", PREFIX[:-1] + "\U0010ffff", "\uffff", "\U0001f600"],
    pa.bool_(): [True, False],
    pa.date32(): [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)],
    pa.timestamp("us", "Europe/Berlin"): [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime.datetime(1970, 1, 1, tzinfo=UTC),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
    ],
    pa.timestamp("ms"): [datetime.datetime(1969, 12, 31), datetime.datetime(2024, 1, 1, 0, 0, 0, 1000)],
    pa.decimal128(10, 2): [decimal.Decimal("-1.50"), decimal.Decimal("0.10"), decimal.Decimal("99999999.99")],
}
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
BESIDE = {
    "number": [-(2**70), -1.5, -1, 0, 0.1, 0.5, 2**53 + 1, 2**63, 2**70, 1e300, math.inf, -math.inf],
    "string": [PREFIX[:31], PREFIX + "aa", "b"],
}


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(list(SAMPLES)))
    own = SAMPLES[kind]
    groups = draw(st.lists(st.lists(st.sampled_from([*own, None]), min_size=1, max_size=4), min_size=1, max_size=4))
    more = BESIDE["string"] if pa.types.is_string(kind) else []
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        more = BESIDE["number"]
    values = st.sampled_from([*own, *more, None])
    sign = draw(st.sampled_from([*OPERATORS, "in", "null"]))
    if sign == "in":
        found = In("x", tuple(draw(st.lists(values, min_size=1, max_size=3))))
    elif sign == "null":
        found = IsNull("x")
    else:
        found = Compare("x", sign, draw(values))
    return kind, groups, Not(found) if draw(st.booleans()) else found


def plain(predicate, value):
    if isinstance(predicate, Not):
        inner = plain(predicate.part, value)
        return None if inner is None else not inner
    if isinstance(predicate, IsNull):
        return value is None
    if isinstance(predicate, In):
        answers = [plain(Compare("x", "=", one), value) for one in predicate.values]
        return True if True in answers else None if None in answers else False
    if value is None or predicate.value is None:
        return None
    return OPERATORS[predicate.operator](value, predicate.value)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_a_scan_with_a_predicate_finds_what_looking_at_every_row_finds(case):
    kind, groups, predicate = case
    table = make_table(pa.schema([("x", kind), ("n", pa.int32())]), write=WriteOptions(threads=1))
    rows = []
    for group in groups:
        part = pa.table(
            {"x": pa.array(group, kind), "n": pa.array(range(len(rows), len(rows) + len(group)), pa.int32())}
        )
        rows += part.to_pylist()
        table.append(part)
    wanted = sorted(row["n"] for row in rows if plain(predicate, row["x"]))
    assert sorted(table.to_arrow(["n"], predicate).column("n").to_pylist()) == wanted
    assert table.count(where=predicate) == len(wanted)
    assert table.verify().findings == ()


def test_statistics_leave_files_out():
    table = make_table()
    for numbers in ((1, 2), (10, 11), (20, 21)):
        table.append(films(*numbers))
    explained = table.explain(where="id >= 20")
    assert len(explained.files) == 1 and explained.rows == 2
    assert "2 by statistics" in str(explained)
    assert explained.to_dict()["pruning"]["skipped_by_statistics"] == 2


def test_texts_that_share_their_first_characters_are_told_apart_by_rows():
    table = make_table(pa.schema([("s", pa.string())]))
    table.append([{"s": PREFIX + "a"}])
    table.append([{"s": PREFIX + "b"}])
    assert table.count(where=column("s").equals(PREFIX + "b")) == 1
    assert table.count(where=column("s") > PREFIX + "a") == 1
    assert table.count(where=column("s") >= PREFIX) == 2
    assert table.count(where=column("s") > PREFIX) == 2


def test_a_widened_column_still_finds_rows_of_old_splits():
    table = make_table(pa.schema([("id", pa.int64()), ("f", pa.float32()), ("d", pa.date32()), ("n", pa.int8())]))
    table.append([{"id": 1, "f": 0.1, "d": datetime.date(2024, 1, 1), "n": 5}])
    table.widen_column("f", pa.float64())
    table.widen_column("d", pa.timestamp("us"))
    table.widen_column("n", pa.float64())
    assert ids(table, Compare("f", "=", 0.10000000149011612)) == [1]
    assert ids(table, "f > 0.1") == [1]
    assert ids(table, "d = '2024-01-01'") == [1]
    assert ids(table, "n >= 5 and n <= 5.5") == [1]
    table.append(pa.table({"id": [2], "f": [0.1], "d": pa.array([datetime.datetime(2024, 1, 1, 12)]), "n": [4.5]}))
    assert ids(table, "f = 0.1") == [2] and ids(table, "n < 5") == [2] and ids(table, "d > '2024-01-01'") == [2]


def test_nanoseconds_beyond_the_last_whole_microsecond_are_not_skipped():
    ticks = pa.array([1_500, -1_500], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    table = make_table(pa.schema([("id", pa.int64()), ("t", ticks.type)]))
    table.append(pa.table({"id": [1, 2], "t": ticks}))
    assert ids(table, "t > '1970-01-01T00:00:00.000001+00:00'") == [1]
    assert ids(table, "t < '1969-12-31T23:59:59.999999+00:00'") == [2]
    assert table.count(where=In("t", tuple(ticks.to_pylist()))) == 2


def test_a_floats_shortest_text_of_another_writer_skips_no_row_once_it_is_a_double():
    table = make_table(pa.schema([("id", pa.int64()), ("f", pa.float32())]))
    table.append([{"id": 1, "f": 0.1}])
    (add,) = table.files.snapshot().files()
    short = replace(add, path="short.split", min_values={"f": "0.1"}, max_values={"f": "0.1"})
    table.files.store.put("short.split", table.files.store.get(add.path).data)
    table.files.rewrite([add.path], [short])
    assert ids(table, "f > 0.1") == [1]
    table.widen_column("f", pa.float64())
    assert ids(table, "f > 0.1") == [1]


def test_statistics_of_another_column_that_had_the_name_do_not_count():
    table = make_table(pa.schema([("id", pa.int64()), ("a", pa.int64())]))
    table.append([{"id": 1, "a": 100}])
    table.rename_column("a", "b")
    table.add_column("a", pa.int64(), default=1)
    table.append([{"id": 2, "a": 100, "b": 1}])
    assert ids(table, "a = 1") == [1] and ids(table, "a = 100") == [2]
    assert ids(table, "b = 100") == [1] and ids(table, "b < 50") == [2]
    table.delete("a = 1")
    assert ids(table) == [2]


def test_a_time_without_a_zone_is_refused_unless_the_table_has_one():
    kind = pa.timestamp("us", "UTC")
    table = make_table(pa.schema([("id", pa.int64()), ("t", kind)]))
    table.append([{"id": 1, "t": datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)}])
    with pytest.raises(InputError, match="zone"):
        table.count(where="t > '2024-01-01'")
    zoned = make_table(pa.schema([("id", pa.int64()), ("t", kind)]), settings=Settings(time_zone="Asia/Tokyo"))
    zoned.append([{"id": 1, "t": datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)}])
    assert zoned.count(where="t = '2024-01-01T21:00:00'") == 1
    assert zoned.count(where="t = '2024-01-01T12:00:00+00:00'") == 1


@pytest.mark.parametrize(
    ("where", "why"),
    [("id = 'x'", "id"), ("nothing = 1", "no column"), ("title = 5", "title"), ("year = true", "year")],
)
def test_a_predicate_that_can_never_be_meant_is_refused(where, why):
    with pytest.raises(InputError, match=why):
        make_table().count(where=where)


def test_a_decimal_is_compared_with_what_is_written():
    rows = pa.table({"x": pa.array([decimal.Decimal("0.10"), decimal.Decimal("0.11")])})
    assert matches(parse_predicate("x = 0.1"), rows).to_pylist() == [True, False]
    assert matches(parse_predicate("x < 0.105"), rows).to_pylist() == [True, False]
    assert matches(parse_predicate("x > '0.105'"), rows).to_pylist() == [False, True]


def test_a_predicate_is_written_and_read_again():
    text = "(`a b` = 'it''s') or (not (x in (1, 2.5, null))) or (y is null and z >= true)"
    found = parse_predicate(text)
    assert parse_predicate(predicate_text(found)) == found


def test_unknown_stays_unknown():
    rows = pa.table({"x": [1, None]})
    assert truth(parse_predicate("x in (2, null)"), rows).to_pylist() == [None, None]
    assert truth(parse_predicate("not (x = 1)"), rows).to_pylist() == [False, None]
    assert truth(parse_predicate("x = null or x = 1"), rows).to_pylist() == [True, None]


def test_partitions_of_every_type_come_back_and_are_skipped():
    values = {
        "i": (pa.int16(), [-5, 7, None]),
        "s": (pa.string(), ["a/b", "", "ü%", None]),
        "b": (pa.bool_(), [True, False, None]),
        "d": (pa.date32(), [datetime.date(2024, 1, 1), None]),
        "t": (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC), None]),
        "n": (pa.timestamp("ms"), [datetime.datetime(2024, 1, 1), None]),
        "c": (pa.decimal128(9, 3), [decimal.Decimal("1.500"), None]),
        "f": (pa.float64(), [1.5, -0.0, None]),
        "u": (pa.uint64(), [2**64 - 1, 0, None]),
    }
    for name, (kind, given_) in values.items():
        table = make_table(pa.schema([("id", pa.int64()), (name, kind)]), partition_by=(name,), settings=FAST)
        table.append(pa.table({"id": range(len(given_)), name: pa.array(given_, kind)}))
        assert table.to_arrow().sort_by("id").column(name).to_pylist() == given_
        assert table.schema.field(name).type == kind
        for number, value in enumerate(given_):
            where = IsNull(name) if value is None else Compare(name, "=", value)
            assert ids(table, where) == [number], (name, value)
        table.delete(IsNull(name))
        assert table.count() == len([one for one in given_ if one is not None])
        assert table.verify().findings == ()


def test_a_partition_of_nan_is_refused():
    table = make_table(pa.schema([("id", pa.int64()), ("f", pa.float64())]), partition_by=("f",))
    with pytest.raises(InputError, match="f, row 0: nan"):
        table.append([{"id": 1, "f": math.nan}])
    assert table.version == 0
