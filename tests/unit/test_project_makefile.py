"""The Makefile does again only what has to be done again."""

import os
import shutil
import subprocess
import sys

import pytest

TARGETS = ["help", "demo", "test", "test-long", "bench", "docs", "check", "kernels", "clean"]


@pytest.fixture
def tree(project_root, tmp_path):
    """A tree that make takes for one that is set up, with commands that only print."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(project_root / "Makefile", tmp_path)
    kernels = tmp_path / "src/deltaic/kernels"
    kernels.mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "src/deltaic/kernels/_bits.pyx"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000, 1_000))
    (tmp_path / ".venv").mkdir()
    for age, name in enumerate((".installed", ".kernels")):
        (tmp_path / ".venv" / name).touch()
        os.utime(tmp_path / ".venv" / name, (2_000 + age, 2_000 + age))
    return tmp_path


def plan(tree, target):
    """The commands that make would run."""
    command = ["make", "--dry-run", f"PYTHON={sys.executable}", target]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned_and_is_in_the_help(target, tree):
    plan(tree, target)
    answer = subprocess.run(["make"], cwd=tree, capture_output=True, text=True, check=True)
    assert f"  {target} " in answer.stdout


def test_a_set_up_tree_is_not_set_up_again(tree):
    commands = plan(tree, "check")
    assert "pip install" not in commands and "build_kernels" not in commands


def test_a_changed_project_file_installs_again(tree):
    (tree / "pyproject.toml").write_text("# changed")
    assert "pip install" in plan(tree, "check")


@pytest.mark.parametrize("name", ["setup.py", "src/deltaic/kernels/_bits.pyx"])
def test_a_changed_kernel_compiles_but_does_not_install(name, tree):
    (tree / name).write_text("# changed")
    commands = plan(tree, "check")
    assert "build_kernels" in commands and "pip install" not in commands


def test_check_lints_types_layers_and_unit_tests(tree):
    commands = plan(tree, "check")
    for part in ("ruff format --check", "ruff check", "mypy", "lint-imports", "pytest", "tests/unit"):
        assert part in commands


def test_an_old_python_is_refused_with_a_sentence(tree):
    (tree / "pyproject.toml").write_text("# changed")
    answer = subprocess.run(["make", "PYTHON=false", "check"], cwd=tree, capture_output=True, text=True)
    assert answer.returncode != 0
    assert "needs Python 3.11 or newer" in answer.stdout
