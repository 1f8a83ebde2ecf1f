"""From a URL to a store.

    /data/movies, ./movies, file:///data/movies     a local folder
    s3://bucket/path, gs://bucket/path              Amazon (and compatible), Google
    az://container/path                             Azure
    memory:, memory:name                            in this process; a name is shared by all who open it

Another scheme is looked up among the entry points `deltaic.stores`: a callable that takes the URL and the options and
gives a `Store`.
"""

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from deltaic.errors import InputError
from deltaic.storage.credentials import check_url
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store

OBSTORE_SCHEMES = ("s3", "s3a", "gs", "az", "memory")
"""Schemes that go to obstore."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_store(
    url: str | os.PathLike[str],
    *,
    options: Mapping[str, object] | None = None,
    timeout_seconds: float = 30.0,
    read_retries: int = 5,
) -> Store:
    """Open the store at a URL or path. Nothing is read or made yet.

    Args:
        url: where it is; never with credentials in it.
        options: of the object store (`region`, `endpoint`, `access_key_id`, `secret_access_key`, `allow_http`, …),
            as obstore names them; what is not given comes from the environment or the machine's role.
        timeout_seconds: for one request to an object store.
        read_retries: how often a read that failed is tried again, with growing random delays.
    """
    text = os.fspath(url)
    found = _SCHEME.match(text)
    if found is None:
        return _local(text, options)
    check_url(text)
    scheme = found.group(1).lower()
    if scheme == "file":
        return _local(_file_path(text), options)
    if scheme in OBSTORE_SCHEMES:
        from deltaic.storage.remote import RemoteStore

        return RemoteStore(
            scheme + text[len(scheme) :], options=options, timeout_seconds=timeout_seconds, read_retries=read_retries
        )
    # Reading what is installed takes longer than opening a store, and only plug-ins need it.
    from importlib.metadata import entry_points

    for entry in entry_points(group="deltaic.stores", name=scheme):
        store = entry.load()(text, dict(options or {}))
        if not isinstance(store, Store):
            raise InputError(f"the entry point {entry.name!r} of deltaic.stores gave no store")
        return store
    raise InputError(f"no store knows the scheme {scheme!r}: one of file, {', '.join(OBSTORE_SCHEMES)}, or a plug-in")


def _local(path: str, options: Mapping[str, object] | None) -> LocalStore:
    if options:
        raise InputError("a local store takes no options")
    if not path or "\0" in path:
        raise InputError("the path of a local store is empty or has a NUL in it")
    return LocalStore(path)


def _file_path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise InputError(f"{url}: a file URL of another host")
    return unquote(parts.path)
