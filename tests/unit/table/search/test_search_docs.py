"""What docs/search.md says of the language is so: its examples are run."""

import re

import pytest

from deltaic.table.query import QueryLimits, QuerySyntaxError
from tests.unit.table.search.making import films, ids

pytest.importorskip("tantivy")


@pytest.fixture(scope="module")
def page(project_root):
    return (project_root / "docs/search.md").read_text()


@pytest.fixture(scope="module")
def searcher(tmp_path_factory):
    return films(tmp_path_factory.mktemp("films"), (0, 2, 6))


def examples(page):
    table = page.partition("| query | finds |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(.+?)` \| ?([\d, ]*)\|$", table, re.MULTILINE)


def test_every_example_finds_what_the_page_says(page, searcher):
    found = examples(page)
    assert len(found) >= 30
    for query, listed in found:
        wanted = [int(one) for one in listed.split(",") if one.strip()]
        assert sorted(ids(searcher.search(query, k=None))) == wanted, query


def test_every_error_reads_as_the_page_says(page, searcher):
    blocks = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        query, _, message = block.partition("\n")
        with pytest.raises(QuerySyntaxError) as raised:
            searcher.search(query)
        assert str(raised.value) == message


def test_the_grammar_is_that_of_the_parser(page):
    from deltaic.table.query import parse

    written = page.partition("The grammar:\n\n```\n")[2].partition("```")[0]
    documented = re.sub(r"[ ]+", " ", parse.__doc__ or "")
    for line in written.strip().splitlines():
        assert re.sub(r"[ ]+", " ", line) in documented, line


def test_every_limit_is_on_the_page_with_its_default(page):
    for name, value in ((name, getattr(QueryLimits(), name)) for name in QueryLimits.__slots__):
        [line] = [line for line in page.splitlines() if f"`{name}`" in line and line.startswith("|")]
        assert value is None or f"{value:,}" in line, name


def test_the_python_of_the_page_runs(page, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "cache"))
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/search.md", "exec"), {"__name__": "page"})
    shown = capsys.readouterr().out
    assert "A <b>hacker</b> meets Trinity" in shown and "The Matrix" in shown
