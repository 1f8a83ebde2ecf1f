"""The page about Java tells the truth: its Java is compiled with the test program, its Python runs."""

import re
from pathlib import Path

import pytest
from films import Catalogue
from java_services import JavaProducer

from tools.java import PROJECT, Program

pytestmark = pytest.mark.interop


def blocks(project_root: Path, language: str) -> list[str]:
    page = (project_root / "docs" / "java.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_every_line_of_java_on_the_page_is_code_that_the_tests_run(project_root: Path) -> None:
    source = (PROJECT / "src/main/java/deltaic/interop/Guide.java").read_text()
    found = blocks(project_root, "java")
    assert len(found) == 4
    for block in found:
        assert squeezed(block) in squeezed(source), block


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_the_python_of_the_page_follows_a_java_producer(
    java_program: Program, project_root: Path, tmp_path: Path
) -> None:
    with JavaProducer(java_program, tmp_path) as producer:
        version = producer.publish(Catalogue(31, size=5).table())
    (block,) = blocks(project_root, "python")
    names: dict[str, object] = {"url": str(tmp_path)}
    exec(compile(block, "java.md", "exec"), names)
    assert getattr(names["consumer"], "version", None) == version
