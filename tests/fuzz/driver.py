"""One fuzzing process: reads damaged blobs one after the other, and says what went wrong.

    python -m tests.fuzz.driver mutations 0 20000     damage by the seeds 0 to 19999
    python -m tests.fuzz.driver mutations 17 18       seed 17 alone, with what it did
    python -m tests.fuzz.driver followed 0 1000       the same damage with every allocation followed: slower
    python -m tests.fuzz.driver hostile 0 100         blobs made by hand
    python -m tests.fuzz.driver prefixes 0 600000 7   every 7th prefix of every blob

Each failure is a line of JSON. With a last argument the number in work stands in the file of that name, so that whoever
started the process learns which one killed it. Memory is bounded for the whole process, time for each blob.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
import tracemalloc
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TypeVar

from deltaic.errors import ChainError, DecodeError
from deltaic.state.filter import Filter
from tests.fuzz.exercise import use
from tests.fuzz.hostile import SNAPSHOT, all_hostile
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import Target, all_targets

MOST_SECONDS = 1.0
MOST_SECONDS_OF_USE = 4.0
"""Reading every record in several ways, which is more than any one call does."""
MOST_BYTES = 64 << 20
MOST_BYTES_PER_INPUT_BYTE = 8
HANGS_AFTER_SECONDS = 20
"""CPU time after which a blob counts as hung and the process is killed."""
SLOWER_WHEN_WATCHED = 4
"""What following every allocation costs, or kernels that check themselves, at most."""
CHECKED = os.environ.get("DELTAIC_CHECKED_KERNELS", "")
"""`bounds` or `address` where the kernels check themselves."""
MOST_FAILURES = 20


Result = TypeVar("Result")


class Broken(AssertionError):
    """A promise about damaged blobs that did not hold."""


def read_damaged(target: Target, blob: bytes, wanted: Filter | None = None) -> str:
    """Read and use a damaged blob; says how it ended. Whatever is raised is a failure."""
    size = len(blob)
    try:
        state = bounded(lambda: target.read(blob, wanted), size)
    except DecodeError as error:
        return error.code
    except ChainError:
        if target.snapshot is None:
            raise
        return "Chain"
    bounded(lambda: use(state), size, MOST_SECONDS_OF_USE)
    if target.following is None:
        return "read"
    try:
        after = bounded(lambda: state.apply(target.following), size + len(target.following))
    except (DecodeError, ChainError):
        return "read, not followed"
    bounded(lambda: use(after), size + len(target.following), MOST_SECONDS_OF_USE)
    return "read and followed"


def read_prefix(target: Target, length: int) -> str:
    """Read a proper prefix, which must fail."""
    try:
        bounded(lambda: target.read(target.blob[:length]), length)
    except DecodeError as error:
        return error.code
    raise Broken("a blob that is cut off was read")


def run_mutation(targets: list[Target], seed: int) -> tuple[str, str]:
    """What was damaged, and how it ended."""
    random = Random(seed)
    target = random.choice(targets)
    kind, blob = mutate(target, random)
    wanted = choose_filter(target, random)
    try:
        return f"{target.name} {kind}, {len(blob)} bytes", bounded(
            lambda: read_damaged(target, blob, wanted), len(blob)
        )
    except Exception as error:
        error.add_note(f"{target.name} {kind} {wanted or ''}")
        raise


def choose_filter(target: Target, random: Random) -> Filter | None:
    """Now and then some types and fields are not wanted: their sections are passed over or cut down."""
    if random.random() < 0.8:
        return None
    patterns = random.sample(target.patterns, min(len(target.patterns), random.randint(1, 4)))
    return random.choice((Filter.only, Filter.without))(*patterns)


def run_prefix(targets: list[Target], ends: list[int], number: int) -> tuple[str, str]:
    """The same for the prefix that has this number when all prefixes of all blobs are counted."""
    place = bisect_right(ends, number)
    target = targets[place]
    length = number - (ends[place - 1] if place else 0)
    try:
        return f"{target.name}, the first {length} bytes", read_prefix(target, length)
    except Exception as error:
        error.add_note(f"{target.name}, the first {length} bytes")
        raise


def run_hostile(number: int) -> tuple[str, str]:
    """The same for a blob that was made by hand."""
    made = all_hostile()[number]
    target = Target(made.name, made.blob, SNAPSHOT if made.is_delta else None, None)
    try:
        return made.name, read_damaged(target, made.blob)
    except Exception as error:
        error.add_note(made.name)
        raise


def bounded(work: Callable[[], Result], size: int, seconds_allowed: float = MOST_SECONDS) -> Result:
    """Do some work within the bounds of time and, where memory is followed, of memory."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_AFTER_SECONDS)
    try:
        result = work()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    seconds = time.process_time() - started
    peak = tracemalloc.get_traced_memory()[1] - before
    if seconds > seconds_allowed * (SLOWER_WHEN_WATCHED if tracemalloc.is_tracing() or CHECKED else 1):
        raise Broken(f"took {seconds:.1f} s of CPU time")
    if peak > MOST_BYTES + MOST_BYTES_PER_INPUT_BYTE * size:
        raise Broken(f"took {peak:,} bytes of memory for {size:,} bytes of input")
    return result


def limit_memory(targets: list[Target]) -> None:
    """Bound the address space to what is in use now, after every sound blob was read, and what one blob may take."""
    for target in targets:
        read_damaged(target, target.blob)
        assert target.numbers and target.patterns
    largest = max(len(blob) for blob in [*(target.blob for target in targets), *(made.blob for made in all_hostile())])
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = in_use + MOST_BYTES + MOST_BYTES_PER_INPUT_BYTE * largest
    if CHECKED == "address":
        # The sanitizer keeps what was freed, to see who still uses it.
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def main(plan: str, start: int, stop: int, step: int = 1, progress: str = os.devnull) -> int:
    """Run one plan over a range of numbers."""
    targets = all_targets()
    ends = list(accumulate(len(target.blob) for target in targets))
    stop = min(stop, {"prefixes": ends[-1], "hostile": len(all_hostile())}.get(plan, stop))
    if plan == "followed":
        tracemalloc.start()
    limit_memory(targets)
    failures = 0
    endings: Counter[str] = Counter()
    note = os.open(progress, os.O_WRONLY)
    for number in range(start, stop, step):
        os.pwrite(note, b"%-20d" % number, 0)
        try:
            match plan:
                case "prefixes":
                    what, ending = run_prefix(targets, ends, number)
                case "hostile":
                    what, ending = run_hostile(number)
                case _:
                    what, ending = run_mutation(targets, number)
        except Exception as error:
            failures += 1
            tail = "".join(traceback.format_exception(error)[-3:])
            print(json.dumps({"number": number, "error": repr(error), "tail": tail}), flush=True)
            if failures == MOST_FAILURES:
                break
            continue
        endings[ending] += 1
        if stop - start == 1 or plan == "hostile":
            print(json.dumps({"done": number, "what": what, "ending": ending}), flush=True)
    print(json.dumps({"endings": endings, "failures": failures}), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    numbers, names = sys.argv[2:5], sys.argv[5:]
    sys.exit(main(sys.argv[1], *(int(word) for word in numbers), *names))
