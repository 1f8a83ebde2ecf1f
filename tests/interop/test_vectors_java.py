"""Java beside vectors: parts do not concern it, and vectors that are kept as bytes are bytes to it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from java_services import JavaConsumer, same_records

from deltaic.producer import Producer
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from tools.java import Program

pytestmark = pytest.mark.interop


@key("id")
@dataclass
class Poster:
    id: int
    title: str
    embedding: Annotated[Any, Vector(3)]


VERSIONS = [
    [Poster(1, "a", [1, 2, 3]), Poster(2, "b", None)],
    [Poster(1, "a", [1, 2, 4]), Poster(2, "b", None)],  # the vector alone
    [Poster(1, "new", [1, 2, 4]), Poster(3, "c", [0.5, -0.0, np.inf])],
]


@pytest.mark.parametrize("form", ["part", "bytes"])
def test_java_follows_a_chain_with_vectors(form: str, java_program: Program, tmp_path: Path) -> None:
    with Producer(tmp_path, Model.of(Poster), vectors=form) as producer, JavaConsumer(java_program, tmp_path) as java:
        versions = []
        for posters in VERSIONS:
            versions.append(producer.publish(posters).version)
            java.refresh()
            assert producer.state is not None
            same_records(java.state(), producer.state)
        if form == "bytes":
            poster = java.state()["types"]["Poster"]
            place = [name for name, *_ in poster["fields"]].index("embedding")
            held = {str(record[place]) for record in poster["records"] if record is not None}
            assert np.array([0.5, -0.0, np.inf], "<f4").tobytes().hex() in {text.lower() for text in held}
        java.refresh(versions[0])
        assert java.state()["types"]["Poster"]["records"]
