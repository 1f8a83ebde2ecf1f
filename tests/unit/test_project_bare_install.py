"""An install of the package alone works, says what it lacks, and needs neither the extras nor a compiler."""

import os
import shutil
import subprocess
import sys
import venv

import pytest

from tools.build_kernels import compiler

pytestmark = [pytest.mark.install, pytest.mark.timeout(600), pytest.mark.xdist_group("install")]

ABSENT = ("pyarrow", "pandas", "polars", "typer", "rich", "pyspark", "Cython", "tantivy")


@pytest.fixture(scope="module")
def package_index(tmp_path_factory):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", "msgspec"]
    answer = subprocess.run([*command, "--dest", str(tmp_path_factory.mktemp("reach"))], capture_output=True)
    if answer.returncode:
        pytest.skip("no package index can be reached: pip download msgspec failed")


def install(project_root, folder, **environment):
    """Install from a copy of its own without anything compiled: a build leaves its results beside the sources."""
    sources = folder / "sources"
    unwanted = shutil.ignore_patterns("*.so", "*.pyd", "_*.c", "__pycache__", "*.egg-info")
    shutil.copytree(project_root / "src", sources / "src", ignore=unwanted)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(project_root / name, sources)
    venv.create(folder / "venv", with_pip=True)
    command = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", str(sources)]
    answer = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return folder / "venv"


def run(folder, program, *arguments):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "DELTAIC_PLAIN")}
    command = [folder / "bin" / program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


@pytest.fixture(scope="module")
def bare(package_index, project_root, tmp_path_factory):
    # One kernel is enough to see that an install compiles, and takes a fraction of the time.
    return install(project_root, tmp_path_factory.mktemp("bare"), DELTAIC_KERNELS="bits")


@pytest.fixture(scope="module")
def compilerless(package_index, project_root, tmp_path_factory):
    return install(project_root, tmp_path_factory.mktemp("compilerless"), CC="/bin/false")


def test_a_bare_install_has_none_of_the_extras_and_can_be_imported(bare):
    code = (
        "import importlib.util, deltaic, deltaic.schema, deltaic.state.read;"
        f"print([name for name in {ABSENT!r} if importlib.util.find_spec(name)])"
    )
    answer = run(bare, "python", "-c", code)
    assert answer.stdout.strip() == "[]", answer.stderr


def test_an_install_with_a_compiler_compiles_kernels(bare):
    if compiler() is None:
        pytest.skip("no compiled kernels: no C compiler")
    answer = run(bare, "python", "-c", "from deltaic.kernels import bits; print(bits.__name__)")
    assert answer.stdout.strip() == "deltaic.kernels._bits", answer.stderr


def test_a_bare_install_tells_its_version(bare):
    answer = run(bare, "deltaic", "--version")
    assert answer.returncode == 0 and answer.stdout.startswith("deltaic "), answer.stderr


def test_a_command_of_a_bare_install_says_what_to_install(bare):
    answer = run(bare, "deltaic", "blob", "show", "file")
    assert answer.returncode == 2
    assert "pip install 'deltaic[cli]'" in answer.stderr


def test_the_doctor_of_a_bare_install_answers_and_says_what_to_install(bare):
    answer = run(bare, "deltaic", "doctor")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "missing: pip install 'deltaic[cli]'" in answer.stdout
    assert "missing: pip install 'deltaic[arrow]'" in answer.stdout


def test_an_install_without_a_compiler_works_on_plain_kernels_with_one_warning(compilerless):
    code = "from deltaic import kernels; from deltaic.kernels import bits, text; print(kernels.COMPILED, bits.__name__)"
    answer = run(compilerless, "python", "-c", code)
    assert answer.stdout.strip() == "False deltaic.kernels.plain.bits", answer.stderr
    assert answer.stderr.count("RuntimeWarning: deltaic runs on plain kernels") == 1


def test_the_doctor_of_an_install_without_a_compiler_says_plain(compilerless):
    answer = run(compilerless, "deltaic", "doctor")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert any(line.split() == ["kernels", "plain"] for line in answer.stdout.splitlines()), answer.stdout
