"""A table of rows beside a plain model: every operation, every version, every change between two versions."""

import itertools
import math
import struct
import time
from collections import Counter

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaic.storage import open_store
from deltaic.table import Settings
from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or
from deltaic.table.rows import Table, WriteOptions

_stores = itertools.count()
FAST = Settings(retry_base_delay_ms=0, retry_max_delay_ms=0)
LONG = "the same beginning of thirty-two characters and more: "
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float32()),
        ("tags", pa.list_(pa.string())),
    ]
)
FLOATS = [None, 0.0, -0.0, 1.5, -2.0, math.inf, math.nan, 0.10000000149011612]
TEXTS = [None, "", "a", "b", LONG + "x", LONG + "y", "\U0001f600", "￿"]
NUMBERS = [None, -(2**31), -1, 0, 1, 5, 2**31 - 1]
PARTS = [None, "", "p", "q/%", "r"]

rows_ = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 6),
            "part": st.sampled_from(PARTS),
            "n": st.sampled_from(NUMBERS),
            "s": st.sampled_from(TEXTS),
            "f": st.sampled_from(FLOATS),
            "tags": st.sampled_from([None, [], ["a"], ["a", None], ["b", "a"]]),
        }
    ),
    max_size=8,
)
VALUES = {
    "id": [0, 3, 6.5, 12, -1],
    "part": ["", "p", "q/%", "zz"],
    "n": [-1, 0, 5, 2.5, 2**40, -(2**31)],
    "s": ["", "a", LONG + "x", LONG[:32], "\U0001f600"],
    "f": [0.0, 1.5, -2, 0.1, math.nan, math.inf, 0.10000000149011612],
}


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(sorted(VALUES)))
    kind = draw(st.sampled_from(["compare", "in", "null"]))
    if kind == "null":
        return IsNull(name)
    values = st.sampled_from([*VALUES[name], None])
    if kind == "in":
        return In(name, tuple(draw(st.lists(values, min_size=1, max_size=3))))
    return Compare(name, draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="])), draw(values))


predicates = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=4,
)


def compared(value, operator, wanted):
    if value is None or wanted is None:
        return None
    return {
        "=": lambda: value == wanted,
        "!=": lambda: value != wanted,
        "<": lambda: value < wanted,
        "<=": lambda: value <= wanted,
        ">": lambda: value > wanted,
        ">=": lambda: value >= wanted,
    }[operator]()


def true_of(predicate, row):
    """SQL's three values, by plain Python."""
    if isinstance(predicate, Not):
        inner = true_of(predicate.part, row)
        return None if inner is None else not inner
    if isinstance(predicate, And | Or):
        parts = [true_of(part, row) for part in predicate.parts]
        decisive = isinstance(predicate, Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if isinstance(predicate, IsNull):
        return row[predicate.column] is None
    if isinstance(predicate, In):
        parts = [compared(row[predicate.column], "=", one) for one in predicate.values]
        return True if True in parts else None if None in parts else False
    return compared(row[predicate.column], predicate.operator, predicate.value)


def exact(value):
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return tuple(map(exact, value))
    return value


def bag(rows):
    return Counter(tuple(sorted((name, exact(value)) for name, value in row.items())) for row in rows)


class Model:
    """Rows as a list, columns as a list; every version kept."""

    def __init__(self):
        self.rows, self.names = [], list(SCHEMA.names)
        self.was = {name: name for name in self.names}
        self.versions = []
        self.keep()

    def keep(self):
        self.versions.append((list(self.names), [dict(row) for row in self.rows], dict(self.was)))


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows_),
        st.tuples(st.just("append"), rows_),
        st.tuples(st.just("overwrite"), rows_),
        st.tuples(st.just("overwrite where"), rows_, predicates),
        st.tuples(st.just("overwrite partitions"), rows_),
        st.tuples(st.just("delete"), predicates),
        st.tuples(st.just("delete"), predicates),
        st.tuples(st.just("update"), predicates, st.sampled_from(["n", "s", "part"])),
        st.tuples(st.just("merge"), rows_, st.booleans()),
        st.tuples(st.just("merge"), rows_, st.booleans()),
        st.tuples(st.just("add"), st.sampled_from(["x", "y"])),
        st.tuples(st.just("drop"), st.sampled_from(["x", "y", "z"])),
        st.tuples(st.just("rename"), st.sampled_from([("x", "z"), ("z", "y"), ("y", "x")])),
        st.tuples(st.just("widen")),
        st.tuples(st.just("reorder")),
        st.tuples(st.just("compact")),
        st.tuples(st.just("restore"), st.integers(0, 8)),
    ),
    min_size=2,
    max_size=9,
)


def run(table, model, operation):
    """Do the same to both; True if the table has a new version."""
    name, *given_ = operation
    before = table.version
    more = {column: 7 for column in model.names if column not in SCHEMA.names}
    if name in ("append", "overwrite", "overwrite where", "overwrite partitions", "merge"):
        fresh = [{**row, **more} for row in given_[0]]
    if name == "append":
        table.append(given_[0])
        model.rows += fresh
    elif name == "overwrite":
        table.overwrite(given_[0])
        model.rows = fresh
    elif name == "overwrite where":
        chosen = [row for row in given_[0] if true_of(given_[1], row)]
        table.overwrite(chosen, where=given_[1])
        model.rows = [row for row in model.rows if not true_of(given_[1], row)] + [{**row, **more} for row in chosen]
    elif name == "overwrite partitions":
        table.overwrite(given_[0], dynamic=True)
        parts = {row["part"] for row in fresh}
        model.rows = [row for row in model.rows if row["part"] not in parts] + fresh
    elif name == "delete":
        table.delete(given_[0])
        model.rows = [row for row in model.rows if not true_of(given_[0], row)]
    elif name == "update":
        value = {"n": 5, "s": LONG + "z", "part": "moved"}[given_[1]]
        table.update({given_[1]: value}, given_[0])
        model.rows = [{**row, given_[1]: value} if true_of(given_[0], row) else row for row in model.rows]
    elif name == "merge":
        unique = list({row["id"]: row for row in given_[0]}.values())
        if given_[1]:
            unique = [{"id": row["id"], "n": row["n"]} for row in unique]
        table.merge(unique)
        source = {row["id"]: row for row in unique}
        met = {row["id"] for row in model.rows}
        model.rows = [{**row, **source.get(row["id"], {})} for row in model.rows]
        missing = dict.fromkeys(SCHEMA.names)
        model.rows += [{**missing, **more, **row} for key, row in source.items() if key not in met]
    elif name == "add" and given_[0] not in model.names:
        table.add_column(given_[0], pa.int16(), default=7)
        model.names.append(given_[0])
        model.was[given_[0]] = ("new", len(model.versions))
        model.rows = [{**row, given_[0]: 7} for row in model.rows]
    elif name == "drop" and given_[0] in model.names:
        table.drop_column(given_[0])
        model.names.remove(given_[0])
        model.was.pop(given_[0])
        model.rows = [{key: value for key, value in row.items() if key != given_[0]} for row in model.rows]
    elif name == "rename" and given_[0][0] in model.names and given_[0][1] not in model.names:
        old, new = given_[0]
        table.rename_column(old, new)
        model.names[model.names.index(old)] = new
        model.was[new] = model.was.pop(old)
        model.rows = [{(new if key == old else key): value for key, value in row.items()} for row in model.rows]
    elif name == "widen":
        if table.schema.field("n").type == pa.int32():
            table.widen_column("n", pa.int64())
            table.widen_column("f", pa.float64())
            model.keep()
    elif name == "reorder":
        last = model.names[-1]
        table.reorder_columns([last])
        model.names = [last, *model.names[:-1]]
    elif name == "compact":
        table.compact()
    elif name == "restore":
        version = given_[0] % len(model.versions)
        table.restore(version=version)
        names, rows, was = model.versions[version]
        model.names, model.rows, model.was = list(names), [dict(row) for row in rows], dict(was)
    if table.version > before:
        model.keep()
    return name


def applied(rows, changes):
    """A bag of rows after changes; a row that goes must have been there."""
    found = bag(rows)
    for change in changes.to_pylist():
        if change["before"] is not None:
            gone = bag([change["before"]])
            assert found & gone == gone, change
            found -= gone
        if change["after"] is not None:
            found += bag([change["after"]])
        kind = {(True, True): "update", (True, False): "delete", (False, True): "insert"}
        assert change["_change"] == kind[change["before"] is not None, change["after"] is not None]
        assert change["before"] is None or change["after"] is None or bag([change["before"]]) != bag([change["after"]])
        side = change["after"] or change["before"]
        assert change["id"] == side["id"]
    return found


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(operations, predicates, st.booleans())
def test_a_table_is_what_a_plain_model_is_at_every_version(steps, where, small):
    options = WriteOptions(split_rows=3) if small else WriteOptions()
    table = Table.create(
        open_store(f"memory:rows-model-{next(_stores)}-{time.time_ns()}"),
        SCHEMA,
        partition_by=("part",),
        key=("id",),
        settings=FAST,
        write=options,
    )
    model = Model()
    done = ["create"]
    for step in steps:
        count = len(model.versions)
        name = run(table, model, step)
        done += [name] * (len(model.versions) - count)
    assert table.version == len(model.versions) - 1
    for version, (names, rows, was) in enumerate(model.versions):
        view = table.at(version=version)
        assert view.schema.names == names
        assert bag(view.to_arrow().to_pylist()) == bag(rows), (version, done)
        assert view.count() == len(rows)
        wanted = [row for row in rows if true_of(where, row)]
        assert bag(view.to_arrow(where=where).to_pylist()) == bag(wanted), (version, where)
        if version and model.versions[version - 1][2] == was and set(model.versions[version - 1][0]) == set(names):
            changes = table.changes(version - 1, version).read_all()
            assert applied(model.versions[version - 1][1], changes) == bag(rows), (version, done)
            if done[version] in ("compact", "add", "drop", "rename", "widen", "reorder"):
                assert changes.num_rows == 0
    last, first = (
        model.versions[-1],
        next(place for place, one in enumerate(model.versions) if one[2] == model.versions[-1][2]),
    )
    if all(one[2] == last[2] for one in model.versions[first:]):
        assert applied(model.versions[first][1], table.changes(first, net=True).read_all()) == bag(last[1])
    assert table.verify().findings == ()
