"""Damages frames of patches and reads them: `python -m tests.fuzz.patch_driver START STOP` prints how they ended.

Half of the damage is to bodies, whose checksum is made right again: otherwise nothing would get past it.
"""

import json
import resource
import sys
import time
from collections import Counter
from random import Random
from typing import Any

import numpy as np

from deltaic.errors import DecodeError, RegistryError
from deltaic.kernels import crc
from deltaic.wire.patches import ABSENT, Operation, Patch, PatchBatch
from deltaic.wire.references import Index, MapKey, Parent, Reference
from deltaic.wire.vectors import VectorDelta

MOST_SECONDS = 5.0
MOST_BYTES = 3 << 30
HOSTILE = (0, 1, 2, 7, 8, 9, 0x20, 0x21, 0x3F, 0x40, 0x7F, 0x80, 0xC0, 0xDD, 0xFE, 0xFF)


def frames() -> list[bytes]:
    """Frames that hold all that there is, not packed."""
    delta = VectorDelta(6, np.array([1, 4], np.uint32), np.array([0.5, 2], np.float32).view(np.uint32))
    patches = [
        *(Patch("Movie", key, "year", 1900 + key * key) for key in range(40)),
        *(Patch("Movie", (f"k{key}", key), "title", f"text ä {key}", previous="x") for key in range(20)),
        *(Patch("Movie", key, f"cast[{key}].name", None if key % 3 else "n") for key in range(9)),
        *(
            Patch("Movie", key, f'ratings{{"k{key}"}}.score', key / 7, timestamp=key << 20, source="eu")
            for key in range(9)
        ),
        *(Patch("Movie", key, f"tags[{key}:{key + 3}]", ["a", None, {"b": [1.5]}]) for key in range(5)),
        *(Patch("Movie", key, f"tags[{key},{key + 9}]", b"\0\xff") for key in range(5)),
        *(Patch("Movie", key, f"tags[{key}:{key + 2},40:50]", bool(key % 2)) for key in range(5)),
        *(Patch("Movie", key, Reference(3, 7, (Parent(2), Index(key), MapKey("x"))), 5) for key in range(4)),
        *(Patch("Movie", key, "embedding", delta, operation=Operation.VECTOR) for key in range(6)),
        *(Patch("Movie", key, value={"id": key}, operation=Operation.PUT, previous=ABSENT) for key in range(3)),
        Patch("Movie", 99, operation=Operation.REMOVE),
        Patch("Note", None, value={"text": "x"}, operation=Operation.REMOVE),
    ]
    whole = PatchBatch.of(patches)
    small = [PatchBatch((group,), whole.sources) for group in whole.groups]
    return [batch.to_bytes(compress=False) for batch in (whole, *small)]


def framed(body: bytes, flags: int = 0) -> bytes:
    head = b"DPAT" + bytes((1, flags, 0, 0)) + len(body).to_bytes(4, "little") * 2
    return head + crc.crc32c(body, crc.crc32c(head, 0)).to_bytes(4, "little") + body


def damaged(data: bytes, random: Random) -> bytes:
    whole = random.random() < 0.2
    body = bytearray(data if whole else data[20:])
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(body))
        match random.randrange(6):
            case 0:
                body[at] ^= 1 << random.randrange(8)
            case 1:
                body[at] = random.choice(HOSTILE)
            case 2:
                body[at:at] = random.randbytes(random.randint(1, 8))
            case 3:
                del body[at : at + random.randint(1, 12)]
            case 4:
                body[at : at + 5] = bytes((0xFF, 0xFF, 0xFF, 0xFF, random.choice((0x0F, 0x7F))))
            case _:
                start = random.randrange(len(body))
                body[at:at] = body[start : start + random.randint(1, 30)]
        body = body or bytearray(b"\0")
    return bytes(body) if whole else framed(bytes(body))


def outcome(data: bytes) -> str:
    try:
        batch = PatchBatch.from_bytes(data)
        patches = list(batch)
        assert len(patches) == len(batch)
        batch.to_bytes()
    except (DecodeError, RegistryError) as error:
        return error.code
    return "read"


def main() -> None:
    start, stop = int(sys.argv[1]), int(sys.argv[2])
    targets = frames()
    for target in targets:
        assert outcome(target) == "read"
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    endings: Counter[str] = Counter()
    failures: list[Any] = []
    for seed in range(start, stop):
        random = Random(seed)
        data = damaged(random.choice(targets), random)
        began = time.process_time()
        try:
            endings[outcome(data)] += 1
        except BaseException as error:  # whatever it is, it is a failure with a seed
            failures.append([seed, f"{type(error).__name__}: {error}"[:300]])
        if time.process_time() - began > MOST_SECONDS:
            failures.append([seed, "took too long"])
    print(json.dumps({"endings": dict(endings), "failures": failures}))


if __name__ == "__main__":
    main()
