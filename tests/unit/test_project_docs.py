"""Every command, setting and error has a line in the docs; links and commands in the texts lead somewhere."""

import inspect
import re

import pytest

from deltaic import errors

SETTING = re.compile(r"\bDELTAIC_[A-Z][A-Z_]*[A-Z]\b")


def commands(group=None, words=("deltaic",)):
    """Every command that there is, as typed."""
    typer = pytest.importorskip("typer")
    from deltaic.cli.app import build_app

    group = group or typer.main.get_command(build_app())
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


def rows(page):
    """The lines of a page that are rows of a table."""
    return [line for line in page.read_text().splitlines() if line.startswith("|")]


def test_every_command_has_a_line(project_root):
    documented = rows(project_root / "docs/commands.md")
    missing = [name for name in commands() if not any(f"`{name} " in row or f"`{name}`" in row for row in documented)]
    assert missing == []


def test_every_documented_command_exists(project_root):
    known = set(commands()) | {"deltaic --version"}
    for row in rows(project_root / "docs/commands.md")[2:]:
        typed = row.split("`")[1]
        assert any(typed == name or typed.startswith(f"{name} ") for name in known), typed


def test_every_setting_has_a_line(project_root):
    used = set()
    for pattern in ("src/**/*.py", "tests/**/*.py", "tools/*.py", "benchmarks/*.py", "setup.py", "Makefile"):
        for path in project_root.glob(pattern):
            used |= set(SETTING.findall(path.read_text()))
    documented = {name for row in rows(project_root / "docs/settings.md") for name in SETTING.findall(row)}
    assert used - documented == set()
    assert documented - used == set()


def test_every_error_has_a_line_and_a_place_in_the_tree(project_root):
    page = project_root / "docs/errors.md"
    classes = [
        name for name, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__
    ]
    tree = page.read_text().split("```")[1]
    for name in classes:
        assert any(row.startswith(f"| `{name}` |") for row in rows(page)), name
        assert re.search(rf"\b{name}\b", tree), name


def test_the_tree_of_errors_in_the_docs_is_the_tree_of_the_classes(project_root):
    tree = (project_root / "docs/errors.md").read_text().split("```")[1]
    path: list[str] = []
    for line in tree.strip().splitlines():
        name = re.search(r"\w+", line)[0]
        depth = line.index(name) // 4
        path = [*path[:depth], name]
        if depth:
            assert issubclass(getattr(errors, name), getattr(errors, path[depth - 1])), line
        for parent in re.findall(r"\((\w+)\)", line):
            assert issubclass(getattr(errors, name), __builtins__[parent]), line


def test_every_link_to_a_file_leads_somewhere(project_root):
    broken = []
    for page in (*project_root.glob("*.md"), *project_root.glob("docs/**/*.md"), *project_root.glob("changes/*.md")):
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", page.read_text()):
            target = link[0] or link[1]
            if "://" not in target and not (page.parent / target).exists():
                broken.append((page.name, target))
    assert broken == []


def test_every_page_has_a_place_in_the_navigation_and_on_the_front_page(project_root):
    pages = {str(path.relative_to(project_root / "docs")) for path in project_root.glob("docs/**/*.md")}
    navigation = (project_root / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert set(re.findall(r"- (\S+\.md)", navigation)) == pages
    front = (project_root / "docs/index.md").read_text()
    assert set(re.findall(r"\]\((\S+\.md)\)", front)) == pages - {"index.md"}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_named_exists(name, project_root):
    targets = set(re.findall(r"^([a-z-]+):", (project_root / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", (project_root / name).read_text()))
    assert named - targets == set()


def test_the_python_of_the_readme_runs(project_root, capsys, monkeypatch):
    monkeypatch.chdir(project_root)
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out
