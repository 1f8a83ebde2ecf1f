"""The page on the change feed says what is so: its programs run, its commands and options are there."""

import re
import shlex
import threading

import pytest

from deltaic.cli import main
from deltaic.dataset.dataset import Dataset
from deltaic.producer import count_up
from deltaic.schema.model import Model

MODEL = "Movie @PrimaryKey(id) { int id; string title; }"


@pytest.fixture
def page(project_root):
    return (project_root / "docs/change-feed.md").read_text()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    producer = Dataset.create("movies", Model.parse(MODEL)).producer(versions=count_up)

    def publish(title):
        producer.publish(tables={"Movie": [{"id": 1, "title": title}]})

    for title in ("Solaris", "Stalker", "Mirror"):
        publish(title)
    yield publish
    producer.close()


def test_every_program_of_the_page_runs(page, publish, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    done = threading.Event()

    def go_on():
        number = 0
        while not done.wait(0.3):
            publish(f"Title {number}")
            number += 1

    names: dict = {}
    for block in blocks[:2]:
        exec(compile(block, "change-feed.md", "exec"), names)
    publisher = threading.Thread(target=go_on)
    publisher.start()
    try:
        exec(compile(blocks[2], "change-feed.md", "exec"), names)
    finally:
        done.set()
        publisher.join()
    printed = capsys.readouterr().out
    assert "SET Movie 1 title Stalker" in printed
    assert '"previous": "Stalker"' in printed
    assert "Movie.title SET 1 ('id', 'after', 'before')" in printed
    assert "{'Movie': {'set': 1}}" in printed


def test_every_command_of_the_page_works(page, publish, capsys):
    lines = [line for line in page.splitlines() if line.startswith("deltaic changes")]
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(re.split(r"\s{2,}", line)[0])
        assert main(words[1:]) == 0, line
    assert "Movie 1 title:" in capsys.readouterr().out


def test_every_option_in_spark_has_a_line(page):
    pytest.importorskip("pyspark")
    from deltaic.spark import feed_source

    named = page.lower()
    assert [name for name in feed_source._OPTIONS - {"path"} if f"`{name}`" not in named] == []
