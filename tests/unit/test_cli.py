"""The `deltaic` command: exit codes, one line per error, what it says when something is not installed."""

import subprocess
import sys

import pytest
import typer

import deltaic
from deltaic.cli import app as app_module
from deltaic.cli import main
from deltaic.errors import DecodeError, InputError, MissingExtraError, NotFoundError


@pytest.fixture
def planted(monkeypatch):
    """Adds a group `planted` whose one command raises what the test wants."""
    group = typer.Typer()
    raised: list[BaseException] = []

    @group.command("fail")
    def fail() -> None:
        raise raised[0]

    @group.command("fine")
    def fine() -> None:
        print("all is well")

    build = app_module.build_app

    def with_planted(groups=()):
        built = build(())
        built.add_typer(group, name="planted")
        return built

    monkeypatch.setattr(app_module, "build_app", with_planted)
    return raised


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"deltaic {deltaic.__version__}\n"


def test_a_command_that_works_exits_with_0(planted, capsys):
    assert main(["planted", "fine"]) == 0
    assert capsys.readouterr().out == "all is well\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            DecodeError("Truncated", "ends early", "byte 7 of delta-1-2"),
            1,
            "deltaic: ends early (at byte 7 of delta-1-2)\n",
        ),
        (NotFoundError("no type Film"), 1, "deltaic: no type Film\n"),
        (FileNotFoundError(2, "No such file", "a.blob"), 1, "deltaic: [Errno 2] No such file: 'a.blob'\n"),
        (InputError("depth must not be negative"), 2, "deltaic: depth must not be negative\n"),
        (
            MissingExtraError("to_pandas", "spark"),
            2,
            "deltaic: to_pandas needs the extra 'spark': pip install 'deltaic[spark]'\n",
        ),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error, code, line, planted, capsys):
    planted.append(error)
    assert main(["planted", "fail"]) == code
    captured = capsys.readouterr()
    assert captured.err == line
    assert captured.out == ""


def test_a_library_of_an_extra_that_cannot_be_imported_names_the_extra(planted, capsys):
    planted.append(ModuleNotFoundError("No module named 'tantivy'", name="tantivy"))
    assert main(["planted", "fail"]) == 2
    assert "pip install 'deltaic[table]'" in capsys.readouterr().err


def test_a_module_of_ours_that_cannot_be_imported_is_not_hidden(planted):
    planted.append(ModuleNotFoundError("No module named 'deltaic.nowhere'", name="deltaic.nowhere"))
    with pytest.raises(ModuleNotFoundError):
        main(["planted", "fail"])


@pytest.mark.parametrize("words", [[], ["nonsense"], ["doctor", "--nonsense"], ["doctor", "one", "two"]])
def test_misuse_exits_with_2_and_says_how(words, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "Usage: deltaic" in captured.out + captured.err


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_not_an_error_report():
    code = "import sys; sys.argv = ['deltaic', 'doctor']; from deltaic.cli import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in errors


class TestWithoutTyper:
    @pytest.fixture(autouse=True)
    def hide_typer(self, monkeypatch):
        find_spec = __import__("importlib").util.find_spec
        monkeypatch.setattr(
            "deltaic.cli.importlib.util.find_spec",
            lambda name, *rest: None if name == "typer" else find_spec(name, *rest),
        )

    @pytest.mark.parametrize("words", [[], ["--help"], ["blob", "show", "file"], ["doctor", "--wrong"]])
    def test_a_command_says_what_to_install(self, words, capsys):
        assert main(words) == 2
        captured = capsys.readouterr()
        assert "pip install 'deltaic[cli]'" in captured.err
        assert captured.out == ""

    def test_the_version_is_printed(self, capsys):
        assert main(["--version"]) == 0
        assert deltaic.__version__ in capsys.readouterr().out

    def test_the_doctor_answers(self, capsys):
        main(["doctor"])
        assert "kernels" in capsys.readouterr().out
