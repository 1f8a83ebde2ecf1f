"""The pages on writing and reading tell the truth: their Python runs, in order, and every option is there."""

import inspect
import re

import pytest

from deltaic.state.read import ReadState
from deltaic.state.view import TypeView
from deltaic.state.write import WriteState


def run(project_root, name, names):
    page = (project_root / "docs" / name).read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def test_what_one_page_writes_the_other_reads(project_root, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    run(project_root, "write.md", {"__name__": "page"})
    found = run(project_root, "read.md", {"__name__": "page"})
    assert found["movie"].to_dict() == {
        "id": 7,
        "year": 1972,
        "title": "Solaris",
        "cast": [{"actorId": 8, "name": "Banionis"}, {"actorId": 10, "name": "Bondarchuk"}],
    }
    assert found["years"].to_numpy().tolist() == [1972, 1979]
    assert found["back"].checksum() == found["old"].checksum() != found["new"].checksum()


def test_every_option_of_a_write_state_has_a_line(project_root):
    page = (project_root / "docs/write.md").read_text()
    for option in set(inspect.signature(WriteState).parameters) - {"schemas"}:
        assert f"`{option}`" in page, option


def test_every_answer_of_a_view_that_the_page_names_is_there(project_root):
    page = (project_root / "docs/read.md").read_text()
    for name in re.findall(r"`view\.(\w+)", page):
        assert hasattr(TypeView, name), name
    for name in re.findall(r"`state\.(\w+)", page):
        assert hasattr(ReadState, name), name
