"""The operations of the conflict matrix: each plans on the old version of a small table and checks its own effect."""

from deltaic.table import EVERYTHING, Isolation, column
from deltaic.table.values import schema_text
from tests.unit.table.making import COLUMNS, make_file, make_table

DAYS = {"same": "2024-01-01", "other": "2024-01-02"}


def start():
    """A table with two files in each of two days, and its snapshot."""
    table = make_table(partition_by=("day",))
    files = [make_file(f"day={day}/{name}", store=table.store, day=day) for day in DAYS.values() for name in ("a", "b")]
    table.append(files)
    return table, table.snapshot()


def run(name, table, snapshot, day, mark):
    """Run an operation, planned on a snapshot; gives a check of its effect on a later one."""
    return OPERATIONS[name](table, snapshot, day, mark)


def live(snapshot):
    return set(snapshot.paths())


def append(table, snapshot, day, mark):
    table.append([make_file(f"day={day}/append-{mark}", day=day)], snapshot=snapshot)
    return lambda after: f"day={day}/append-{mark}" in live(after)


def overwrite(table, snapshot, day, mark):
    table.overwrite([make_file(f"day={day}/overwrite-{mark}", day=day)], snapshot=snapshot)
    return lambda after: f"day={day}/overwrite-{mark}" in live(after) and f"day={day}/a" not in live(after)


def overwrite_day(table, snapshot, day, mark):
    where = column("day").equals(day)
    table.overwrite([make_file(f"day={day}/overwrite-day-{mark}", day=day)], where=where, snapshot=snapshot)
    return lambda after: f"day={day}/overwrite-day-{mark}" in live(after) and f"day={day}/a" not in live(after)


def update(table, snapshot, day, mark, isolation=Isolation.SERIALIZABLE):
    new = f"day={day}/update-{mark}"
    reads = column("day").equals(day)
    table.rewrite([f"day={day}/a"], [make_file(new, day=day)], reads=reads, snapshot=snapshot, isolation=isolation)
    return lambda after: new in live(after) and f"day={day}/a" not in live(after)


def update_snapshot(table, snapshot, day, mark):
    return update(table, snapshot, day, mark, Isolation.SNAPSHOT)


def merge(table, snapshot, day, mark):
    new = f"day={day}/merge-{mark}"
    table.merge([f"day={day}/a", f"day={day}/b"], [make_file(new, day=day)], snapshot=snapshot)
    return lambda after: new in live(after) and f"day={day}/a" not in live(after)


def drop(table, snapshot, day, mark):
    table.drop_partitions(column("day").equals(day), snapshot=snapshot)
    return lambda after: f"day={day}/a" not in live(after)


def set_key(table, snapshot, day, mark):
    table.configure({f"key-{day}": mark}, snapshot=snapshot)
    return lambda after: after.metadata.configuration[f"key-{day}"] == mark


def add_column(table, snapshot, day, mark):
    table.change_schema(schema_text({**COLUMNS, f"new-{mark}": "long"}), snapshot=snapshot)
    return lambda after: f"new-{mark}" in after.types


def change_column(table, snapshot, day, mark):
    table.change_schema(schema_text({**COLUMNS, "id": "string" if mark == "first" else "double"}), snapshot=snapshot)
    return lambda after: after.types["id"] == ("string" if mark == "first" else "double")


def tag(table, snapshot, day, mark):
    table.tag(f"tag-{day}", 0 if mark == "first" else 1, snapshot=snapshot)
    return lambda after: after.tags[f"tag-{day}"] == (0 if mark == "first" else 1)


def skip(table, snapshot, day, mark):
    table.skip([f"day={day}/b"], reason=mark, snapshot=snapshot)
    return lambda after: True


def restore(table, snapshot, day, mark):
    table.restore(version=0, snapshot=snapshot)
    return lambda after: f"day={day}/a" not in live(after)


def read_all(table, snapshot, day, mark):
    new = f"day={day}/derived-{mark}"
    from deltaic.table import Changes

    table.commit(Changes("derive", adds=(make_file(new, day=day),), reads=EVERYTHING), snapshot=snapshot)
    return lambda after: new in live(after)


OPERATIONS = {
    "append": append,
    "overwrite": overwrite,
    "overwrite a partition": overwrite_day,
    "update rows": update,
    "update rows, snapshot": update_snapshot,
    "derive from all rows": read_all,
    "merge": merge,
    "drop a partition": drop,
    "set a key": set_key,
    "add a column": add_column,
    "change a column": change_column,
    "tag": tag,
    "skip": skip,
    "restore": restore,
}

REPLACES = {"overwrite", "overwrite a partition", "drop a partition", "restore"}
"""Operations that may take away what the first one did, by what they are for."""
