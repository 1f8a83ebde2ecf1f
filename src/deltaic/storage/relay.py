"""Object stores in a forked child: through a worker process.

The client library behind object stores runs threads that a fork does not copy; in a child of a process that has used
it, every call would hang, on new clients too. So a forked child (a gunicorn worker with preload, a DataLoader) starts
one worker, a fresh interpreter, and sends its calls there: a length of 8 bytes and MessagePack, both ways, over pipes.
The worker ends with its parent. Calls of one process go one after another; `spawn`, or opening stores only
after the fork, avoids the detour.
"""

import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from deltaic import errors
from deltaic.errors import CommitUnknownError, DeltaicError, StorageError
from deltaic.storage.store import Blob, ObjectInfo

_CONDITIONAL = ("put_if_absent", "put_if_match", "copy_if_absent")
_ERRORS: dict[str, type[DeltaicError]] = {
    kind.__name__: kind
    for kind in (
        errors.StorageError,
        errors.NotFoundError,
        errors.InputError,
        errors.LimitError,
        errors.CommitConflictError,
        errors.CommitUnknownError,
    )
}
_mutex = threading.Lock()
_worker: "_Worker | None" = None
_inherited: list["_Worker"] = []


def call(state: Mapping[str, object], method: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Run a method of the store that `state` describes in this process's worker."""
    if method == "put_chunks":
        return _put_chunks(state, *arguments)
    request = {"state": state, "method": method, "arguments": [_plain(each) for each in arguments], "options": options}
    global _worker
    with _mutex:
        try:
            if _worker is None or _worker.owner != os.getpid():
                _worker = _Worker()
            answer = _worker.ask(request)
        except TypeError as error:
            raise errors.InputError(f"an option of the store cannot be sent to its worker: {error}") from error
        except OSError as error:
            _worker = None
            kind = CommitUnknownError if method in _CONDITIONAL else StorageError
            raise kind(f"the worker for object stores ended during {method}: {error}") from error
    if answer["kind"] == "error":
        raise _ERRORS.get(answer["name"], StorageError)(*answer["value"])
    return _result(answer["kind"], answer["value"])


class _Worker:
    def __init__(self) -> None:
        self.owner = os.getpid()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "deltaic.storage.relay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None and receiver is not None
        _send(sender, request)
        answer = _receive(receiver)
        if answer is None:
            raise BrokenPipeError("no answer")
        return answer

    def let_go(self) -> None:
        """Lead the pipes nowhere in a child, so that nothing of it reaches the worker of its parent."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                os.dup2(nowhere, stream.fileno(), inheritable=False)
        os.close(nowhere)


def _after_fork() -> None:
    """Begin anew in a child: a thread that it does not have may hold the lock, or be in the middle of a request."""
    global _mutex, _worker
    _mutex = threading.Lock()
    if _worker is not None:
        _worker.let_go()
        # Kept, because dropping it would close streams whose locks that thread may hold.
        _inherited.append(_worker)
        _worker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _put_chunks(state: Mapping[str, object], key: str, chunks: Any) -> Any:
    with tempfile.NamedTemporaryFile(prefix="deltaic-relay-") as spool:
        for chunk in chunks:
            spool.write(chunk)
        spool.flush()
        return call(state, "put_file", (key, spool.name), {})


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _send(stream: IO[bytes], value: object) -> None:
    data = msgspec.msgpack.encode(value)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> dict[str, Any] | None:
    head = stream.read(8)
    if len(head) < 8:
        return None
    (length,) = struct.unpack("<Q", head)
    data = stream.read(length)
    if len(data) < length:
        return None
    value: dict[str, Any] = msgspec.msgpack.decode(data)
    return value


def _answer(value: object) -> dict[str, object]:
    if isinstance(value, Blob):
        return {"kind": "blob", "value": [value.data, value.etag]}
    if isinstance(value, ObjectInfo):
        return {"kind": "info", "value": _info_values(value)}
    if value is None or isinstance(value, str | bytes | tuple):
        return {"kind": "tuple" if isinstance(value, tuple) else "plain", "value": value}
    infos = [_info_values(each) for each in value]  # type: ignore[attr-defined]
    return {"kind": "infos", "value": infos}


def _info_values(info: ObjectInfo) -> list[object]:
    return [info.key, info.size_bytes, info.etag, info.modified.timestamp()]


def _result(kind: str, value: Any) -> Any:
    makers: dict[str, Callable[[Any], Any]] = {
        "blob": lambda values: Blob(*values),
        "info": _info,
        "infos": lambda many: iter([_info(each) for each in many]),
        "tuple": tuple,
        "plain": lambda each: each,
    }
    return makers[kind](value)


def _info(values: list[Any]) -> ObjectInfo:
    key, size_bytes, etag, modified = values
    return ObjectInfo(key, size_bytes, etag, datetime.fromtimestamp(modified, UTC))


def _serve(receiver: IO[bytes], sender: IO[bytes]) -> None:
    from deltaic.storage.remote import RemoteStore

    stores: dict[bytes, RemoteStore] = {}
    while (request := _receive(receiver)) is not None:
        try:
            name = msgspec.msgpack.encode(request["state"])
            if name not in stores:
                stores[name] = RemoteStore.of_state(request["state"])
            answer = _answer(getattr(stores[name], request["method"])(*request["arguments"], **request["options"]))
        except DeltaicError as error:
            answer = {"kind": "error", "name": type(error).__name__, "value": list(error.args)}
        _send(sender, answer)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
