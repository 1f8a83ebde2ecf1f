"""The pages about publishing tell the truth: their Python runs, and every option and validator has its line."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from deltaic.producer import Producer, Step, validators


@pytest.mark.parametrize("name", ["publish.md", "dataset.md"])
def test_the_python_of_the_page_runs(name: str, project_root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "docs" / name).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {"__name__": "page"})


def test_every_step_option_and_validator_is_on_the_page(project_root: Path) -> None:
    page = (project_root / "docs/publish.md").read_text()
    for step in Step:
        assert f"| {step} |" in page
    technical = {"store", "model", "self", "limits", "clock", "random", "backoff", "listeners", "validators", "holder"}
    for option in set(inspect.signature(Producer).parameters) - technical:
        assert f"`{option}" in page, option
    for name, value in inspect.getmembers(validators, inspect.isclass):
        if hasattr(value, "validate") and value.__module__ == validators.__name__ and name != "Validator":
            assert f"`{name}(" in page, name
