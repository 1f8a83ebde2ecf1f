"""The page on consuming says what is so: its programs run, its settings and hooks are all there."""

import inspect
import re

import pytest

from deltaic.consumer import Consumer, Longevity, RefreshListener, Status, TypeChanges
from deltaic.storage import LocalStore
from tests.unit.consumer.small_chain import SmallChain


@pytest.fixture
def page(project_root):
    return (project_root / "docs/consume.md").read_text()


def test_every_program_of_the_page_runs(page, tmp_path, capsys):
    SmallChain(LocalStore(tmp_path)).publish({1: "Solaris"})
    names = {"url": str(tmp_path), "__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "consume.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "1 Solaris" in printed and "changed: 1" in printed and "{'code': 'de', 'size': 83}" in printed


def test_every_setting_has_a_line(page):
    settings = [name for name in inspect.signature(Consumer).parameters if name != "store"]
    assert [name for name in settings if f"`{name}`" not in page] == []


def test_every_hook_and_every_value_is_named(page):
    hooks = [name for name in vars(RefreshListener) if not name.startswith("_")]
    values = [
        *Status.__slots__,
        *(name for name in vars(TypeChanges) if not name.startswith("_") and name not in ("name", "has_key")),
    ]
    assert [name for name in (*hooks, *values) if name not in page] == []
    assert [name for name in Longevity.__slots__ if name not in page] == []
