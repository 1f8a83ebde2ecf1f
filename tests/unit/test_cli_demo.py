"""The demonstration shows what is so, fails where it is not, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from deltaic.cli import demo
from deltaic.cli.demo_catalogue import Catalogue
from deltaic.cli.demo_follower import FollowerProcess
from deltaic.dataset import Dataset
from deltaic.errors import InputError, ValidationError

pytest.importorskip("pyarrow")


def ended(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def followers(monkeypatch):
    """The process ids of the followers that were started."""
    started = []
    start = FollowerProcess.__init__

    def noted(self, *arguments):
        start(self, *arguments)
        started.append(self.process_id)

    monkeypatch.setattr(FollowerProcess, "__init__", noted)
    return started


def test_a_day_changes_one_in_a_hundred_removes_some_and_adds_some():
    first = Catalogue.first(20_000)
    second = first.next_day()
    assert len(first.changes.keys() - second.changes.keys()) == 5
    assert len(second.changes.keys() - first.changes.keys()) == 7
    assert sum(second.changes.values()) == 200


def test_every_change_is_one_that_shows():
    catalogue = Catalogue.first(500)
    before = {row["id"]: row for row in catalogue.rows()}
    after = {row["id"]: row for row in catalogue.next_day().rows()}
    assert [number for number in before if number in after and before[number] != after[number]] == [
        17, 117, 217, 317, 417,
    ]  # fmt: skip


def test_three_versions_are_published_and_followed(tmp_path, capsys, followers):
    assert demo.main(["--without-spark", "--movies", "500", "--url", str(tmp_path / "movies")]) == 0
    out = capsys.readouterr().out
    assert "follower: version" in out and "by a snapshot of" in out and "by a delta of" in out
    assert "follower: 5 modified: 17, 117, 217, 317, 417\n" in out
    assert "follower: 1 removed: 99\n" in out
    assert "follower: 3 added: 501, 502, 503\n" in out
    assert "both processes hold the same records: checksum" in out
    assert "'decade': " in out
    assert len(Dataset.open(tmp_path / "movies").versions()) == 3
    assert len(followers) == 1 and ended(followers[0])


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"checksum": 1}, "holds other records than were published"),
        ({"by_snapshot": True}, "took a snapshot where a delta leads"),
        ({"changes": {"added": [501, 502, 503], "removed": [99], "modified": [17]}}, "saw other movies modified"),
        ({"changes": {"added": [501, 502, 503], "removed": [], "modified": [17]}}, "saw other movies removed"),
        ({"changes": {}}, "saw other movies added"),
    ],
)
def test_a_follower_that_tells_something_else_fails_it(told, complaint, tmp_path, capsys, monkeypatch, followers):
    wait_for = FollowerProcess.wait_for

    def lying(self, version, timeout_seconds):
        found = wait_for(self, version, timeout_seconds)
        return found if found["by_snapshot"] else found | told

    monkeypatch.setattr(FollowerProcess, "wait_for", lying)
    assert demo.main(["--without-spark", "--movies", "500", "--url", str(tmp_path / "movies")]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"deltaic: the follower {complaint}\n"
    assert "both processes" not in captured.out
    assert ended(followers[0])


def test_without_java_it_says_so_and_takes_arrow(tmp_path, capsys, monkeypatch):
    def refuse():
        raise InputError("no Java today")

    monkeypatch.setattr(demo, "_start_spark", refuse)
    assert demo.main(["--movies", "500", "--url", str(tmp_path / "movies")]) == 0
    out = capsys.readouterr().out
    assert "without Spark: no Java today" in out and "500 movies as an Arrow table" in out


def test_a_folder_that_holds_a_dataset_already_is_one_line_and_exit_code_1(tmp_path, capsys):
    Dataset.create(tmp_path, demo.Movie)
    assert demo.main(["--without-spark", "--movies", "500", "--url", str(tmp_path)]) == 1
    assert "holds a dataset already" in capsys.readouterr().err


class TestFollower:
    @pytest.fixture
    def chain(self, tmp_path):
        dataset = Dataset.create(tmp_path / "movies", demo.Movie)
        with dataset.producer() as producer:
            producer.publish(Catalogue.first(200).to_arrow())
        return dataset

    def test_it_ends_with_whoever_started_it(self, chain):
        command = [sys.executable, "-m", "deltaic.cli.demo_follower", chain.chain.url, "Movie"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert json.loads(process.stdout.readline())["rows"] == 200
        process.stdin.close()
        assert process.wait(20) == 0
        process.stdout.close()

    def test_one_that_was_killed_is_not_waited_for(self, chain):
        with FollowerProcess(chain.chain.url, "Movie") as follower:
            follower.wait_for(chain.versions()[0].version, 20)
            os.kill(follower.process_id, signal.SIGKILL)
            start = time.monotonic()
            with pytest.raises(ValidationError, match="ended with exit code -9"):
                follower.wait_for(1, 20)
            assert time.monotonic() - start < 10

    def test_one_that_tells_nothing_in_time_fails(self, chain):
        with FollowerProcess(chain.chain.url, "Movie") as follower:
            follower.wait_for(chain.versions()[0].version, 20)
            with pytest.raises(ValidationError, match="not at version 1 after"):
                follower.wait_for(1, 0.1)
            process_id = follower.process_id
        assert ended(process_id)


def test_one_that_is_told_to_stop_takes_its_follower_and_its_folder_along(tmp_path):
    command = [sys.executable, "-m", "deltaic.cli.demo", "--without-spark"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    with process.stdout as lines:
        follower = next(int(line.split()[3].strip(",")) for line in lines if line.startswith("a second process"))
        process.terminate()
        lines.read()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert ended(follower)
    assert list(tmp_path.iterdir()) == []
