"""The examples of the guide run, one after the other."""

import re


def test_the_guide_runs(project_root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "cache"))
    text = (project_root / "docs/table-rows.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 6 and all(len(block.splitlines()) <= 12 for block in blocks)
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "docs/table-rows.md", "exec"), names)
    out = capsys.readouterr().out
    assert "Stalker" in out and out.rstrip().endswith("()")
    table = names["table"]
    assert table.schema.names == ["id", "title", "year", "rating"] and table.count() == 2
    assert "insert" in out and "update" in out and "delete" in out
