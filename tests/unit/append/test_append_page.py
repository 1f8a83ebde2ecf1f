"""The page about new fields tells the truth: its Python runs, and every option has its line."""

import contextlib
import dataclasses
import io
import re

from deltaic.state.append_write import SchemaAppend


def test_the_python_of_the_page_runs_and_prints_what_it_says(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (project_root / "docs/schema-append.md").read_text()
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "schema-append.md", "exec"), {"__name__": "page"})
    assert printed.getvalue().splitlines() == re.findall(r"^# (\[.*\])$", block, re.MULTILINE)


def test_every_option_has_a_line(project_root):
    page = (project_root / "docs/schema-append.md").read_text()
    for field in dataclasses.fields(SchemaAppend):
        assert f"| `{field.name}` |" in page, field.name
    for mode in ("full", "values", "off"):
        assert f'| `"{mode}"' in page
