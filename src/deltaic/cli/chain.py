"""`deltaic follow`, `status`, `pin`, `unpin`, `promote`, `withdraw`, `verify`: a chain and those who follow it."""

import json
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from deltaic.consumer import Changes, Consumer, Refresh, RefreshFailure, RefreshListener, chain_status, verify_chain
from deltaic.errors import NotFoundError
from deltaic.storage.announced import CANARY, MAIN, NUMBER_NAME, RECORD_NAME
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store

app = typer.Typer(help="Follow a chain and direct those who do.", no_args_is_help=True)

_Url = Annotated[str, typer.Argument(metavar="URL", help="The folder of a chain, or of a dataset that has one.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_CHAIN_FOLDER = "chain"


@app.command("follow")
def follow(
    url: _Url,
    once: Annotated[bool, typer.Option("--once", help="Refresh once and end.")] = False,
    until: Annotated[int | None, typer.Option("--until", help="End when this version is reached.")] = None,
    channel: Annotated[str, typer.Option(help="The channel to follow.")] = MAIN,
    poll_seconds: Annotated[float, typer.Option("--poll", help="Seconds between two looks.")] = 1.0,
    as_json: _Json = False,
) -> None:
    """Load a chain and follow it: one line for each refresh, with its blobs, bytes and times. Ctrl-C ends it."""
    printer = _Printer(as_json, failures=not once)
    consumer = Consumer(chain_store(url), channel=channel, poll_seconds=poll_seconds, listeners=[printer])
    if once:
        refresh = consumer.refresh()
        raise typer.Exit(0 if refresh.stuck is None else 1)
    consumer.start(load=False)
    try:
        while until is None or consumer.version is None or consumer.version < until:
            time.sleep(min(poll_seconds, 0.1))
    except KeyboardInterrupt:
        return
    finally:
        consumer.stop()


@app.command("status")
def status(
    url: _Url,
    channel: Annotated[str, typer.Option(help="Whose version is asked for.")] = MAIN,
    as_json: _Json = False,
) -> None:
    """Print what is announced: channels, pin, versions, whether files can be verified. Nothing is loaded."""
    found = chain_status(chain_store(url), channel)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
        return
    print(f"{found.url}")
    age = "" if found.announced_seconds_ago is None else f", announced {found.announced_seconds_ago:,.0f} s ago"
    print(f"  wanted     {found.wanted}{age}{', pinned' if found.pin is not None else ''}")
    for name, version in sorted(found.channels.items()):
        print(f"  {name:10} {version}")
    checked = "files have announced checksums" if found.verified else f"unverified: {NUMBER_NAME} only"
    print(f"  checks     {checked}")
    print(f"  snapshots  {', '.join(str(version) for version in found.snapshots[-5:]) or 'none'}")
    if found.lease_holder is not None:
        print(f"  lease      {found.lease_holder} (epoch {found.epoch})")
    for entry in found.versions[:10]:
        size = sum(artifact.size for artifact in entry.artifacts)
        withdrawn = ", withdrawn" if entry.withdrawn else ""
        when = datetime.fromtimestamp(entry.announced_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        files = _counted(len(entry.artifacts), "file")
        print(f"  version    {entry.version}: {when} UTC, {files}, {size:,} bytes{withdrawn}")


@app.command("pin")
def pin(
    url: _Url,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="A version that was announced once.")],
    as_json: _Json = False,
) -> None:
    """Hold every consumer of a chain at a version."""
    _told(Announcements(chain_store(url)).pin(version), as_json)


@app.command("unpin")
def unpin(url: _Url, as_json: _Json = False) -> None:
    """Let consumers follow their channels again."""
    _told(Announcements(chain_store(url)).unpin(), as_json)


@app.command("promote")
def promote(
    url: _Url,
    channel: Annotated[str, typer.Option(help="The channel whose version goes to main.")] = CANARY,
    as_json: _Json = False,
) -> None:
    """Announce on main what is announced on a channel."""
    _told(Announcements(chain_store(url)).promote(channel), as_json)


@app.command("withdraw")
def withdraw(
    url: _Url,
    channel: Annotated[str, typer.Option(help="The channel whose version is taken back.")] = CANARY,
    as_json: _Json = False,
) -> None:
    """Take back what is announced on a channel; main goes back to its last good version."""
    _told(Announcements(chain_store(url)).withdraw(channel), as_json)


@app.command("verify")
def verify(
    url: _Url,
    quick: Annotated[bool, typer.Option("--quick", help="Compare sizes and checksums only, follow nothing.")] = False,
    as_json: _Json = False,
) -> None:
    """Check that every announced file is there and right, and that the chain is closed both ways. Exit 1 if not."""
    found = verify_chain(chain_store(url), walk=not quick)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        for finding in found.findings:
            print(finding)
        compared = "" if found.verified else ", none with an announced checksum"
        print(
            f"{_counted(found.versions, 'version')}, {_counted(found.files, 'file')} ({found.size_bytes:,} bytes)"
            f"{compared}, {_counted(found.walked, 'state')} in {found.seconds:.1f} s: "
            f"{_counted(len(found.findings), 'problem')}"
        )
    raise typer.Exit(0 if found.ok else 1)


def chain_store(url: str) -> Store:
    """The folder of a chain: the URL itself, or `chain` in it where that is announced and the URL is not."""
    store = open_store(url)
    if _announced(store):
        return store
    inner = store.child(_CHAIN_FOLDER)
    return inner if _announced(inner) else store


def _announced(store: Store) -> bool:
    for name in (RECORD_NAME, NUMBER_NAME):
        try:
            store.head(name)
        except NotFoundError:
            continue
        return True
    return False


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _told(announcement: Announcement, as_json: bool) -> None:
    record = announcement.record
    channels = {} if record is None else dict(record.channels)
    if as_json:
        told = {"pin": announcement.pin, "channels": channels, "number_written": announcement.number_written}
        print(json.dumps(told))
        return
    where = ", ".join(f"{name} is at {version}" for name, version in sorted(channels.items()))
    print(f"{where}{f', pinned to {announcement.pin}' if announcement.pin is not None else ''}")
    if not announcement.number_written:
        print(f"{NUMBER_NAME} could not be written yet: Java consumers follow with the next operation")


class _Printer(RefreshListener):
    """One line for each refresh."""

    def __init__(self, as_json: bool, *, failures: bool) -> None:
        self._as_json = as_json
        # A command that ends with the failure tells of it itself.
        self._failures = failures

    def after(self, refresh: Refresh, changes: Changes) -> None:
        counts = {name: (len(one.added_ordinals), len(one.removed_ordinals)) for name, one in changes.items()}
        if self._as_json:
            records = {name: {"added": added, "removed": removed} for name, (added, removed) in counts.items()}
            self._print({"event": "refreshed", **refresh.to_dict(), "records": records})
            return
        added, removed = (sum(pair[place] for pair in counts.values()) for place in (0, 1))
        times = " ".join(f"{step} {seconds * 1000:.1f}" for step, seconds in refresh.seconds.items() if seconds)
        unverified = "" if refresh.verified else ", unverified"
        print(
            f"{refresh.from_version or '-'} -> {refresh.to_version}: {_counted(len(refresh.steps), 'blob')}, "
            f"{refresh.size_bytes:,} bytes, +{added:,} -{removed:,} records, {times} ms{unverified}",
            flush=True,
        )

    def failed(self, failure: RefreshFailure) -> None:
        if self._as_json:
            self._print({"event": "failed", "version": failure.version, "error": str(failure.error)})
        elif self._failures:
            print(f"failed at {failure.version or '-'}: {failure.error}", flush=True)

    def stuck(self, version: int, wanted: int, reason: str) -> None:
        if self._as_json:
            self._print({"event": "stuck", "version": version, "wanted": wanted, "reason": reason})
        else:
            print(f"stuck at {version}, wanted is {wanted}: {reason}", flush=True)

    def _print(self, values: dict[str, Any]) -> None:
        print(json.dumps(values), flush=True)
