"""The registry of a dataset: derived from its model, kept up with it, in a folder beside its chain."""

import json
import logging
from dataclasses import dataclass

import numpy as np
import pytest

from deltaic.dataset.dataset import Dataset
from deltaic.dataset.registry import join_model, pending_fields, stored_registry
from deltaic.errors import RegistryError
from deltaic.producer.producer import Producer
from deltaic.schema.annotations import Int32, key
from deltaic.schema.model import Model
from deltaic.schema.registry import ValueType
from deltaic.schema.registry_store import open_registry
from deltaic.storage import LocalStore


def model(**fields):
    """A model of one type with these fields beside its key."""
    annotations = {"id": int, **fields}
    return Model.of(key("id")(dataclass(type("Movie", (), {"__annotations__": annotations}))))


def paths(registry, version=None):
    return [field.path for field in registry.fields(version)]


@pytest.fixture
def dataset(tmp_path):
    return Dataset.create(tmp_path / "movies", model(title=str, year=Int32))


def test_the_registry_of_a_dataset_has_the_fields_of_its_model(dataset, tmp_path):
    assert paths(stored_registry(dataset)) == []
    assert [path for path, _ in pending_fields(dataset, stored_registry(dataset))][:2] == ["Movie", "Movie.id"]
    registry = dataset.registry
    assert paths(registry) == ["Movie", "Movie.id", "Movie.title", "Movie.year"]
    assert dataset.registry is registry
    assert paths(open_registry(str(tmp_path / "movies" / "registry"))) == paths(registry)
    again = Dataset.open(tmp_path / "movies")
    assert again.registry.sequence == registry.sequence == 4
    assert pending_fields(again, again.registry) == []


def test_the_registry_of_a_bare_chain_is_in_its_folder(tmp_path):
    with Producer(LocalStore(tmp_path), model(title=str)) as producer:
        producer.cycle(lambda cycle: None)
    bare = Dataset.open(tmp_path)
    assert bare.is_bare and "Movie.title" in paths(bare.registry)
    assert (tmp_path / "registry").is_dir()
    assert Dataset.open(tmp_path).versions() == bare.versions()


def test_new_fields_join_and_dropped_ones_retire_when_the_model_changes(dataset):
    before = dataset.registry.view
    grown = dataset.evolve(model(title=str, year=Int32, rating=float))
    assert grown.registry is dataset.registry
    assert grown.registry.lookup("Movie.rating") == 4 and before.current == grown.registry.version
    shrunk = grown.evolve(model(title=str, rating=float), allow_breaking=True)
    assert shrunk.registry.is_retired("Movie.year") and shrunk.registry.lookup("Movie.year") == 3
    back = shrunk.evolve(model(title=str, rating=float, year=Int32))
    assert not back.registry.is_retired("Movie.year")


def test_a_field_that_changes_its_type_gets_a_version_and_the_old_number_keeps_its_meaning(dataset):
    dataset.registry.register("Movie.own", 200)
    changed = dataset.evolve(model(title=str, year=str), allow_breaking=True)
    registry = changed.registry
    assert registry.version == 1
    assert registry.descriptor(registry.lookup("Movie.year")).type == ValueType.STRING
    assert registry.descriptor(3, 0).type == ValueType.INT32
    assert registry.lookup("Movie.own") is not None  # what the application registered stays
    with pytest.raises(RegistryError) as caught:
        registry.view.translate(3, 0, 1)
    assert caught.value.code == "UnknownField"


def test_a_process_with_an_old_model_does_not_turn_types_back(dataset, tmp_path, caplog):
    old = Dataset.open(tmp_path / "movies")
    old.registry.refresh()
    dataset.evolve(model(title=str, year=str), allow_breaking=True)
    old.registry.refresh()
    join_model(old.registry, old)
    assert old.registry.version == 1
    assert old.registry.descriptor(old.registry.lookup("Movie.year")).type == ValueType.STRING
    assert "open it anew" in caplog.text


def test_fields_join_before_a_version_is_published_from_a_table(tmp_path):
    pytest.importorskip("tantivy")
    pa = pytest.importorskip("pyarrow")
    dataset = Dataset.create(tmp_path / "movies", model(title=str), table=True)
    dataset.table.append([{"id": 1, "title": "Solaris"}])
    dataset.publish()
    assert paths(stored_registry(dataset)) == ["Movie", "Movie.id", "Movie.title"]
    dataset.table.add_column("year", pa.int32())
    dataset.table.append([{"id": 2, "title": "Stalker", "year": 1979}])
    dataset.publish()
    assert paths(stored_registry(dataset)) == ["Movie", "Movie.id", "Movie.title", "Movie.year"]


def test_a_producer_of_a_dataset_has_its_fields_registered(dataset):
    with dataset.producer():
        pass
    assert paths(stored_registry(dataset)) == ["Movie", "Movie.id", "Movie.title", "Movie.year"]


def test_fields_are_numbered_anew_at_publish_when_it_gains(tmp_path):
    dataset = Dataset.create(tmp_path / "wide", model(**{f"f{number}": int for number in range(200)}))
    hot = dataset.registry.lookup("Movie.f150")
    assert hot > 127
    dataset.registry.touch_many(np.full(9_000, hot))
    with dataset.producer():
        pass
    assert dataset.registry.version == 0  # too few uses
    dataset.registry.touch_many(np.full(9_000, hot))
    with dataset.producer():
        pass
    assert dataset.registry.version == 1 and dataset.registry.lookup("Movie.f150") <= 127
    assert Dataset.open(tmp_path / "wide").registry.version == 1


def test_a_damaged_registry_does_not_hold_up_versions_but_is_not_used(dataset, tmp_path, caplog):
    dataset.registry.register("x", 2)
    journal = sorted((tmp_path / "movies" / "registry").glob("journal-*"))[0]
    journal.write_bytes(b"XXXX" + journal.read_bytes()[4:])
    again = Dataset.open(tmp_path / "movies")
    with caplog.at_level(logging.WARNING), again.producer() as producer:
        assert producer is not None
    assert "is not up to date" in caplog.text
    with pytest.raises(RegistryError) as caught:
        _ = again.registry
    assert caught.value.code == "BadMagic"


def test_the_commands_show_and_optimize(dataset, tmp_path, capsys):
    pytest.importorskip("typer")
    from deltaic.cli.app import run

    url = str(tmp_path / "movies")
    assert run(["registry", "show", url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["fields"] == [] and shown["pending"][2] == {"path": "Movie.title", "type": "string"}
    assert not (tmp_path / "movies" / "registry").exists()
    dataset.registry.retire("Movie.year")
    assert run(["registry", "show", url]) == 0
    text = capsys.readouterr().out
    assert "Movie.title" in text and "retired" in text and "version 0" in text
    use = tmp_path / "use.json"
    use.write_text(json.dumps({"Movie.title": 50_000, "gone": 3}))
    assert run(["registry", "optimize", url, "--use", str(use), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["current"], done["samples"], done["gains"]) == (0, 50_000, False)
    assert run(["registry", "optimize", url, "--force", "--dry-run"]) == 0
    assert "version 1 would be made" in capsys.readouterr().out
    assert run(["registry", "optimize", url, "--force"]) == 0
    assert "version 1 is made" in capsys.readouterr().out
    assert run(["registry", "show", url, "--version", "0", "--json"]) == 0
    assert [field["index"] for field in json.loads(capsys.readouterr().out)["fields"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": -1}', '{"a": true}', '{"a": 1e3}'])
def test_a_file_of_uses_that_is_none_is_refused(dataset, tmp_path, text, capsys):
    pytest.importorskip("typer")
    from deltaic.cli.app import run

    (tmp_path / "use.json").write_text(text)
    assert run(["registry", "optimize", str(tmp_path / "movies"), "--use", str(tmp_path / "use.json")]) == 2
    assert run(["registry", "show", str(tmp_path / "movies"), "--version", "5"]) == 1
    assert run(["registry", "show", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err.count("deltaic: ") == 3
