"""Changes between versions as rows, and compaction, which is none."""

import math

import pyarrow as pa
import pytest

from deltaic.errors import InputError
from deltaic.table.rows import Table, WriteOptions
from deltaic.table.rows.compact import groups_of
from deltaic.table.rows.equality import matched, ranks, row_codes
from tests.unit.table.rows.making import FAST, changes, film, films, ids, make_table


def test_a_rewrite_tells_only_the_rows_that_differ():
    table = make_table(key=("id",))
    table.append(films(*range(1000)))
    table.update({"title": "x"}, "id = 500")
    table.delete("id = 501")
    found = changes(table, 1)
    assert [(one["_change"], one["_version"], one["id"]) for one in found] == [("update", 2, 500), ("delete", 3, 501)]
    assert found[0]["before"] == film(500) and found[0]["after"] == film(500, title="x")
    assert found[1]["before"] == film(501) and found[1]["after"] is None


def test_without_a_key_an_update_is_a_row_that_went_and_one_that_came():
    table = make_table()
    table.append(films(1, 2))
    table.update({"title": "x"}, "id = 1")
    found = changes(table, 1)
    assert [one["_change"] for one in found] == ["delete", "insert"]
    assert set(found[0]) == {"_change", "_version", "before", "after"}


def test_net_changes_leave_out_what_was_undone():
    table = make_table(key=("id",))
    table.append(films(1, 2, 3))
    table.delete("id = 1")
    table.append(films(1))
    table.update({"title": "a"}, "id = 2")
    table.update({"title": "b"}, "id = 2")
    assert [one["_change"] for one in changes(table, 1)] == ["delete", "insert", "update", "update"]
    found = changes(table, 1, net=True)
    assert [(one["_change"], one["_version"], one["id"]) for one in found] == [("update", 5, 2)]
    assert (found[0]["before"]["title"], found[0]["after"]["title"]) == ("film 2", "b")
    assert changes(table, 5) == [] and changes(table, 5, net=True) == []
    assert changes(table, 1, 2)[0]["_version"] == 2
    with pytest.raises(InputError, match="forward"):
        table.changes(5, 2).read_all()


def test_rows_that_occur_several_times_are_counted():
    table = make_table(key=("id",))
    table.append(films(1, 1, 1))
    table.merge(films(1, title="x"))
    assert [one["_change"] for one in changes(table, 1)] == ["update"] * 3
    table.append(films(1))
    table.overwrite(films(1, 1, title="x"))
    found = changes(table, 3)
    assert sorted(one["_change"] for one in found) == ["delete", "delete"]
    assert sorted(one["before"]["title"] for one in found) == ["film 1", "x"]


def test_changes_read_no_split_that_did_not_change(monkeypatch):
    table = make_table(key=("id",))
    for number in range(5):
        table.append(films(number))
    table.delete("id = 2")
    from deltaic.table.rows import reading

    opened = []
    real = reading.open_split
    monkeypatch.setattr(reading, "open_split", lambda store, path, add: opened.append(path) or real(store, path, add))
    table.changes(5).read_all()
    assert len(opened) == 1


def test_a_compaction_is_no_change_and_no_split_is_read_to_know_that(monkeypatch):
    table = make_table(key=("id",))
    for number in range(5):
        table.append(films(number))
    before = table.to_arrow().sort_by("id")
    done = table.compact(note="tidy")
    assert (done.files_before, done.files_after, done.version) == (5, 1, 6)
    assert table.to_arrow().sort_by("id").equals(before)
    add = next(iter(table.files.snapshot().files()))
    assert add.num_merge_ops == 1 and not add.data_change and add.min_values["id"] == "0"
    step = next(iter(table.files.changes(5)))
    assert not any(one.data_change for one in (*step.added, *step.removed))
    assert next(iter(table.history())).note == "tidy"
    from deltaic.table.rows import reading

    def never(*_more):
        raise AssertionError("a split was opened")

    monkeypatch.setattr(reading, "open_split", never)
    assert changes(table, 5) == [] and changes(table, 5, net=True) == []


def test_net_changes_across_a_compaction_are_those_of_the_rows():
    table = make_table(key=("id",))
    for number in range(4):
        table.append(films(number))
    table.compact()
    table.update({"title": "x"}, "id = 3")
    table.append(films(9))
    table.compact()
    found = {(one["_change"], one["id"]) for one in changes(table, 4, net=True)}
    assert found == {("update", 3), ("insert", 9)} == {(one["_change"], one["id"]) for one in changes(table, 4)}


def test_compaction_stays_within_partitions_and_target_sizes():
    table = make_table(partition_by=("year",))
    for number in range(9):
        table.append(films(number))
    before = ids(table)
    done = table.compact(where="year = 2001")
    assert (done.files_before, done.files_after) == (3, 1)
    size = next(iter(table.files.snapshot().files())).size_bytes
    assert table.compact(target_bytes=size).files_before == 0
    assert table.compact(target_bytes=size * 3).files_after == 2
    assert ids(table) == before and len(table.files.snapshot().paths()) == 3
    assert table.compact().version == table.version == 11
    adds = list(table.files.snapshot().files())
    assert groups_of(adds, ("year",), 1) == []


def test_a_file_that_cannot_be_read_is_skipped_for_a_while_and_the_rest_goes_on():
    table = make_table()
    for number in range(4):
        table.append(films(number))
    broken = sorted(table.files.snapshot().paths())[0]
    data = table.files.store.get(broken).data
    table.files.store.put(broken, data[:100] + b"\xff" * (len(data) - 100))
    done = table.compact()
    assert done.skipped == (broken,) and done.files_before == 3
    assert table.files.cooling() == {broken}
    assert broken in table.files.snapshot().paths()
    table.append(films(8))
    again = table.compact()
    assert again.skipped == () and broken not in again.to_dict()["skipped"] and again.files_before == 2
    table.files.store.put(broken, data)
    assert ids(table) == [0, 1, 2, 3, 8]
    late = Table.open(table.files.store, settings=FAST, clock=lambda: 4_000_000_000.0)
    assert late.compact().files_before == 2


def test_compaction_goes_on_without_what_another_writer_changed():
    table = make_table(partition_by=("year",))
    for number in range(6):
        table.append(films(number))
    other = Table.open(table.files.store, settings=FAST)
    done = table.compact(progress=lambda step: other.delete("id = 0") if step.files == 1 else None)
    assert done.left == 1 and done.files_before == 4
    assert ids(table) == [1, 2, 3, 4, 5]


def test_restore_brings_rows_columns_and_constraints_back():
    table = make_table(key=("id",), constraints={"c": "id >= 0"})
    table.append(films(1, 2))
    table.tag("then")
    table.drop_constraint("c")
    table.rename_column("title", "name")
    table.delete("id = 1")
    table.restore(tag="then")
    assert table.to_arrow().sort_by("id").to_pylist() == films(1, 2) and table.constraints == {"c": "`id` >= 0"}
    assert table.tag("still").version == table.version
    assert [one["_change"] for one in changes(table, 5)] == ["insert"] and changes(table, 1, net=True) == []
    assert table.verify().findings == ()


def test_verify_finds_what_is_not_true_of_rows():
    from msgspec.structs import replace

    table = make_table(constraints={"c": "rating >= 0"})
    table.append(films(1, 5))
    (add,) = table.files.snapshot().files()
    for wrong, code in (
        (replace(add, num_records=7), "WrongCount"),
        (replace(add, min_values={"id": "2"}), "WrongStatistics"),
        (replace(add, max_values={"title": "film 4"}), "WrongStatistics"),
    ):
        wrong = replace(wrong, path="copy.split")
        table.files.store.put("copy.split", table.files.store.get(add.path).data)
        table.files.rewrite([next(iter(table.files.snapshot().paths()))], [wrong])
        assert [one.code for one in table.verify().findings] == [code]
        table.restore(version=1)
    table.files.configure({"deltaic.constraints": '{"c":"rating > 100"}'})
    assert [one.code for one in table.verify().findings] == ["WrongRow"]
    assert table.verify(rows=False).findings == ()
    table.files.store.put(add.path, b"x" * add.size_bytes)
    assert [one.code for one in table.verify().findings] == ["UnreadableFile"]


def test_equal_rows_have_equal_numbers_and_others_have_not():
    rows = pa.table(
        {
            "f": pa.array([math.nan, math.nan, 0.0, -0.0, None, None], pa.float32()),
            "l": pa.array([[1], [1], [], [], None, []], pa.list_(pa.int8())),
        }
    )
    codes = row_codes(rows)
    assert codes[0] == codes[1] and len(set(codes.tolist())) == 5
    assert len(set(row_codes(rows.slice(3)).tolist())) == 3
    assert ranks(row_codes(pa.table({"x": [5, 5, 7, 5]}))).tolist() == [0, 1, 0, 2]
    old, new = matched(*(row_codes(pa.table({"x": [1, 1, 2, 1]}))[part] for part in (slice(0, 3), slice(3, 4))))
    assert (old.tolist(), new.tolist()) == ([0], [0])


def test_nested_rows_are_told_apart_in_slices_too():
    kind = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int8(), 2)))])
    values = [{"m": [("a", [1, 2])]}, {"m": [("a", [1, 3])]}, {"m": None}, None, {"m": []}, {"m": [("a", None)]}]
    rows = pa.table({"x": pa.array(values * 2, kind)})
    codes = row_codes(rows)
    assert len(set(codes.tolist())) == 6 and codes[:6].tolist() == codes[6:].tolist()
    assert row_codes(rows.slice(2, 3)).tolist() == row_codes(rows.slice(8, 3)).tolist()


def test_rows_of_many_batches_are_told_in_batches():
    table = make_table(key=("id",), write=WriteOptions(split_rows=40_000))
    table.append(pa.table({"id": range(100_000)}))
    sizes = [batch.num_rows for batch in table.changes(0)]
    assert sum(sizes) == 100_000 and max(sizes) <= 65_536
