"""What docs/registry.md says is so."""

import re

from deltaic.schema import registry_store
from deltaic.schema.registry import Registry
from deltaic.schema.registry_model import MAX_MODEL_FIELDS
from deltaic.schema.registry_plan import MIN_GAIN, MIN_SAMPLES
from deltaic.schema.registry_table import MAX_INDEX


def test_the_code_for_use_by_hand_runs(project_root, tmp_path):
    page = (project_root / "docs/registry.md").read_text()
    block = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "open_registry" in block)
    names = {}
    exec(compile(block.replace("s3://bucket/registry", str(tmp_path)), "registry.md", "exec"), names)
    assert (names["index"], names["indices"]) == (0, [1, 2])


def test_every_call_and_every_limit_of_the_page_is_that_of_the_code(project_root):
    page = (project_root / "docs/registry.md").read_text()
    for row in re.findall(r"^\| (`.*?) \|", page.partition("| call |")[2].partition("\n\n")[0], re.MULTILINE):
        for name in re.findall(r"`(?:Registry\.)?(\w+)\(", row):
            assert hasattr(Registry, name), name
    missing = {
        name
        for name in vars(Registry)
        if not name.startswith("_") and callable(getattr(Registry, name)) and f"{name}(" not in page
    }
    assert missing <= {"is_retired"}
    for figure in (f"{MIN_GAIN * 100:.0f} %", f"{MIN_SAMPLES:,}", f"{MAX_MODEL_FIELDS:,}", f"{MAX_INDEX:,}"):
        assert figure in page, figure
    format_page = (project_root / "docs/formats/field-registry.md").read_text()
    wanted = f"{registry_store.SNAPSHOT_RECORDS:,} records or {registry_store.SNAPSHOT_FILES} journal files"
    assert wanted in format_page
    assert (registry_store.MAX_JOURNAL_BYTES, registry_store.MAX_SNAPSHOT_BYTES) == (1 << 30, 4 << 30)
    assert "at most 1 GiB, a snapshot 4 GiB" in format_page
