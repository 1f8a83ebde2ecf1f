"""What the guide says runs."""

import re


def test_the_python_of_the_guide_runs(project_root):
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "docs/references.md").read_text(), re.DOTALL)
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "references.md", "exec"), names)
    assert len(blocks) >= 4
