"""Pruning: what is left out cannot match, by any writer's habits; each hazard of the format has its test."""

import datetime
from decimal import Decimal

import pytest

from deltaic.errors import InputError
from deltaic.table import Settings, Table, column, parse_predicate
from deltaic.table.manifest import ManifestCache
from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or
from deltaic.table.prune import plan
from deltaic.table.statistics import (
    bounds_hold,
    bounds_of_values,
    chosen_columns,
    lower_bound,
    statistics_of,
    upper_bound,
)
from deltaic.table.values import Column, columns_of, parse, schema_text
from tests.unit.table import foreign
from tests.unit.table.making import make_file, make_table

TYPES = {
    "i": "long",
    "d": "double",
    "f": "float",
    "s": "string",
    "b": "boolean",
    "day": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "m": "decimal(10,2)",
    "month": "integer",
}


def left(low, high, where, kind="i", settings=None):
    """Whether a file of those bounds is kept."""
    table = make_table(columns=TYPES)
    statistics = {
        "min_values": None if low is None else {kind: low},
        "max_values": None if high is None else {kind: high},
    }
    table.append([make_file("f", **statistics)])
    predicate = parse_predicate(where) if isinstance(where, str) else where
    return len(plan(table.snapshot(), predicate, settings)) == 1


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("i = 9", True),
        ("i = 10", True),
        ("i = 100", True),
        ("i = 8", False),
        ("i = 101", False),
        ("i < 9", False),
        ("i < 10", True),
        ("i <= 9", True),
        ("i <= 8", False),
        ("i > 100", False),
        ("i > 99", True),
        ("i >= 100", True),
        ("i >= 101", False),
        ("i > 99.5", True),
        ("i > 100.5", False),
        ("i = 50.5", True),
        ("i < 8.5", False),
        ("i != 9", True),
        ("i in (1, 2, 9)", True),
        ("i in (1, 2)", False),
        ("not i in (9)", True),
        ("i between 1 and 8", False),
        ("i between 1 and 9", True),
        ("not i > 8", False),
        ("not (i > 8 and i < 200)", False),
        ("i = 8 or i = 9", True),
        ("i is null", True),
        ("i is not null", True),
        ("i > 99999999999999999999", False),
        ("i < 99999999999999999999", True),
        ("i > -99999999999999999999", True),
        ("unknown = 3", True),
        ("i = null", False),
    ],
)
def test_integers_are_compared_as_integers(where, kept):
    # As texts, 100 sorts before 9.
    assert left("9", "100", where) is kept


def test_the_largest_long_is_not_mistaken_for_something_less():
    assert left(str(2**63 - 1), str(2**63 - 1), f"i = {2**63 - 1}")
    assert left(str(-(2**63)), str(-(2**63)), f"i = {-(2**63)}")
    assert not left(str(2**63 - 1), str(2**63 - 1), f"i != {2**63 - 1}")


@pytest.mark.parametrize("text", ["100.0", "100", "1e2", "1E2"])
def test_doubles_of_every_spelling_are_numbers(text):
    assert left(text, text, "d = 100.0", "d")
    assert left("9", text, "d = 50", "d")
    assert not left("9", text, "d > 100", "d")
    assert not left("9", text, "d < 9", "d")


def test_nan_in_statistics_or_filters_skips_nothing():
    assert left("NaN", "NaN", "d = 5", "d")
    assert left("1", "2", Compare("d", "=", float("nan")), "d")
    assert left("1", "2", "not d < 5", "d"), "a NaN among the rows is not less than 5"
    assert left("1", "1", "d != 1", "d")


def test_a_single_is_not_what_its_shortest_text_says():
    # The row holds 0.100000001490116, its statistics say 0.1.
    assert left("0.1", "0.1", "f > 0.1", "f")
    assert not left("0.1", "0.1", "d > 0.1", "d")


@pytest.mark.parametrize(
    ("where", "kept"),
    [("s = 'a'", False), ("s = 'b'", True), ("s > 'd'", False), ("s >= 'd'", True), ("s < 'b'", False)],
)
def test_short_texts_are_compared_as_texts(where, kept):
    assert left("b", "d", where, "s") is kept


PREFIX = "x" * 32


@pytest.mark.parametrize("operator", ["=", ">", ">=", "!="])
def test_a_max_that_its_writer_cut_is_not_taken_for_the_max(operator):
    # The row is PREFIX + "zzz"; a public writer stored 32 characters of it.
    assert left("a", PREFIX, Compare("s", operator, PREFIX + "zzz"), "s")
    assert left("a", PREFIX, Compare("s", operator, PREFIX + "a"), "s")
    assert left("a", PREFIX, Compare("s", operator, PREFIX), "s")
    assert left("a", PREFIX, In("s", (PREFIX + "zzz",)), "s")


def test_a_cut_max_still_excludes_what_lies_behind_its_prefix():
    assert not left("a", PREFIX, Compare("s", "=", "y"), "s")
    assert not left("a", PREFIX, Compare("s", ">", "xy"), "s")
    assert not left("a", "short", Compare("s", ">", "short"), "s")


@pytest.mark.parametrize("length", [8, 64])
def test_a_max_cut_at_another_length_excludes_no_value_that_goes_on_from_it(length):
    cut = "y" * length
    assert left("a", cut, Compare("s", "=", cut + "more"), "s", Settings(statistics_length=length))
    assert left("a", cut, Compare("s", "=", cut + "more"), "s")


def test_orders_of_text_that_disagree_skip_nothing():
    # U+FF5E sorts before U+1F600 by code point and after it by UTF-16 unit, as Java compares.
    tilde, face = "\uff5e", "\U0001f600"
    assert left(tilde, tilde, Compare("s", "=", face), "s")
    assert left(face, face, Compare("s", "<", tilde), "s")
    assert not left("a", "b", Compare("s", "=", face), "s")


def test_dates_times_booleans_and_decimals_are_compared_by_type():
    day = datetime.date
    assert not left("2024-02-01", "2024-02-09", Compare("day", "=", day(2024, 1, 31)), "day")
    assert left("2024-02-01", "2024-02-09", "day = '2024-02-05'", "day")
    assert left("19754", "19762", Compare("day", "=", day(2024, 2, 5)), "day"), "epoch days of old tables"
    assert not left("19754", "19762", Compare("day", "=", day(2024, 3, 5)), "day")
    assert left(str(19754 * 86_400_000_000), str(19762 * 86_400_000_000), Compare("day", "=", day(2024, 2, 5)), "day")
    utc = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    micros = int(utc.timestamp() * 1_000_000)
    assert left(str(micros), str(micros + 5), Compare("t", "=", utc), "t")
    assert not left(str(micros + 1), str(micros + 5), Compare("t", "=", utc), "t")
    assert left(str(micros + 1), str(micros + 5), Compare("t", "=", utc.replace(tzinfo=None)), "t"), "zone unknown"
    paris = Settings(time_zone="Europe/Paris")
    assert not left(str(micros + 1), str(micros + 5), Compare("t", "=", utc.replace(tzinfo=None)), "t", paris)
    assert not left(str(micros + 1), str(micros + 5), Compare("n", "=", utc.replace(tzinfo=None)), "n")
    assert not left("true", "true", "b = false", "b")
    assert left("false", "true", "b = false", "b")
    assert not left("9.50", "10.25", Compare("m", ">", Decimal("10.25")), "m")
    assert left("9.50", "10.25", Compare("m", "=", Decimal("10")), "m")


@pytest.mark.parametrize(("low", "high"), [(None, "5"), ("1", None), (None, None), ("x", "y"), ("", "")])
def test_missing_or_unreadable_statistics_keep_their_file(low, high):
    assert left(low, high, "i = 3")


def test_partition_values_decide_exactly_and_nulls_match_only_is_null():
    table = make_table(partition_by=("month",), columns=TYPES)
    for month in ("2", "9", "10", None):
        table.append([_in_month(month)])
    assert _found(table, "month > 9") == ["m10"]
    assert _found(table, "month is null") == ["mNone"]
    assert _found(table, "month is not null") == ["m10", "m2", "m9"]
    assert _found(table, "not month = 9") == ["m10", "m2"]
    assert _found(table, "month in (2, 9)") == ["m2", "m9"]
    assert _found(table, "not month in (2, 9)") == ["m10"]
    assert _found(table, "not month in (2, null)") == []


def _in_month(month):
    from msgspec.structs import replace

    return replace(make_file(f"m{month}"), partition_values={"month": month})


def _found(table, where):
    return sorted(table.plan(parse_predicate(where)).paths())


@pytest.fixture
def months(tmp_path):
    made = foreign.Foreign(tmp_path / "table")
    schema = foreign.spark_schema(id="long", month="integer", city="string")
    made.version(0, [foreign.protocol(), foreign.metadata(schema, ["month", "city"])])
    return made


def _state_with_bounds(made, bounds, values):
    entries = [{"path": f"f{month}", "partitionValues": {"month": month, "city": "x"}} for month in values]
    made.state(1, [(made.manifest("00000001", entries), len(entries), bounds)])
    return Table.open(made.folder, cache=ManifestCache())


def test_bounds_that_were_compared_as_texts_lose_no_manifest(months):
    # Months 1 to 12 as texts: from "1" to "9".
    table = _state_with_bounds(months, {"month": {"min": "1", "max": "9"}}, ["1", "9", "10", "12"])
    assert _found(table, "month = 12") == ["f12"]
    assert table.plan(parse_predicate("month = 12")).explain.manifests_skipped == 0


def test_bounds_of_numbers_skip_a_manifest_without_reading_it(months):
    table = _state_with_bounds(months, {"month": {"min": "1", "max": "3"}}, ["1", "3"])
    (months.log / "manifests" / "manifest-00000001.avro").unlink()
    explain = table.plan(parse_predicate("month = 7")).explain
    assert (explain.manifests, explain.manifests_skipped, explain.files_in_skipped_manifests) == (1, 1, 2)


@pytest.mark.parametrize(
    "bounds", [None, {}, {"month": {"min": None, "max": None}}, {"city": {"min": "x", "max": "x"}}]
)
def test_missing_or_null_bounds_keep_their_manifest(months, bounds):
    assert _found(_state_with_bounds(months, bounds, ["5"]), "month = 5") == ["f5"]


def test_our_own_bounds_are_typed_and_nulls_do_not_hide_values():
    table = make_table(partition_by=("month",), columns=TYPES)
    table.append([_in_month("2"), _in_month("10"), _in_month(None)])
    assert (table.snapshot().state.manifests[0].partition_bounds["month"].min) == "2"
    assert _found(table, "month = 5") == []
    assert table.plan(parse_predicate("month = 11")).explain.manifests_skipped == 1
    assert table.plan(parse_predicate("month is null")).paths() == ["mNone"]


def test_explain_counts_what_each_step_left_out():
    table = make_table(partition_by=("month",), columns=TYPES)
    from msgspec.structs import replace

    for month in ("1", "2"):
        files = [
            replace(
                _in_month(month), path=f"{month}-{number}", min_values={"i": str(number)}, max_values={"i": str(number)}
            )
            for number in range(5)
        ]
        table.append([*files, replace(_in_month(month), path=f"{month}-bare")])
    explain = table.plan(parse_predicate("month = 1 and i >= 3")).explain
    assert explain.manifests == 2 and explain.manifests_skipped == 1 and explain.files_in_skipped_manifests == 6
    assert explain.files == 6 and explain.skipped_by_statistics == 3
    assert explain.left == 3 and explain.without_statistics == 1
    table.checkpoint()
    explain = table.plan(parse_predicate("month = 1 and i >= 3")).explain
    assert explain.manifests == 1 and explain.skipped_by_partition == 6 and explain.left == 3
    assert "skipped by" in str(explain)


@pytest.mark.parametrize("length", [1, 2, 32])
@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "x" * 40,
        "\uffff" * 40,
        "\U0010ffff" * 40,
        "a" + "\uffff" * 40,
        "\ud7ff" * 40,
        "é" * 33,
        "\U0001f600" * 20,
    ],
)
def test_a_cut_max_is_an_upper_bound_in_both_orders(text, length):
    def units(value):
        return [value.encode("utf-16-be")[place : place + 2] for place in range(0, len(value.encode("utf-16-be")), 2)]

    low, high = lower_bound(text, length), upper_bound(text, length)
    assert low <= text and units(low) <= units(text) and len(units(low)) <= length
    for longer in (text, text + "\U0010ffff", text + "z"):
        if high is not None and high != text:
            assert high >= longer and units(high) >= units(longer)
    if high is not None:
        assert len(units(high)) <= max(length, 0) or high == text
    else:
        assert all(character in "\uffff\U0010ffff" for character in lower_bound(text, length))


def test_statistics_are_collected_from_arrow_as_the_settings_say():
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.table(
        {
            "i": [3, None, 10],
            "s": ["b", "x" * 40, None],
            "d": [1.5, float("nan"), None],
            "t": arrow.array([0, 5, 7], arrow.timestamp("us", tz="UTC")),
            "empty": arrow.array([None, None, None], arrow.int64()),
            "blob": [b"a", b"b", b"c"],
        }
    )
    columns = columns_of(schema_text({**TYPES, "empty": "long", "blob": "binary"}))
    low, high = statistics_of(rows, columns, Settings())
    assert low == {"i": "3", "s": "b", "d": "1.5", "t": "0"}
    assert high == {"i": "10", "s": "x" * 31 + "y", "t": "7"}
    assert statistics_of(rows, columns, Settings(statistics_columns=("i",))) == ({"i": "3"}, {"i": "10"})
    assert statistics_of(rows, columns, Settings(statistics_column_count=0)) == ({}, {})
    assert [column.name for column in chosen_columns(columns, ["i"], Settings(statistics_column_count=2))] == ["d", "f"]


def test_bounds_are_true_or_not():
    assert bounds_hold("1", "9", 1, 9, "long") and not bounds_hold("2", "9", 1, 9, "long")
    assert not bounds_hold("1", "9", 1, 10, "long")
    assert bounds_hold("a", PREFIX, "a", PREFIX + "z", "string") and not bounds_hold("a", "b", "a", "c", "string")
    assert bounds_of_values({"i": (None, 5)}, [Column("i", "long")], Settings()) == ({}, {"i": "5"})


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", Compare("a", "=", 1)),
        ("a == 'it''s'", Compare("a", "=", "it's")),
        ("a <> 1.5 AND b >= -2", And((Compare("a", "!=", 1.5), Compare("b", ">=", -2)))),
        ("a IN (1, 'x') or not b is null", Or((In("a", (1, "x")), Not(IsNull("b"))))),
        ("`odd name` < true", Compare("odd name", "<", True)),
        ("a not in (1)", Not(In("a", (1,)))),
        ("(a = 1 or a = 2) and b = 3", And((Or((Compare("a", "=", 1), Compare("a", "=", 2))), Compare("b", "=", 3)))),
    ],
)
def test_predicates_are_read_as_sql_writes_them(text, predicate):
    assert parse_predicate(text) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a =",
        "= 1",
        "a = 1 b",
        "a in ()",
        "(a = 1",
        "a ! 1",
        "a = b",
        "a is 3",
        "(" * 2000,
        "not " * 5000 + "a = 1",
    ],
)
def test_what_is_no_predicate_is_refused(text):
    with pytest.raises(InputError) as refused:
        parse_predicate(text)
    assert refused.value.code == "BadPredicate"


def test_columns_build_predicates():
    assert (column("a") > 1) & ~(column("b").one_of([1])) == And((Compare("a", ">", 1), Not(In("b", (1,)))))
    assert (column("a").is_null() | column("a").differs(2)) == Or((IsNull("a"), Compare("a", "!=", 2)))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "long", 7),
        ("7.0", "long", None),
        ("x", "double", None),
        ("TRUE", "boolean", True),
        ("2024-13-01", "date", None),
    ],
)
def test_a_text_that_is_none_of_its_type_is_not_known(text, kind, value):
    assert parse(text, kind) == value
