"""`deltaic run pipeline.toml`: from sources to a published version, once or again and again."""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaic.errors import DeltaicError, InputError, ValidationError

if TYPE_CHECKING:
    from deltaic.spark.pipeline_run import PipelineRun, Step

app = typer.Typer(no_args_is_help=True)


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="PIPELINE.TOML", help="The pipeline.")],
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", help="Run again so many seconds after a run began.")
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Keep streams open and publish what comes, until stopped.")
    ] = False,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs.")] = "local[2]",
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="sc://HOST", help="A Spark Connect server instead.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; can be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for every step.")] = False,
) -> None:
    """Run a pipeline: sources, transforms, expectations, table, publish.

    A run that was killed is simply started again: nothing is lost and nothing comes twice.
    """
    from deltaic.spark.pipeline_file import read_pipeline

    if every is not None and (continuous or every <= 0):
        raise InputError("--every takes a number of seconds above 0, and does not go with --continuous")
    pipeline = read_pipeline(file)
    from deltaic.spark.pipeline_run import PipelineRun
    from deltaic.spark.session import session

    spark = session(master, remote=remote, app_name=f"deltaic {pipeline.name}", config=_settings(conf or []))
    try:
        running = PipelineRun(pipeline, spark)
        if dry_run:
            print(running.plan())
            return
        with _until_stopped() as stop:
            for step in _steps(running, every, continuous, stop):
                _tell(step, as_json)
    except DeltaicError:
        raise
    except Exception as error:
        raise _readable(error) from error
    finally:
        spark.stop()


def _steps(running: "PipelineRun", every: float | None, continuous: bool, stop: threading.Event) -> "Iterator[Step]":
    if continuous:
        yield from running.run_continuously(stop.is_set)
        return
    while True:
        began = time.monotonic()
        yield from running.run()
        if every is None or stop.wait(max(0.0, began + every - time.monotonic())):
            return


def _settings(conf: list[str]) -> dict[str, str]:
    settings = {}
    for each in conf:
        name, found, value = each.partition("=")
        if not found or not name:
            raise InputError(f"--conf {each!r}: NAME=VALUE is wanted")
        settings[name] = value
    return settings


def _tell(step: "Step", as_json: bool) -> None:
    if as_json:
        told: dict[str, Any] = {"step": step.name, "text": step.text, "seconds": round(step.seconds, 3), **step.facts}
        print(json.dumps(told), flush=True)
    else:
        print(f"{step.name:<10} {step.text} ({step.seconds:.2f} s)", flush=True)


def _readable(error: Exception) -> Exception:
    """Spark's errors are pages long; what went wrong is in the last line that one of ours said, or in the first."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("deltaic.errors.")]
    said = ours[-1].partition(": ")[2] if ours else next(iter(lines), type(error).__name__)
    return ValidationError(said)


@contextmanager
def _until_stopped() -> "Iterator[threading.Event]":
    """An event that is set by Ctrl-C and SIGTERM: the step that is at work is finished first."""
    stop = threading.Event()

    def stopped(*_: object) -> None:
        if stop.is_set():
            sys.exit(130)  # asked for twice
        stop.set()

    before = {number: signal.signal(number, stopped) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
