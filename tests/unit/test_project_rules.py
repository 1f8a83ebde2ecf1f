"""Rules of the project that no linter knows."""

import re
import subprocess
import sys
import tomllib

import pytest

import deltaic
from deltaic.kernels import NAMES


def sources(root, *patterns):
    return [path for pattern in patterns for path in sorted(root.glob(pattern)) if ".venv" not in path.parts]


def test_no_file_names_no_idea(project_root):
    vague = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "manager.py", "misc.py"}
    assert [path for path in sources(project_root, "src/**/*.py") if path.name in vague] == []


def test_no_kernel_turns_its_bounds_checks_off(project_root):
    # A directive in the file wins over setup.py, and `make test-long` would check nothing.
    pattern = re.compile(r"boundscheck\s*[=(]\s*False|initializedcheck\s*[=(]\s*False")
    kernels = sources(project_root, "src/deltaic/kernels/*.pyx", "src/deltaic/kernels/*.pxd")
    assert [path.name for path in kernels if pattern.search(path.read_text())] == []


def test_every_kernel_has_a_stub_and_a_plain_twin_and_can_be_chosen(project_root):
    folder = project_root / "src/deltaic/kernels"
    assert {source.stem.removeprefix("_") for source in folder.glob("_*.pyx")} == set(NAMES)
    for source in folder.glob("_*.pyx"):
        assert source.with_suffix(".pyi").exists(), source.name
        assert (folder / "plain" / f"{source.stem.removeprefix('_')}.py").exists(), source.name


@pytest.mark.parametrize("code", ["import pickle\n", "import marshal\n", "eval('1')\n", "exec('1')\n"])
def test_the_linter_refuses_code_in_data(code, project_root):
    # As a file of the package, so that the rules of the package and not of the tests are asked.
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", "src/deltaic/planted.py", "-"]
    answer = subprocess.run(
        command, input=f'"""Planted."""\n\n{code}', capture_output=True, text=True, cwd=project_root
    )
    assert re.search(r"TID251|S307|S102", answer.stdout), answer.stdout


def test_an_upward_import_breaks_the_contract_of_layers(project_root, tmp_path):
    # The contract of the project on a package of the same shape with one planted import.
    layers = tomllib.loads((project_root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    package = tmp_path / "deltaic"
    for name in ("cli", "schema", "kernels"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    for name in ("__init__", "errors", "limits"):
        (package / f"{name}.py").touch()
    lines = "\n".join(f"    {layer}" for layer in layers)
    (tmp_path / ".importlinter").write_text(
        "[importlinter]\nroot_package = deltaic\n\n[importlinter:contract:1]\nname = layers\ntype = layers\n"
        f"containers =\n    deltaic\nexhaustive = true\nlayers =\n{lines}\n"
    )

    def broken():
        answer = subprocess.run(
            [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        )
        assert "Contracts:" in answer.stdout, answer.stdout + answer.stderr
        return answer.returncode != 0

    assert not broken()
    (package / "schema" / "__init__.py").write_text("import deltaic.cli\n")
    assert broken()


@pytest.mark.slow
def test_skipped_tests_are_listed_with_their_reason(project_root, tmp_path):
    (tmp_path / "conftest.py").write_text((project_root / "tests/conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_a(): pytest.skip('no moon tonight')\n\ndef test_b(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-c", str(project_root / "pyproject.toml"), "--rootdir", str(tmp_path)]
    answer = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    block = answer.stdout.partition("skipped, and why")[2]
    assert "no moon tonight (1)" in block and "test_it.py::test_a" in block, answer.stdout


def test_the_license_is_the_one_that_is_declared(project_root):
    assert "Apache License" in (project_root / "LICENSE").read_text()[:200]
    assert deltaic.__version__[0].isdigit()
