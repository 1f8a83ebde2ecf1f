"""The Python of the page about look-ups runs."""

import io
import re
from dataclasses import dataclass

from deltaic.producer import Producer
from deltaic.schema.annotations import Int32, key
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


@dataclass(frozen=True)
class Actor:
    id: int
    name: str


@key("id")
@dataclass(frozen=True)
class Movie:
    id: int
    title: str
    year: Int32 | None
    cast: tuple[Actor, ...]


MOVIES = [
    Movie(7, "Solaris", 1972, (Actor(1, "Banionis"), Actor(2, "Bondarchuk"))),
    Movie(8, "Stalker", 1979, (Actor(3, "Kaidanovsky"),)),
    *(Movie(number, f"Other {number}", None, ()) for number in range(100, 150)),
]


def states():
    model = Model.of(Movie)
    write = WriteState(model.schemas)
    state = None
    for movies in (MOVIES, MOVIES[1:]):
        ingest_objects(write, "Movie", movies, model=model)
        blob = io.BytesIO()
        if state is None:
            write.write_snapshot(blob)
            state = ReadState.load(blob.getvalue())
        else:
            write.write_delta(blob)
        yield state if movies is MOVIES else state.apply(blob.getvalue())
        write.next_cycle()


def test_the_python_of_the_page_runs(project_root, capsys, tmp_path):
    page = (project_root / "docs/lookup.md").read_text()
    state, next_state = states()
    with Producer(str(tmp_path), Movie) as producer:
        producer.publish(MOVIES)
    names = {"__name__": "lookup_page", "url": str(tmp_path), "state": state, "next_state": next_state}
    import sys
    import types

    module = types.ModuleType("lookup_page")
    sys.modules["lookup_page"] = module
    module.__dict__.update(names)
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "lookup.md", "exec"), module.__dict__)
    assert capsys.readouterr().out == "1. year is 1972: hash index of Movie by year\n"
    assert (module.later.builds, module.later.updates) == (1, 1)
    assert 7 not in module.after["Movie"] and 7 in module.before["Movie"]
    assert [(index.builds, index.updates) for index in module.after.indexes()] == [(1, 1), (1, 1)]
    assert module.films[7].cast[0].name == "Banionis"
