"""The page on storage tells the truth: its Python runs, one program after the other, and its names exist."""

import re
from pathlib import Path
from typing import Any

import pytest

from deltaic import storage
from deltaic.storage.decompress import Codec
from deltaic.testing import stores


@pytest.fixture
def page(project_root: Path) -> str:
    return (project_root / "docs/storage.md").read_text()


def test_every_program_of_the_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "storage.md", "exec"), names)
    assert "b'a blob' b'blob'" in capsys.readouterr().out
    assert issubclass(names["TestMyStore"], stores.StoreConformance)


def test_every_codec_and_test_store_is_named(page: str) -> None:
    assert [str(codec) for codec in Codec if f"`{codec}`" not in page] == []
    known = ("FaultyStore", "SimulatedStore", "DishonestDisk", "SteppedDisk", "StoreConformance", "s3_server")
    assert [name for name in known if name not in page or not hasattr(stores, name)] == []
    assert [
        name for name in ("safe_join", "refuse_twins", "decompress", "checksum") if not hasattr(storage, name)
    ] == []
