"""`deltaic doctor` tells the truth about an installation."""

import json
import platform
import stat

import pytest

import deltaic
from deltaic.cli import main
from deltaic.cli.doctor import Diagnosis, examine, to_json, to_text
from deltaic.cli.extras import Library, libraries, missing_extra
from deltaic.cli.machine import StoreAccess, cache_folder, check_store, find_java, folder_state, memory_bytes
from deltaic.storage import open_store

NEEDED = {"numpy", "obstore", "msgspec", "nanoarrow"}


def diagnosis(**changes) -> Diagnosis:
    found = {
        "libraries": (Library("numpy", ">=2.0", (), "2.4.6"), Library("typer", ">=0.12", ("cli",), None)),
        "kernels": {"bits": "compiled", "text": "compiled"},
        "java": None,
        "spark": None,
        "cpus": 2,
        "memory_bytes": None,
        "cache": cache_folder({"DELTAIC_CACHE": "somewhere"}),
        "cache_state": "writable",
        "store": None,
    }
    return Diagnosis(**(found | changes))


def test_the_needed_libraries_come_first_and_have_versions_here():
    found = libraries()
    assert {library.name for library in found if not library.extras} >= NEEDED
    needed_first = [bool(library.extras) for library in found]
    assert needed_first == sorted(needed_first)
    assert all(library.version for library in found if library.name in NEEDED)


def test_a_library_of_several_extras_is_listed_once():
    names = [library.name for library in libraries()]
    assert len(names) == len(set(names))
    arrow = next(library for library in libraries() if library.name == "pyarrow")
    assert {"arrow", "table", "spark"} <= set(arrow.extras)


def test_a_missing_library_says_what_to_install():
    assert Library("typer", ">=0.12", ("cli",), None).advice == "pip install 'deltaic[cli]'"
    assert Library("numpy", ">=2.0", (), None).advice == "pip install 'numpy>=2.0'"
    assert Library("numpy", ">=2.0", (), "2.1").advice is None


def test_the_error_of_an_import_is_translated_only_for_libraries_of_extras():
    error = missing_extra(ModuleNotFoundError("no", name="tantivy.query"))
    assert error is not None and error.extra == "table"
    assert missing_extra(ModuleNotFoundError("no", name="numpy")) is None
    assert missing_extra(ModuleNotFoundError("no")) is None


def test_a_missing_extra_leaves_an_installation_healthy_and_a_missing_core_library_does_not():
    assert diagnosis().healthy
    assert not diagnosis(libraries=(Library("numpy", ">=2.0", (), None),)).healthy


@pytest.mark.parametrize(
    ("kernels", "in_use", "healthy"),
    [
        ({"bits": "compiled", "text": "compiled"}, "compiled", True),
        ({"bits": "plain", "text": "plain"}, "plain", True),
        ({"bits": "plain", "text": "compiled"}, "mixed", True),
        ({"bits": "does not load: no"}, "mixed", False),
    ],
)
def test_the_kernels_in_use_are_summed_up(kernels, in_use, healthy):
    found = diagnosis(kernels=kernels)
    assert (found.kernels_in_use, found.healthy) == (in_use, healthy)


def test_a_store_that_refuses_makes_the_diagnosis_unhealthy_and_is_printed():
    found = diagnosis(store=StoreAccess("s3://bucket", None, "access denied"))
    assert not found.healthy
    assert "access denied" in to_text(found)
    assert to_json(found)["store"] == {"url": "s3://bucket", "reading": "ok", "writing": "access denied"}


def test_text_and_json_agree_about_this_machine():
    found = examine()
    values, text = to_json(found), to_text(found)
    assert values["python"] == platform.python_version() and values["python"] in text
    assert values["deltaic"] == deltaic.__version__
    for library in values["libraries"]:
        assert f"  {library['name']} " in text
    for name in values["kernels"]["modules"]:
        assert f"  {name} " in text


def test_the_json_form_is_one_json_value(capsys):
    code = main(["doctor", "--json"])
    values = json.loads(capsys.readouterr().out)
    assert code == (0 if values["healthy"] else 1)
    assert values["cpus"] >= 1


def test_java_is_taken_from_java_home_before_the_path(tmp_path):
    for folder, version in (("home", "21.0.1"), ("path", "17.0.2")):
        program = tmp_path / folder / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = str(tmp_path / "path" / "bin")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path})
    assert found is not None and found.version == "21.0.1"
    found = find_java({"PATH": path})
    assert found is not None and found.version == "17.0.2"


def test_a_machine_without_java_is_told_so(tmp_path):
    assert find_java({"PATH": str(tmp_path)}) is None
    assert find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}) is None
    assert "Java" in to_text(diagnosis())


def test_a_java_that_does_not_answer_is_none(tmp_path):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    assert find_java({"PATH": str(tmp_path)}) is None


def test_the_cache_folder_obeys_its_setting(tmp_path):
    assert cache_folder({"DELTAIC_CACHE": str(tmp_path)}) == tmp_path
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "deltaic"
    assert cache_folder({}).name == "deltaic"


def test_the_state_of_a_folder_is_said(tmp_path):
    assert folder_state(tmp_path).startswith("writable")
    assert folder_state(tmp_path / "a" / "b").startswith("will be made")
    (tmp_path / "file").touch()
    assert folder_state(tmp_path / "file") == "cannot be written to"


def test_memory_is_plausible():
    found = memory_bytes()
    assert found is None or found > 1 << 24


class TestStore:
    def test_a_folder_that_can_be_written_works_and_is_left_as_it_was(self, tmp_path):
        (tmp_path / "kept").write_text("here")
        assert check_store(tmp_path.as_uri()).works
        assert [found.key for found in open_store(tmp_path.as_uri()).list()] == ["kept"]

    def test_a_url_that_is_none_is_not_a_traceback(self):
        found = check_store("nonsense://nowhere")
        assert not found.works
        assert found.reading

    def test_a_folder_that_is_a_file_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("not a folder")
        assert not check_store((tmp_path / "file").as_uri()).works
