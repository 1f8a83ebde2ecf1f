"""docs/types.md and docs/schemas.md say what the code does."""

from pathlib import Path

import pytest

from deltaic.schema import annotations, logical
from deltaic.schema.evolve import ChangeKind

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("arrow_format", sorted(logical._PRIMITIVE))
def test_every_logical_type_has_a_row(arrow_format):
    name = logical.LogicalType(arrow_format).name
    rows = [line for line in (DOCS / "types.md").read_text().splitlines() if line.startswith("|")]
    assert any(
        f"`{arrow_format}`" in row and name in row and logical._PRIMITIVE[arrow_format][0] in row for row in rows
    )


def test_the_example_of_the_page_runs():
    page = (DOCS / "schemas.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    names = {"__name__": "example"}
    exec(compile(code, "docs/schemas.md", "exec"), names)
    model = names["model"]
    assert model.vectors[0].dimensions == 384
    assert model.schemas["SetOfActor"].hash_key == ("name",)


def test_every_marker_and_effect_is_described():
    page = (DOCS / "schemas.md").read_text()
    for marker in ("Inline", "Boxed", "Transient", "TypeName", "HashKey", "Shards", "Vector", "timestamp", "digits"):
        assert hasattr(annotations, marker) and marker in page
    assert len(ChangeKind) == 13
