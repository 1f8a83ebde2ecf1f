"""Object stores (S3, Google, Azure) and the memory store, through obstore.

Two clients of one place: reads and plain writes are repeated by obstore with exponential, jittered delays; conditional
writes are sent once, because a repeated one that meets its own first success looks like a conflict. What obstore
reports without a clear verdict about a conditional write becomes CommitUnknownError.

Errors of obstore carry addresses, headers and answers of the server: only their first line goes on, redacted, and they
are not chained, so that no traceback or error collector prints them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from deltaic.errors import (
    CommitConflictError,
    CommitUnknownError,
    DeltaicError,
    InputError,
    NotFoundError,
    StorageError,
)
from deltaic.storage import relay
from deltaic.storage.credentials import Secret, redact, secrets_of, wrap_options
from deltaic.storage.names import check_key, join_key
from deltaic.storage.store import Blob, Data, ObjectInfo
from deltaic.storage.transfer import CHUNK_BYTES, check_limit, check_range, file_chunks, new_file

if TYPE_CHECKING:
    from obstore import ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")
_used_by = 0

SINGLE_PUT_BYTES = 16 << 20
"""Larger objects are sent in parts."""

_MESSAGE_CHARACTERS = 300


def _relayed(
    method: Callable[Concatenate["RemoteStore", _Arguments], _Result],
) -> Callable[Concatenate["RemoteStore", _Arguments], _Result]:
    """In a child of a process that has used obstore, the method runs in a worker: see `relay`."""

    @wraps(method)
    def run(self: "RemoteStore", /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        global _used_by
        if _used_by not in (0, os.getpid()) and not self._in_memory:
            return cast("_Result", relay.call(self._relay_state(), method.__name__, arguments, options))
        _used_by = _used_by or os.getpid()
        return method(self, *arguments, **options)

    return run


class RemoteStore:
    """A store behind obstore. Made by `open_store`."""

    def __init__(
        self,
        url: str,
        *,
        options: Mapping[str, object] | None = None,
        timeout_seconds: float = 30.0,
        read_retries: int = 5,
    ) -> None:
        self._options = wrap_options(options or {})
        self._timeout_seconds, self._read_retries = timeout_seconds, read_retries
        self._url = url.rstrip("/") if "://" in url else url
        self._credentials_dropped = False
        self._prefix = ""
        # Streams and parts run on threads of obstore's, which a forked child has not; memory needs neither.
        self._in_memory = url.startswith("memory:")
        try:
            self._backend, self._once, self._root = _connect(url, self._options, timeout_seconds, read_retries)
        except DeltaicError:
            raise
        except Exception as error:
            failure = InputError(f"cannot open {url}: {self._message(error)}", "BadStore")
        else:
            return
        raise failure

    @property
    def url(self) -> str:
        """Where this is, for people: without credentials."""
        return f"{self._url}/{self._prefix}" if self._prefix else self._url

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"

    def child(self, name: str) -> "RemoteStore":
        """The same store seen from a folder inside it."""
        store = object.__new__(RemoteStore)
        store.__dict__.update(self.__dict__)
        store._prefix = join_key(self._prefix, check_key(name))
        return store

    def __getstate__(self) -> dict[str, object]:
        # Credentials do not travel: the other process takes its own, from its environment or its role.
        kept = {name: value for name, value in self._options.items() if not isinstance(value, Secret)}
        return {
            "url": self._url,
            "options": kept,
            "timeout_seconds": self._timeout_seconds,
            "read_retries": self._read_retries,
            "prefix": self._prefix,
            "dropped": self._credentials_dropped or len(kept) < len(self._options),
        }

    def _relay_state(self) -> dict[str, object]:
        # To this process's own worker, through a pipe that nobody else reads, credentials do go.
        revealed = {
            name: value.reveal() if isinstance(value, Secret) else value for name, value in self._options.items()
        }
        return {**self.__getstate__(), "options": revealed}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "RemoteStore":
        """The store that a relayed call means."""
        store = cls.__new__(cls)
        store.__setstate__(state)
        return store

    def __setstate__(self, state: dict[str, Any]) -> None:
        RemoteStore.__init__(
            self,
            state["url"],
            options=state["options"],
            timeout_seconds=state["timeout_seconds"],
            read_retries=state["read_retries"],
        )
        self._prefix, self._credentials_dropped = state["prefix"], state["dropped"]

    def __reduce__(self) -> tuple[object, ...]:
        if self._in_memory:
            raise InputError("a memory store is not pickled: it is in one process only")
        return object.__new__, (RemoteStore,), self.__getstate__()

    @_relayed
    def get(self, key: str, *, limit_bytes: int | None = None) -> Blob:
        """Read a whole object; LimitError, before reading, if it is larger than the limit."""
        path = self._path(key)

        def read() -> Blob:
            found = self._backend.get(path)
            check_limit(self._shown(key), found.meta["size"], limit_bytes)
            return Blob(found.bytes().to_bytes(), self._etag(found.meta))

        return self._run("read", key, read)

    @_relayed
    def get_if_changed(self, key: str, etag: str | None, *, limit_bytes: int | None = None) -> Blob | None:
        """Read the object unless its etag is still this one: then None."""
        if etag is None:
            return self.get(key, limit_bytes=limit_bytes)
        path, plain = self._path(key), etag.partition("#")[0]

        def read() -> Blob | None:
            from obstore.exceptions import NotModifiedError

            try:
                found = self._backend.get(path, options={"if_none_match": plain})
            except NotModifiedError:
                return None
            check_limit(self._shown(key), found.meta["size"], limit_bytes)
            blob = Blob(found.bytes().to_bytes(), self._etag(found.meta))
            return None if blob.etag == etag else blob

        return self._run("read", key, read)

    @_relayed
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part; shorter at the end of the object, empty past it."""
        check_range(start, length)
        path = self._path(key)
        if length == 0:
            self.head(key)
            return b""
        try:
            return self._run("read", key, lambda: self._backend.get_range(path, start=start, length=length).to_bytes())
        except StorageError:
            # Stores answer a range past the end with an error of their own; here it is an empty answer.
            if start >= self.head(key).size_bytes:
                return b""
            raise

    @_relayed
    def get_to_file(self, key: str, path: str | os.PathLike[str], *, limit_bytes: int | None = None) -> ObjectInfo:
        """Stream the object into a new file; the file must not exist and is removed again if anything fails."""
        source = self._path(key)

        def read() -> ObjectInfo:
            found = self._backend.get(source)
            info = self._info(found.meta)
            check_limit(self._shown(key), info.size_bytes, limit_bytes)
            size_bytes = 0
            with new_file(path) as write:
                for piece in (found.bytes(),) if self._in_memory else found.stream(min_chunk_size=CHUNK_BYTES):
                    size_bytes += len(piece)
                    write(memoryview(piece))
                if size_bytes != info.size_bytes:
                    raise StorageError(f"{self._shown(key)} ended after {size_bytes} of {info.size_bytes} bytes")
            return info

        return self._run("read", key, read)

    @_relayed
    def head(self, key: str) -> ObjectInfo:
        """Size, etag and time of an object."""
        path = self._path(key)
        return self._run("read", key, lambda: self._info(self._backend.head(path)))

    @_relayed
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the text `prefix`, at any depth, in no promised order."""
        folder, _, start = prefix.rpartition("/")
        inside = self._folder(folder)
        # Starting just before the wanted names spares the pages of all names below them.
        offset = join_key(inside, start[:-1]) if len(start) > 1 else None
        stream = self._run("list", prefix, lambda: self._backend.list(inside or None, offset=offset, chunk_size=1000))
        while page := self._run("list", prefix, lambda: next(stream, None)):
            for meta in page:
                info = self._info(meta)
                if info.key.startswith(prefix):
                    yield info

    @_relayed
    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly under the folder `prefix`, sorted."""
        inside = self._folder(prefix.rstrip("/"))
        found = self._run("list", prefix, lambda: self._backend.list_with_delimiter(inside or None))
        return tuple(sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]))

    @_relayed
    def put(self, key: str, data: Data) -> str:
        """Write an object, over an older one if there is one; gives its etag."""
        path = self._path(key)
        in_parts = len(data) > SINGLE_PUT_BYTES and not self._in_memory

        def write() -> str:
            answer = self._backend.put(path, data, use_multipart=in_parts, chunk_size=SINGLE_PUT_BYTES)
            return self._etag(cast("ObjectMeta", answer))

        return self._run("write", key, write)

    @_relayed
    def put_file(self, key: str, path: str | os.PathLike[str]) -> str:
        """Write an object from a local file without holding it in memory."""
        return self.put_chunks(key, file_chunks(path))

    @_relayed
    def put_chunks(self, key: str, chunks: Iterable[Data]) -> str:
        """Write an object from pieces; it appears when the last one is there, and never if the iterator raises."""
        path = self._path(key)
        if self._in_memory:
            return self.put(key, b"".join(bytes(chunk) for chunk in chunks))
        pieces = _even_pieces(chunks, SINGLE_PUT_BYTES)
        first = next(pieces, b"")
        second = next(pieces, None)
        if second is None:
            return self.put(key, first)
        source = _Guarded(_chain(first, second, pieces))

        def write() -> str:
            answer = self._backend.put(path, source, use_multipart=True, chunk_size=SINGLE_PUT_BYTES)
            if source.failure is not None:
                raise source.failure
            return self._etag(cast("ObjectMeta", answer))

        try:
            return self._run("write", key, write)
        except StorageError:
            if source.failure is not None:
                raise source.failure from None
            raise

    @_relayed
    def put_if_absent(self, key: str, data: Data) -> str:
        """Write an object if there is none of that key, else CommitConflictError."""
        path = self._path(key)
        return self._conditional(
            key, lambda: self._etag(cast("ObjectMeta", self._once.put(path, data, mode="create", use_multipart=False)))
        )

    @_relayed
    def put_if_match(self, key: str, data: Data, etag: str) -> str:
        """Write over an object if its etag is still this one, else CommitConflictError."""
        path = self._path(key)
        plain, _, version = etag.partition("#")
        wanted: UpdateVersion = {"e_tag": plain, "version": version} if version else {"e_tag": plain}
        return self._conditional(
            key, lambda: self._etag(cast("ObjectMeta", self._once.put(path, data, mode=wanted, use_multipart=False)))
        )

    @_relayed
    def copy_if_absent(self, source: str, key: str) -> str:
        """Give the bytes of a staged object a second name if that is free, else CommitConflictError."""
        source_path, path = self._path(source), self._path(key)
        self.head(source)
        self._conditional(key, lambda: self._once.copy(source_path, path, overwrite=False))
        etag = self.head(key).etag
        assert etag is not None
        return etag

    @_relayed
    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        path = self._path(key)
        with suppress(NotFoundError):
            self._run("delete", key, lambda: self._backend.delete(path))

    def _path(self, key: str) -> str:
        return join_key(join_key(self._root, self._prefix), check_key(key))

    def _folder(self, folder: str) -> str:
        return self._path(folder) if folder else join_key(self._root, self._prefix)

    def _shown(self, key: str) -> str:
        return f"{self.url}/{key}"

    def _info(self, meta: "ObjectMeta") -> ObjectInfo:
        inside = join_key(self._root, self._prefix)
        key = meta["path"][len(inside) + 1 :] if inside else meta["path"]
        return ObjectInfo(key, meta["size"], self._etag(meta), meta["last_modified"])

    def _etag(self, meta: "ObjectMeta") -> str:
        # Google compares generations; the others compare e-tags and their version is noise that differs by call.
        etag, version = meta["e_tag"] or "", meta["version"]
        return f"{etag}#{version}" if version and self._url.startswith("gs:") else etag

    def _message(self, error: BaseException) -> str:
        text = str(error).split("\n\nDebug source:")[0].split("\n")[0]
        hidden = redact(text, secrets_of(self._options))
        return hidden if len(hidden) <= _MESSAGE_CHARACTERS else hidden[:_MESSAGE_CHARACTERS] + "…"

    def _hint(self, error: BaseException) -> str:
        if self._credentials_dropped and type(error).__name__ in ("UnauthenticatedError", "PermissionDeniedError"):
            return "; credentials given as options stay in the process that got them: set them in the environment"
        return ""

    def _run(self, what: str, key: str, call: Callable[[], _Result]) -> _Result:
        # Raised after the handler, so that the original, with all it says, is not even the context.
        failure: DeltaicError
        try:
            return call()
        except DeltaicError:
            raise
        except FileNotFoundError:
            failure = NotFoundError(f"there is no {self._shown(key)}")
        except Exception as error:
            failure = StorageError(f"cannot {what} {self._shown(key)}: {self._message(error)}{self._hint(error)}")
        raise failure

    def _conditional(self, key: str, call: Callable[[], _Result]) -> _Result:
        from obstore.exceptions import (
            AlreadyExistsError,
            InvalidPathError,
            NotSupportedError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        refused = (
            InvalidPathError,
            NotSupportedError,
            PermissionDeniedError,
            UnauthenticatedError,
            ValueError,
            TypeError,
        )
        failure: DeltaicError
        try:
            return call()
        except AlreadyExistsError:
            failure = CommitConflictError(f"{self._shown(key)} exists")
        except PreconditionError:
            failure = CommitConflictError(f"{self._shown(key)} was changed by another writer")
        except FileNotFoundError:
            failure = StorageError(f"cannot write {self._shown(key)}: no such bucket or container")
        except refused as error:
            failure = StorageError(f"cannot write {self._shown(key)}: {self._message(error)}{self._hint(error)}")
        except Exception as error:
            failure = CommitUnknownError(f"{self._shown(key)} may or may not be written: {self._message(error)}")
        raise failure


_memories: dict[str, "ObjectStore"] = {}


def _connect(
    url: str, options: Mapping[str, object], timeout_seconds: float, read_retries: int
) -> tuple["ObjectStore", "ObjectStore", str]:
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        name = rest.strip("/")
        if options:
            raise InputError("a memory store takes no options")
        # One atomic step: a lock could be held by another thread at a fork, and never be free in the child.
        store = _memories.setdefault(name, MemoryStore()) if name else MemoryStore()
        return store, store, ""
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    prefix = prefix.strip("/")
    if not bucket:
        raise InputError(f"{url} names no bucket")
    if prefix:
        check_key(prefix)
    plain = {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}
    client: dict[str, object] = {"timeout": timedelta(seconds=timeout_seconds)}
    # The environment says it in the name that every tool for S3 knows, and obstore does not look there.
    said = os.environ.get("AWS_ALLOW_HTTP", "").strip().lower() in ("1", "true", "yes") and scheme in ("s3", "s3a")
    if plain.pop("allow_http", said):
        client["allow_http"] = True
    if scheme in ("s3", "s3a"):
        plain.setdefault("copy_if_not_exists", "multipart")
    makers: dict[str, Any] = {"s3": S3Store, "s3a": S3Store, "gs": GCSStore, "az": AzureStore}
    longest = timedelta(seconds=max(1.0, timeout_seconds * 2))

    def client_of(retries: int) -> "ObjectStore":
        retry = {"max_retries": retries, "retry_timeout": longest}
        return cast("ObjectStore", makers[scheme](bucket, config=plain, client_options=client, retry_config=retry))

    return client_of(read_retries), client_of(0), prefix


def _even_pieces(chunks: Iterable[Data], size_bytes: int) -> Iterator[Data]:
    """The same bytes in pieces of one size, the last may be shorter: parts of a multipart upload have a least size."""
    pending = bytearray()
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        while len(view):
            taken = view[: size_bytes - len(pending)]
            pending += taken
            view = view[len(taken) :]
            if len(pending) == size_bytes:
                yield bytes(pending)
                pending = bytearray()
    if pending:
        yield bytes(pending)


def _chain(first: Data, second: Data, rest: Iterator[Data]) -> Iterator[Data]:
    yield first
    yield second
    yield from rest


class _Guarded:
    """An iterator that remembers its own failure, which obstore would report as words only."""

    def __init__(self, source: Iterator[Data]) -> None:
        self._source, self.failure = source, cast("Exception | None", None)

    def __iter__(self) -> "_Guarded":
        return self

    def __next__(self) -> Data:
        try:
            return next(self._source)
        except StopIteration:
            raise
        except Exception as error:
            self.failure = error
            raise
