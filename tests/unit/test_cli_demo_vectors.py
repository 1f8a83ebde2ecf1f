"""The part of the demonstration that shows a refresh of vectors."""

import re

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from deltaic.cli import demo_vectors
from deltaic.errors import ValidationError


def test_a_refresh_of_vectors_ships_a_tenth_of_them_or_less(tmp_path):
    lines = []
    demo_vectors.show_vectors(str(tmp_path / "embeddings"), 400, lines.append)
    text = "\n".join(lines)
    assert "400 of 384 dimensions" in text and "614,400 bytes" in text and "bit for bit" in text
    assert float(re.search(r"([\d.]+) times fewer", text)[1]) >= 10


def test_one_dimension_in_twenty_changes_in_every_vector():
    old, new = demo_vectors.embeddings(50)
    changed = (old.view(np.uint32) != new.view(np.uint32)).sum(axis=1)
    assert set(changed.tolist()) == {19} and np.allclose(np.linalg.norm(old, axis=1), 1, atol=1e-5)


def test_other_vectors_than_those_of_the_table_are_a_failure(tmp_path, monkeypatch):
    real = demo_vectors._rows
    monkeypatch.setattr(demo_vectors, "_rows", lambda matrix: real(matrix + np.float32(1e-7)))
    with pytest.raises(ValidationError, match="other vectors"):
        demo_vectors.show_vectors(str(tmp_path / "embeddings"), 200, lambda line: None)
