"""Names from data: refused, or inside."""

import os
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import DeltaicError, InputError, StorageError
from deltaic.storage.local import LocalStore
from deltaic.storage.names import check_key, refuse_twins, safe_join, safe_relative
from deltaic.storage.urls import open_store

HOSTILE = (
    "../x",
    "..",
    ".",
    "/x",
    "//host/x",
    "..%2f",
    "..%2Fx",
    "%2e%2e",
    "%2E%2e%2fx",
    ".%2e",
    "%252e%252e",
    "%25252e%25252e",
    "%2525252525252e",
    "%2fetc",
    "%5chost",
    "%7e",
    "%43:x",
    "..%5cx",
    "x%2f..%2fy",
    "%2e%2e%20",
    "a\0b",
    "\\\\host\\c",
    "a\\b",
    "C:\\x",
    "C:x",
    "~",
    "~root",
    "x" * 300,
    "é" * 128,
    unicodedata.normalize("NFD", "é"),
    "a\nb",
    "a\x7fb",
    "a\u2028b",
    "a.",
    "a ",
    "...",
    " ",
    "",
    "\ud800",
    ".deltaic-lock",
    ".deltaic-tmp-1",
)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("use", ["segment", "path", "middle", "last", "key", "child"])
def test_a_hostile_name_is_refused_wherever_it_is_used(name: str, use: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "root")
    calls = {
        "segment": lambda: safe_join("base", name),
        "path": lambda: safe_relative("base", name),
        "middle": lambda: safe_relative("base", f"a/{name}/b"),
        "last": lambda: safe_relative("base", f"a/{name}"),
        "key": lambda: store.put(name, b""),
        "child": lambda: store.child(name),
    }
    with pytest.raises(InputError) as caught:
        calls[use]()
    assert caught.value.code == "UnsafeName"
    assert str(caught.value).isascii() or "…" in str(caught.value)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", ["a/b", "a/../b"])
def test_a_segment_has_no_separator(name: str) -> None:
    with pytest.raises(InputError):
        safe_join("base", name)


@pytest.mark.parametrize(
    "name", ["delta-1-2", "a%2Fb", "day=2024%3A01", "value=%00", "é", "...a", "a..b", "..a", ".hidden", "a~", "x" * 255]
)
def test_a_harmless_name_is_kept_as_it_is(name: str, tmp_path: Path) -> None:
    assert safe_join("base", name) == f"base/{name}"
    store = open_store(tmp_path)
    store.put(name, b"x")
    assert [info.key for info in store.list()] == [name]


def test_a_key_has_at_most_1024_bytes() -> None:
    check_key("/".join(["x" * 200] * 5))
    with pytest.raises(InputError):
        check_key("/".join(["x" * 204] * 5 + ["yy"]))
    with pytest.raises(InputError):
        safe_join("/".join(["x" * 200] * 5), "y" * 30)


@pytest.mark.parametrize("twins", [("Movie", "movie"), ("é", unicodedata.normalize("NFD", "é")), ("straße", "STRASSE")])
def test_twins_in_one_folder_are_refused(twins: tuple[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        refuse_twins(["other", *twins])
    assert caught.value.code == "TwinNames"
    refuse_twins([twins[0], "other", twins[0]])


@given(st.text())
def test_any_text_is_refused_or_stays_inside_even_when_decoded(name: str) -> None:
    try:
        key = safe_join("base", name)
    except InputError:
        return
    for spelled in (key, unquote(key), unquote(unquote(key))):
        path = os.path.normpath(f"/root/{spelled}")
        assert path == "/root/base" or path.startswith("/root/base/")


@pytest.mark.parametrize("call", ["get", "head", "range", "put into", "list", "copy", "match"])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_planted_link_is_not_followed(call: str, what: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    store = LocalStore(root)
    if what == "file":
        (root / "planted").symlink_to(outside / "secret")
        key = "planted"
    else:
        (root / "planted").symlink_to(outside)
        key = "planted/secret"
    calls = {
        "get": lambda: store.get(key),
        "head": lambda: store.head(key),
        "range": lambda: store.get_range(key, 0, 10),
        "put into": lambda: store.put_if_absent("planted/new", b"x"),
        "copy": lambda: store.copy_if_absent(key, "copy"),
        "match": lambda: store.put_if_match(key, b"x", "h-0"),
    }
    if call == "list":
        assert list(store.list()) == []
    else:
        with pytest.raises((StorageError, DeltaicError)):
            calls[call]()
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_put_over_a_planted_link_replaces_the_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"untouched")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "k").symlink_to(outside)
    store = LocalStore(tmp_path / "root")
    store.put("k", b"new")
    assert store.get("k").data == b"new"
    assert outside.read_bytes() == b"untouched"


def test_a_planted_pipe_does_not_hang_a_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError):
        LocalStore(tmp_path).get("pipe")


def test_a_root_that_is_a_link_is_the_callers_choice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    LocalStore(tmp_path / "link").put("k", b"x")
    assert (tmp_path / "real" / "k").read_bytes() == b"x"
