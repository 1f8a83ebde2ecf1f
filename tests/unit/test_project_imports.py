"""What `import deltaic` costs, and what its short list of names promises."""

import subprocess
import sys
import tomllib

import pytest

import deltaic

HEAVY = ("numpy", "pyarrow", "pandas", "polars", "obstore", "nanoarrow", "msgspec", "typer", "rich", "pyspark")


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_importing_deltaic_imports_nothing_heavy():
    assert modules_after("import deltaic") & set(HEAVY) == set()


def test_the_command_module_imports_nothing_heavy():
    assert modules_after("import deltaic.cli") & set(HEAVY) == set()


def test_the_schema_model_needs_none_of_the_extras():
    assert modules_after("import deltaic.schema") & {"pyarrow", "pandas", "polars", "typer", "rich", "pyspark"} == set()


def test_the_read_state_needs_none_of_the_extras():
    assert modules_after("import deltaic.state.read") & {"pyarrow", "pandas", "polars", "typer", "pyspark"} == set()


@pytest.mark.parametrize("name", deltaic.__all__)
def test_every_public_name_is_there(name):
    assert getattr(deltaic, name) is getattr(deltaic, name)
    assert name in dir(deltaic)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = deltaic.Nonsense


def test_the_version_is_the_one_of_the_project_file(project_root):
    project = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]
    assert deltaic.__version__ == project["version"]
