"""`deltaic get`, `find`, `history`, `diff`, `stats`, `export`: on files, on bare chains, on announced ones."""

import datetime
import decimal
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import pytest

from deltaic.cli.opening import open_state, open_versions
from deltaic.errors import ChainError, NotFoundError
from deltaic.schema.annotations import digits, key

typer = pytest.importorskip("typer")
pytest.importorskip("rich")

from deltaic.cli import app as app_module  # noqa: E402
from deltaic.cli import main  # noqa: E402

COMMANDS = ("get", "find", "history", "diff", "stats", "export")


def test_the_commands_are_registered():
    assert app_module.TOP_LEVEL["lookup"] == COMMANDS and app_module.TOP_LEVEL["generate"] == ("generate",)


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def catalogue(hollow_fixtures):
    return hollow_fixtures / "movie-catalog"


@pytest.fixture
def announced(hollow_fixtures):
    return hollow_fixtures / "blob-store" / "store"


def test_get_prints_the_record_of_a_key(run, catalogue):
    code, out, _ = run("get", catalogue / "snapshot-1", "Movie", 5)
    assert code == 0 and 'title: "salt velvet"' in out and "budget: null" in out
    code, out, _ = run("get", catalogue, "Movie", 5, "--version", 2, "--json")
    (found,) = json.loads(out)
    assert code == 0 and found["record"]["id"] == 5 and found["type"] == "Movie"


def test_get_of_a_key_that_is_not_there_exits_with_1(run, catalogue):
    assert run("get", catalogue, "Movie", 987654321)[0] == 1
    code, out, _ = run("get", catalogue, "Movie", 987654321, "--json")
    assert (code, json.loads(out)) == (1, [])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("get", "{}", "Movie", "five"), 2, "five"),
        (("get", "{}", "Film", "5"), 1, "Film"),
        (("get", "{}", "Movie", "1", "2"), 2, "key"),
        (("get", "{}", "Movie", "1", "--version", "77"), 1, "version 77"),
        (("diff", "{}", "one", "2"), 2, "no version"),
        (("diff", "{}/snapshot-1", "1", "2"), 2, "two files"),
        (("diff", "{}", "1", "2", "--key", "Movie"), 2, "TYPE=PATH"),
        (("find", "{}", "x", "--how", "regex"), 2, "regex"),
        (("export", "{}", "Movie", "--format", "xml"), 2, "xml"),
        (("export", "{}", "Movie", "--format", "parquet"), 2, "--output"),
        (("stats", "{}/nothing-here"), 1, "neither"),
    ],
)
def test_misuse_and_failure_are_one_line(words, code, told, run, catalogue):
    found, out, err = run(*(word.format(catalogue) for word in words))
    assert found == code and told in err and len(err.strip().splitlines()) == 1 and out == ""


def test_find_rolls_up_to_the_movies(run, catalogue):
    code, out, _ = run("find", catalogue, "drama", "--json", "--limit", 3)
    found = json.loads(out)
    assert code == 0 and found["matches"] == [{"type": "Genre", "field": "name", "records": 1, "ordinals": [11]}]
    assert found["roots"]["Movie"]["records"] > 1000 and len(found["roots"]["Movie"]["keys"]) == 3
    code, out, _ = run("find", catalogue, "drama")
    assert code == 0 and "Genre.name" in out and "Movie" in out
    assert run("find", catalogue, "no such thing")[0] == 1


def test_history_tells_the_versions_that_touched_a_key(run, catalogue):
    code, out, _ = run("diff", catalogue, 2, 3, "--type", "Movie", "--limit", 100000, "--json")
    movie = json.loads(out)["types"]["Movie"]
    key = next(change["key"][0] for change in movie["records"] if change["change"] == "modified")
    code, out, _ = run("history", catalogue, "Movie", key, "--json")
    found = json.loads(out)
    assert code == 0 and 3 in found["touched"] and found["versions"] == [1, 2, 3, 4]
    code, out, _ = run("history", catalogue, "Movie", key, "--last", 2)
    assert code == 0 and "2 versions, 3 to 4" in out and "3: first" in out
    assert run("history", catalogue, "Movie", 987654321)[0] == 1


def test_diff_of_versions_and_of_files_agree(run, catalogue):
    by_version = json.loads(run("diff", catalogue, 1, 4, "--json")[1])
    by_file = json.loads(run("diff", catalogue / "snapshot-1", catalogue / "snapshot-4", "--json")[1])
    assert by_version == by_file and not by_file["equal"] and by_file["types"]["Movie"]["modified"] == 599
    code, out, _ = run("diff", catalogue, 1, 4, "--limit", 1)
    assert code == 0 and "Movie.rating" in out and "modified" in out
    assert run("diff", catalogue, 1, 1)[1] == "no difference\n"
    bag = json.loads(run("diff", catalogue, 1, 4, "--type", "Movie", "--key", "Movie=", "--json")[1])
    assert bag["types"]["Movie"]["modified"] == 0


def test_stats_tell_what_types_and_fields_cost(run, catalogue):
    code, out, _ = run("stats", catalogue)
    assert code == 0 and "Movie" in out and "bytes in 9 types" in out
    whole = json.loads(run("stats", catalogue, "--json")[1])
    assert whole["bytes"] == sum(one["bytes"] for one in whole["types"])
    code, out, _ = run("stats", catalogue, "Movie")
    assert code == 0 and "synopsis" in out and "(overhead)" in out
    movie = json.loads(run("stats", catalogue, "Movie", "--json", "--top", 1)[1])
    assert [one["name"] for one in movie["statistics"]] == [one["name"] for one in movie["fields"]]
    sizes = json.loads(run("stats", catalogue, "ListOfActor", "--json")[1])
    assert sizes["statistics"][0]["name"] == "size"


def test_export_writes_lines_and_files(run, catalogue, tmp_path):
    code, out, _ = run("export", catalogue, "Actor")
    assert code == 0 and len(out.splitlines()) == 4000 and json.loads(out.splitlines()[0])["actorId"] == 2380
    code, out, _ = run("export", catalogue, "Actor", "--format", "csv", "-o", tmp_path / "a.csv")
    assert code == 0 and (tmp_path / "a.csv").read_text().splitlines()[0] == "actorId,name,birthYear"
    pytest.importorskip("pyarrow")
    code, out, _ = run("export", catalogue, "Actor", "--format", "parquet", "-o", tmp_path / "a.parquet", "--json")
    assert code == 0 and json.loads(out)["records"] == 4000 and (tmp_path / "a.parquet").stat().st_size > 1000


def test_dates_and_decimals_are_printed_and_not_the_numbers_that_carry_them(run, tmp_path):
    from deltaic.producer import Producer

    @key("id")
    @dataclass
    class Ticket:
        id: int
        day: datetime.date
        price: Annotated[decimal.Decimal, digits(8, 2)]

    with Producer(str(tmp_path), Ticket) as producer:
        producer.publish([Ticket(1, datetime.date(1972, 2, 5), decimal.Decimal("9.50"))])
        producer.publish([Ticket(1, datetime.date(1972, 2, 6), decimal.Decimal("9.50"))])
    record = {"id": 1, "day": "1972-02-06", "price": "9.50"}
    assert json.loads(run("get", tmp_path, "Ticket", 1, "--json")[1])[0]["record"] == record
    assert 'day: "1972-02-06"' in run("get", tmp_path, "Ticket", 1)[1]
    assert json.loads(run("export", tmp_path, "Ticket")[1]) == record
    assert run("export", tmp_path, "Ticket", "--format", "csv")[1].splitlines() == ["id,day,price", "1,1972-02-06,9.50"]
    assert 'day: "1972-02-05" -> "1972-02-06"' in run("history", tmp_path, "Ticket", 1)[1]


def test_an_announced_chain_is_read_where_it_is_announced(run, announced):
    code, out, _ = run("get", announced, "Film", 3, "--json")
    assert code == 0 and json.loads(out)[0]["record"]["title"] == "film 3"
    versions = [version for version, _ in open_versions(str(announced), 3)]
    assert versions == [20230101000000004, 20230101000000005, 20230101000000006]


def test_versions_come_with_their_states_each_by_its_delta(catalogue):
    states = list(open_versions(str(catalogue), 10))
    assert [version for version, _ in states] == [1, 2, 3, 4]
    assert all(after.origin_tag == before.tag for (_, before), (_, after) in pairwise(states))
    ((number, state),) = open_versions(str(catalogue / "snapshot-4"), 10)
    assert number == 4 and state.checksum() == states[-1][1].checksum()


def test_what_is_not_there_is_told(tmp_path, catalogue):
    with pytest.raises(NotFoundError):
        open_state(str(tmp_path))
    with pytest.raises(ChainError):
        open_state(str(catalogue), 9)
