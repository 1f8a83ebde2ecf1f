"""The conflict matrix of docs/table.md, cell by cell."""

import re

import pytest

from deltaic.errors import CommitConflictError
from deltaic.table.commit import Committer
from tests.conftest import ROOT
from tests.unit.table import matrix


def tables():
    """The matrices of the page: overlap, first, then, whether both land."""
    text = (ROOT / "docs/table.md").read_text()
    for title, overlap in (("### In the same partition", "same"), ("### In different partitions", "other")):
        rows = [line for line in text.partition(title)[2].partition("\n### ")[0].splitlines() if line.startswith("|")]
        names = [cell.strip() for cell in rows[0].strip("|").split("|")][1:]
        for row in rows[2:]:
            first, *cells = (cell.strip() for cell in row.strip("|").split("|"))
            for then, cell in zip(names, cells, strict=True):
                yield overlap, first, then, cell


CELLS = list(tables())


def test_the_page_has_every_pair():
    pairs = {(overlap, first, then) for overlap, first, then, _ in CELLS}
    names = set(matrix.OPERATIONS)
    assert pairs == {(overlap, first, then) for overlap in matrix.DAYS for first in names for then in names}
    assert {cell for *_, cell in CELLS} == {"✓", "✗"}


@pytest.fixture(params=["seen before the put", "met by the put"])
def meeting(request, monkeypatch):
    """A writer notices the other commit when it begins, or only because its put finds the name taken."""
    commit = Committer.commit
    if request.param == "met by the put":
        monkeypatch.setattr(
            Committer, "commit", lambda self, snapshot, plan, terms, behind: commit(self, snapshot, plan, terms)
        )


@pytest.mark.parametrize(("overlap", "first", "then", "cell"), CELLS, ids=lambda value: re.sub(r"\W+", "-", value))
def test_the_cell_is_true(overlap, first, then, cell, meeting):
    table, before = matrix.start()
    landed = matrix.run(first, table, before, matrix.DAYS["same"], "first")
    after_first = sorted(table.snapshot().paths())
    if cell == "✗":
        with pytest.raises(CommitConflictError):
            matrix.run(then, table, before, matrix.DAYS[overlap], "second")
        assert table.version == before.version + 1
        assert sorted(table.snapshot().paths()) == after_first
        assert landed(table.snapshot())
        return
    both = matrix.run(then, table, before, matrix.DAYS[overlap], "second")
    after = table.snapshot()
    assert after.version == before.version + 2
    assert both(after)
    if then not in matrix.REPLACES:
        assert landed(after)
    # A retried commit takes no file away that its plan did not name or recompute.
    if then in ("append", "set a key", "tag", "skip", "add a column"):
        assert set(after_first) <= set(after.paths())


@pytest.mark.parametrize("then", ["overwrite", "drop a partition"])
def test_a_replanned_operation_takes_what_came_meanwhile(then):
    table, before = matrix.start()
    matrix.run("append", table, before, matrix.DAYS["same"], "first")
    matrix.run(then, table, before, matrix.DAYS["same"], "second")
    assert f"day={matrix.DAYS['same']}/append-first" not in table.snapshot().paths()
