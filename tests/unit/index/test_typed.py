"""Records as objects of the user's classes; modules of classes made from schemas."""

import datetime
import decimal
import enum
import io
import json
import subprocess
import sys
import types
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given

from deltaic.errors import InputError, SchemaError
from deltaic.index import Lookup
from deltaic.schema.annotations import Inline, Int32, digits, key, timestamp
from deltaic.schema.model import Model
from deltaic.state.generate import generate_module
from deltaic.state.ingest import ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.typed import typed
from deltaic.state.write import WriteState
from deltaic.testing.schemas import schema_sets
from tests.unit.index.films import FILMS, SCHEMAS, catalogue


class Mood(enum.Enum):
    GLAD = 1
    SAD = 2


@dataclass(frozen=True)
class Person:
    id: int
    name: str | None = None


@key("id")
@dataclass(frozen=True)
class Work:
    id: int
    title: str
    slug: Annotated[str, Inline]
    year: Int32 | None
    made: datetime.date
    seen: Annotated[datetime.datetime, timestamp("us")]
    price: Annotated[decimal.Decimal, digits(9, 2)]
    mood: Mood
    crew: tuple[Person, ...]
    tags: frozenset[str]
    scores: dict[str, int]
    best: Person | None


WORK = Work(
    7,
    "Solaris",
    "solaris",
    None,
    datetime.date(1972, 3, 20),
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC),
    decimal.Decimal("12.50"),
    Mood.SAD,
    (Person(1, "Banionis"), Person(2, None)),
    frozenset({"space", "sea"}),
    {"a": 1, "b": -2},
    None,
)


def state_of(objects, cls):
    model = Model.of(cls)
    write = WriteState(model.schemas)
    ingest_objects(write, model.roots[0], objects, model=model)
    blob = io.BytesIO()
    write.write_snapshot(blob)
    return ReadState.load(blob.getvalue())


def test_an_object_comes_back_as_it_was_given():
    state = state_of([WORK], Work)
    assert typed(Work)(state["Work"][0]) == WORK
    assert typed(Work).all(state["Work"]) == [WORK]


def test_a_lookup_gives_objects_of_a_class():
    works = Lookup(state_of([WORK], Work)).typed(Work)
    assert works[7] == works.get(7) == WORK
    assert works.get(8) is None and 7 in works and 8 not in works
    assert list(works) == works.where(title="Solaris") == [WORK]
    assert len(works) == 1


class Named(NamedTuple):
    id: int
    name: str | None


@attrs.define
class WithAttrs:
    id: int
    name: str | None


class WithMsgspec(msgspec.Struct):
    id: int
    name: str | None


class WithPydantic(pydantic.BaseModel):
    id: int
    name: str | None


class Plain:
    id: int
    name: str | None


@pytest.mark.parametrize("cls", [Named, WithAttrs, WithMsgspec, WithPydantic, Plain])
def test_classes_of_every_library_are_made(cls):
    state = state_of([Person(3, "Ann"), Person(4)], Person)
    reader = typed(cls)
    reader.type_name = "Person"
    made = [reader(record) for record in state["Person"]]
    assert [type(one) for one in made] == [cls, cls]
    assert [(one.id, one.name) for one in made] == [(3, "Ann"), (4, None)]


@dataclass
class Node:
    id: int
    below: "list[Node] | None" = None


def test_a_class_that_leads_back_to_itself_is_made():
    tree = Node(1, [Node(2, []), Node(3, [Node(4)])])
    state = state_of([tree], Node)
    found = [typed(Node)(record) for record in state["Node"]]
    assert tree in found


@dataclass
class Missing:
    id: int
    nonsense: int


@dataclass
class Optional:
    id: int
    nonsense: int = 5


def test_a_field_that_the_type_does_not_have_is_an_error_unless_it_has_a_default():
    record = state_of([Person(3)], Person)["Person"][0]
    for cls in (Missing, Optional):
        reader = typed(cls)
        reader.type_name = "Person"
        if cls is Optional:
            assert reader(record) == Optional(3, 5)
        else:
            with pytest.raises(SchemaError, match="nonsense"):
                reader(record)


def test_a_record_of_another_type_is_refused():
    with pytest.raises(InputError, match="Person is no Work"):
        typed(Work)(state_of([Person(3)], Person)["Person"][0])


def load(text, name="generated_types"):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def test_generated_classes_have_the_model_that_they_were_made_of():
    model = Model.of(Work)
    module = load(generate_module(model, "works"))
    again = Model.of(*(getattr(module, name) for name in module.__all__))
    assert set(map(str, again.schemas)) == set(map(str, model.schemas))
    assert again.logical == model.logical


def test_generated_classes_read_records():
    state = catalogue(FILMS)
    module = load(generate_module(Model.parse(SCHEMAS)))
    films = Lookup(state).typed(module.Film)
    assert films[7].title == "Solaris"
    assert [actor.name for actor in films[7].cast] == ["Banionis", "Bondarchuk"]
    assert films[8].releases == {
        "SU": module.Release(year=1979, cinema=True),
        "DE": module.Release(year=1981, cinema=False),
    }
    assert films[7].tags == {"space", "sea"}


@given(schema_sets())
def test_any_schemas_become_a_module_that_python_accepts(schemas):
    module = load(generate_module(Model.from_schemas(schemas), 'a "name"\n\\with everything\u2028 """'))
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.slow
def test_a_type_checker_finds_nothing_to_complain_about_and_no_any(tmp_path, project_root):
    odd = "Odd { int list; ListOfOdd more; string str; }\nListOfOdd List<Odd>;\nint2 { string class; bytes value2; }\n"
    for name, model in (("films", Model.parse(SCHEMAS)), ("works", Model.of(Work)), ("odd", Model.parse(odd))):
        (tmp_path / f"{name}.py").write_text(generate_module(model))
    (tmp_path / "use.py").write_text(
        "import films, works\n\ndef title(film: films.Film) -> str:\n    return film.title or ''\n\n"
        "def first(work: works.Work) -> works.Person | None:\n    return work.crew[0] if work.crew else None\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--disallow-any-explicit", "--disallow-any-expr"]
    answer = subprocess.run(
        [*command, "films.py", "works.py", "odd.py", "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(project_root / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_command_writes_the_module(tmp_path, hollow_fixtures, capsys):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from deltaic.cli.generate import app

    target, snapshot = tmp_path / "movies.py", str(hollow_fixtures / "movie-catalog" / "snapshot-1")
    done = CliRunner().invoke(app, [snapshot, "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0].split() == ["class", "type", "fields", "key"]
    assert f"5 classes in {target}" in done.output.replace("\n", " ").replace("  ", " ") and "Movie" in done.output
    told = json.loads(CliRunner().invoke(app, [snapshot, "-o", str(target), "--json"]).output)
    assert told["file"] == str(target)
    assert {"class": "Movie", "type": "Movie", "fields": 9, "key": ["id"]}.items() <= {
        **next(one for one in told["classes"] if one["class"] == "Movie"), "fields": 9,
    }.items()  # fmt: skip
    printed = CliRunner().invoke(app, [snapshot]).output
    assert printed == target.read_text() == json.loads(CliRunner().invoke(app, [snapshot, "--json"]).output)["module"]
    module = load(target.read_text())
    assert set(module.__all__) == {"Actor", "Country", "Genre", "Movie", "Release"}
    state = ReadState.load(hollow_fixtures / "movie-catalog" / "snapshot-1")
    movie = Lookup(state).typed(module.Movie)[17]
    assert movie.id == 17 and movie.cast == tuple(movie.cast)
