"""Commands, shared states and the check of a chain know appended sections."""

import json

import pytest

from deltaic.consumer import Consumer
from deltaic.consumer import arena as arena_module
from deltaic.consumer.verify import verify_chain
from deltaic.state.append_write import SchemaAppend
from deltaic.storage import LocalStore
from tests.unit.append.histories import History, content
from tests.unit.append.test_append_chains import NEW, new, old, producer_of
from tests.unit.append.test_append_states import evolved

pytest.importorskip("typer")

from deltaic.cli import main


@pytest.fixture
def blobs(tmp_path):
    history = evolved(SchemaAppend(compression="zstd"))
    for number, version in enumerate(history.versions, 1):
        (tmp_path / f"snapshot-{number}").write_bytes(version.snapshot)
        if version.delta is not None:
            (tmp_path / f"delta-{number - 1}-{number}").write_bytes(version.delta)
    return tmp_path


def run(capsys, *words):
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_show_prints_what_a_delta_appends(blobs, capsys):
    shown = run(capsys, "blob", "show", blobs / "delta-1-2")
    assert "appended section" in shown and "unpacked (zstd)" in shown and "bytes after the last type" not in shown
    assert "new type Word (OBJECT)" in shown and "new field Movie.l (long)" in shown
    (outline,) = json.loads(run(capsys, "blob", "show", "--json", blobs / "delta-1-2"))
    assert outline["appended"]["codec"] == "zstd" and outline["trailingBytes"] == 0
    assert outline["appended"]["values"]["Movie"]["i"] > 0
    (outline,) = json.loads(run(capsys, "blob", "show", "--json", blobs / "delta-2-3"))
    assert outline["appended"] is None


def test_show_prints_removed_and_renamed_fields_and_keys(tmp_path, capsys):
    history = History()
    history.publish("Old { int a; }\nT @PrimaryKey(a) { int a; int b; int c; }", {"T": [{"a": 1, "b": 2, "c": 3}]})
    history.publish("T @PrimaryKey(a, x) { int a; int x; }", {"T": [{"a": 1, "x": 2}]}, {"T": {"x": "b"}})
    (tmp_path / "delta-1-2").write_bytes(history.versions[1].delta)
    shown = run(capsys, "blob", "show", tmp_path / "delta-1-2")
    for line in ("removed type Old", "removed field T.c", "renamed field T.b to x", "primary key of T: a, x"):
        assert line in shown
    assert "1 values of T.x" in shown


@pytest.mark.parametrize(("mode", "fields"), [("off", 2), ("values", 2), ("full", 10)])
def test_dump_takes_what_it_is_told(blobs, capsys, mode, fields):
    paths = [blobs / name for name in ("snapshot-1", "delta-1-2", "delta-2-3")]
    dumped = json.loads(run(capsys, "blob", "dump", "--json", "--schema-append", mode, *paths))
    assert len(dumped["types"]["Movie"]["fields"]) == fields
    assert main(["blob", "dump", "--schema-append", "some", str(paths[0])]) == 2


@pytest.fixture
def chain(tmp_path, monkeypatch):
    opened = arena_module.Arena.open.__func__

    def here(cls, identity, *, base=None, need_bytes=0):
        return opened(cls, identity, base=tmp_path / "arenas", need_bytes=need_bytes)

    monkeypatch.setattr(arena_module.Arena, "open", classmethod(here))
    return LocalStore(tmp_path / "chain")


def test_processes_that_share_a_state_share_the_new_fields(chain):
    with producer_of(chain) as producer:
        producer.publish(old(1, 2, 3))
        first, second = (Consumer(chain, share=True) for _ in range(2))
        without = Consumer(chain, share=True, schema_append="off")
        for consumer in (first, second, without):
            consumer.refresh()
        producer.change_model(NEW)
        producer.publish(new(1, 2, 4))
    for consumer in (first, second):
        changes = consumer.refresh().changes["Movie"]
        assert (changes.added_keys(), changes.removed_keys(), changes.modified_keys()) == ([(4,)], [(3,)], [(1,), (2,)])
    without.refresh()
    fresh = Consumer(chain, share=False)
    fresh.refresh()
    assert content(first.state) == content(second.state) == content(fresh.state)
    assert without.state.types["Movie"].schema.position("rating") < 0


def test_the_check_of_a_chain_reads_the_sections(chain):
    with producer_of(chain) as producer:
        producer.publish(old(1, 2, 3))
        producer.change_model(NEW)
        producer.publish(new(1, 2, 4))
        producer.publish(new(2, 4))
    assert not verify_chain(chain).findings
    path = chain.path_of("delta-1-2")
    data = bytearray(path.read_bytes())
    data[-40] ^= 0xFF
    path.write_bytes(data)
    assert any("delta-1-2" in str(found) for found in verify_chain(chain).findings)
