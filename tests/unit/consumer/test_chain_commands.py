"""`deltaic follow|status|pin|unpin|promote|withdraw|verify`."""

import json
import subprocess
import sys
import time

import pytest

from deltaic.cli import main
from deltaic.storage import LocalStore
from tests.unit.consumer.small_chain import SmallChain

pytest.importorskip("typer")


@pytest.fixture
def chain(tmp_path):
    chain = SmallChain(LocalStore(tmp_path / "chain"))
    for _ in range(3):
        chain.publish()
    return chain


@pytest.fixture
def run(chain, capsys):
    def run(*words, code=0):
        assert main([words[0], str(chain.store.root), *words[1:]]) == code
        return capsys.readouterr().out

    return run


def test_follow_once_prints_one_line(run):
    line = run("follow", "--once")
    assert line.count("\n") == 1 and line.startswith("- -> 3: 1 blob,") and "unverified" not in line


def test_follow_once_prints_json(run):
    values = json.loads(run("follow", "--once", "--json"))
    assert values["event"] == "refreshed" and values["to_version"] == 3 and values["verified"] is True
    assert values["records"]["Movie"] == {"added": 5, "removed": 0} and set(values["seconds"]) >= {"fetch", "apply"}


def test_follow_of_nothing_fails(tmp_path, capsys):
    assert main(["follow", "--once", str(tmp_path)]) == 1
    assert "nothing is announced" in capsys.readouterr().err


def test_follow_follows_from_another_process_until_a_version(chain):
    command = [sys.executable, "-m", "deltaic.cli", "follow", str(chain.store.root), "--until", "5", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert json.loads(process.stdout.readline())["to_version"] == 3
        seen = []
        for _ in range(2):
            chain.publish()
            seen.append(json.loads(process.stdout.readline())["to_version"])
        assert seen == [4, 5]
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_status_says_what_is_announced(run, chain):
    values = json.loads(run("status", "--json"))
    assert values["wanted"] == 3 and values["verified"] and values["snapshots"] == [1, 2, 3]
    assert [entry["version"] for entry in values["versions"]] == [3, 2, 1]
    chain.announcements.pin(2)
    text = run("status")
    assert "wanted     2" in text and "pinned" in text and "announced checksums" in text


def test_status_says_that_a_java_chain_cannot_be_verified(hollow_fixtures, capsys):
    assert main(["status", str(hollow_fixtures / "blob-store" / "store")]) == 0
    assert "unverified: announced.version only" in capsys.readouterr().out


def test_pin_and_unpin(run, chain):
    assert "pinned to 2" in run("pin", "2")
    assert chain.announcements.read().version() == 2
    assert json.loads(run("unpin", "--json")) == {"pin": None, "channels": {"main": 3}, "number_written": True}
    run("pin", "99", code=1)
    run("pin", code=2)
    run("pin", "x", code=2)


def test_promote_and_withdraw(run, chain):
    chain.publish(channel="canary")
    assert run("promote") == "main is at 4\n"
    chain.publish(channel="canary")
    assert run("withdraw") == "main is at 4\n"
    assert run("withdraw", "--channel", "main") == "main is at 3\n"
    run("promote", code=1)


def test_a_java_chain_is_not_pinned(hollow_fixtures, tmp_path, capsys):
    import shutil

    shutil.copytree(hollow_fixtures / "blob-store" / "store", tmp_path / "java")
    assert main(["pin", str(tmp_path / "java"), "20230101000000001"]) == 2
    assert "another producer" in capsys.readouterr().err


def test_verify_exits_with_1_if_something_is_wrong(run, chain):
    assert "0 problems" in run("verify")
    chain.store.delete("delta-1-2")
    assert "delta-1-2: announced, but not there" in run("verify", code=1)
    values = json.loads(run("verify", "--quick", "--json", code=1))
    assert values["ok"] is False and values["walked"] == 0


def test_a_dataset_folder_stands_for_its_chain(tmp_path, capsys):
    SmallChain(LocalStore(tmp_path / "chain")).publish()
    assert main(["status", str(tmp_path)]) == 0
    assert "/chain" in capsys.readouterr().out


def test_only_the_asked_for_module_is_imported():
    code = "import sys; from deltaic.cli import main; main(['doctor']); print('deltaic.cli.chain' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip().endswith("False")
