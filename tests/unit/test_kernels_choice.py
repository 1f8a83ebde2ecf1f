"""Which kernels are used: compiled where they are, plain where not or where asked for, never silently."""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from deltaic import kernels

LOOK = """
import json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from deltaic import kernels
    from deltaic.kernels import bits, text
    import deltaic.kernels
print(json.dumps({
    "compiled": kernels.COMPILED,
    "bits": bits.__name__,
    "text": text.__name__,
    "warnings": [f"{w.category.__name__}: {w.message}" for w in caught if "deltaic" in str(w.message)],
}))
"""


def look(plain="", path=None):
    environment = os.environ | {"DELTAIC_PLAIN": plain}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    answer = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@pytest.fixture
def uncompiled(project_root, tmp_path):
    """The package as an install without a compiler leaves it."""
    shutil.copytree(project_root / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "*.pyd", "_*.c"))
    return tmp_path / "src"


@pytest.mark.parametrize("value", ["1", "yes"])
def test_plain_kernels_can_be_asked_for_and_then_do_not_warn(value):
    found = look(plain=value)
    assert (found["compiled"], found["bits"], found["warnings"]) == (False, "deltaic.kernels.plain.bits", [])


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_setting_and_0_do_not_ask_for_plain_kernels(value, uncompiled):
    assert len(look(plain=value, path=uncompiled)["warnings"]) == 1


def test_without_a_compiler_the_plain_kernels_are_used_with_one_warning(uncompiled):
    found = look(path=uncompiled)
    assert not found["compiled"]
    assert found["bits"] == "deltaic.kernels.plain.bits"
    assert found["text"] == "deltaic.kernels.plain.text"
    assert len(found["warnings"]) == 1
    assert found["warnings"][0].startswith("RuntimeWarning: deltaic runs on plain kernels")


def test_one_missing_kernel_leaves_the_others_compiled(uncompiled, project_root):
    built = sorted((project_root / "src/deltaic/kernels").glob("_bits*.so"))
    if not built:
        pytest.skip("no compiled kernels: no C compiler when this was set up")
    shutil.copy(built[0], uncompiled / "deltaic" / "kernels")
    found = look(path=uncompiled)
    assert not found["compiled"]
    assert found["bits"] == "deltaic.kernels._bits"
    assert found["text"] == "deltaic.kernels.plain.text"
    assert "text" in found["warnings"][0] and "bits" not in found["warnings"][0]


def test_an_unknown_kernel_is_an_attribute_error():
    with pytest.raises(AttributeError):
        _ = kernels.nonsense


@pytest.mark.parametrize("name", kernels.NAMES)
def test_a_kernel_and_its_twin_have_every_name_that_the_stub_declares(name, project_root):
    # Callers cannot use more: for mypy the stub is the kernel.
    stub = ast.parse((project_root / f"src/deltaic/kernels/_{name}.pyi").read_text())
    declared = [node for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    public = {node.name for node in declared if not node.name.startswith("_")}
    assert public
    plain = importlib.import_module(f"deltaic.kernels.plain.{name}")
    assert public - set(dir(plain)) == set()
    compiled = pytest.importorskip(f"deltaic.kernels._{name}", reason="no compiled kernels: no C compiler")
    assert public - set(dir(compiled)) == set()
    for node in declared:
        if isinstance(node, ast.ClassDef) and node.name in public:
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef) and part.name[0] != "_"}
            assert methods - set(dir(getattr(plain, node.name))) == set(), node.name
            assert methods - set(dir(getattr(compiled, node.name))) == set(), node.name
