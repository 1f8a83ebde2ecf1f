"""One fuzzing process for vector parts: applies damaged parts one after the other, and says what went wrong.

    python -m tests.fuzz.part_driver mutations 0 10000     damage by the seeds 0 to 9999
    python -m tests.fuzz.part_driver followed 0 500        the same with every allocation followed: slower
    python -m tests.fuzz.part_driver prefixes 0 100000     every prefix of every target

The answer is one line of JSON. With a last argument the number in work stands in the file of that name.
"""

import json
import os
import sys
import time
import traceback
import tracemalloc
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from random import Random
from typing import Any, cast

from deltaic.errors import DecodeError
from deltaic.wire.vectors import CODES
from tests.fuzz.part_targets import Target, all_targets
from tests.fuzz.vector_driver import damaged

MOST_SECONDS = 2.0
MOST_FOLLOWED_BYTES = 48 << 20
PART_CODES = CODES | {"BadPart", "MalformedPart", "Limit"}


def damaged_head(target: Target, random: Random) -> bytes:
    """One or two numbers of the first column's head changed, and the checksums made right again."""
    data = bytearray(target.data)
    stored = int.from_bytes(data[36:40], "little")
    for _ in range(random.choice((1, 1, 2))):
        # The names stand in front; what follows them are counts, ordinals and the checksum.
        at = 48 + random.randrange(min(18, stored), stored) if random.random() < 0.9 else 48 + random.randrange(stored)
        data[at] = random.choice((0, 1, 2, 3, 0x7F, 0x80, random.randrange(256)))
    return target.sealed(bytes(data))


def ending(target: Target, data: bytes) -> str:
    """How applying ends; whatever else is raised is a failure."""
    started = time.process_time()
    try:
        target.read(data)
        end = "read"
    except DecodeError as error:
        assert error.code in PART_CODES, error.code
        assert error.at and error.reason
        end = error.code
    seconds = time.process_time() - started
    assert seconds < MOST_SECONDS * (8 if tracemalloc.is_tracing() else 1), f"took {seconds:.1f} s"
    return end


def main(plan: str, start: int, stop: int, progress: str = os.devnull) -> int:
    """Run one plan over a range of numbers."""
    targets = all_targets()
    ends = list(accumulate(len(target.data) for target in targets))
    stop = min(stop, ends[-1]) if plan == "prefixes" else stop
    for target in targets:
        assert ending(target, target.data) == "read"
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
                assert end != "read", "bytes that are cut off were read"
            else:
                random = Random(number)
                target = random.choice(targets)
                data = damaged_head(target, random) if number % 2 else damaged(cast(Any, target), random)
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
