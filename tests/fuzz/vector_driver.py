"""One fuzzing process for vector deltas: reads damaged bytes one after the other, and says what went wrong.

    python -m tests.fuzz.vector_driver mutations 0 20000     damage by the seeds 0 to 19999
    python -m tests.fuzz.vector_driver followed 0 500        the same with every allocation followed: slower
    python -m tests.fuzz.vector_driver prefixes 0 100000     every prefix of every target

The answer is one line of JSON. With a last argument the number in work stands in the file of that name.
"""

import json
import os
import resource
import sys
import time
import traceback
import tracemalloc
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from pathlib import Path
from random import Random

from deltaic.errors import DecodeError
from deltaic.wire.vectors import CODES
from tests.fuzz.vector_targets import Target, all_targets

MOST_SECONDS = 2.0
MOST_BYTES = 96 << 20
"""A message of 64 MiB is allowed to be one, whatever it was packed to."""
MOST_FOLLOWED_BYTES = 48 << 20
CHECKED = os.environ.get("DELTAIC_CHECKED_KERNELS", "")
HOSTILE = (0, 1, 2, 7, 8, 63, 64, 127, 128, 255)


def damaged(target: Target, random: Random) -> bytes:
    """One to three kinds of damage; mostly with the checksums made right again, or nothing would get past them."""
    data = bytearray(target.data)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(data)) if data else 0
        match random.randrange(8):
            case 0 | 1 if data:
                data[at] ^= 1 << random.randrange(8)
            case 2 if data:
                data[at] = random.choice(HOSTILE)
            case 3 if data:
                # Headers, directories and counts stand in front.
                data[random.randrange(min(len(data), 160))] = random.choice(HOSTILE)
            case 4:
                data[at:at] = random.randbytes(random.randint(1, 9))
            case 5:
                del data[at : at + random.randint(1, 9)]
            case 6:
                data[at : at + 8] = random.choice((bytes(8), b"\xff" * 8, b"\x80" * 8, b"\x00\x00\x00\x80" * 2))
            case _:
                other = random.randrange(len(data)) if data else 0
                data[at : at + 16] = data[other : other + 16]
    return target.sealed(bytes(data)) if random.random() < 0.9 else bytes(data)


def ending(target: Target, data: bytes) -> str:
    """How reading ends; whatever else is raised is a failure."""
    started = time.process_time()
    try:
        target.read(data)
        end = "read"
    except DecodeError as error:
        assert error.code in CODES, error.code
        assert error.at and error.reason
        end = error.code
    seconds = time.process_time() - started
    assert seconds < MOST_SECONDS * (8 if CHECKED or tracemalloc.is_tracing() else 1), f"took {seconds:.1f} s"
    return end


def main(plan: str, start: int, stop: int, progress: str = os.devnull) -> int:
    """Run one plan over a range of numbers."""
    targets = all_targets()
    ends = list(accumulate(len(target.data) for target in targets))
    stop = min(stop, ends[-1]) if plan == "prefixes" else stop
    for target in targets:
        assert ending(target, target.data) == "read"
    if CHECKED != "address":
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 4 * MOST_BYTES, resource.RLIM_INFINITY))
    if plan == "followed":
        tracemalloc.start()
    endings: Counter[str] = Counter()
    failures = []
    note = os.open(progress, os.O_WRONLY)
    for number in range(start, stop):
        os.pwrite(note, b"%-20d" % number, 0)
        try:
            if plan == "prefixes":
                place = bisect_right(ends, number)
                data = targets[place].data[: number - (ends[place - 1] if place else 0)]
                end = ending(targets[place], data)
                assert end != "read" or not data, "bytes that are cut off were read"
            else:
                random = Random(number)
                target = random.choice(targets)
                data = damaged(target, random)
                tracemalloc.reset_peak()
                end = ending(target, data)
                peak = tracemalloc.get_traced_memory()[1]
                assert peak < MOST_FOLLOWED_BYTES, f"took {peak:,} bytes for {len(data)}"
            endings[end] += 1
        except Exception as error:
            failures.append([number, repr(error), "".join(traceback.format_exception(error)[-3:])])
            if len(failures) == 20:
                break
    print(json.dumps({"endings": endings, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
