"""One fuzzing process for references: reads damaged bytes one after the other, and says what went wrong.

    python -m tests.fuzz.reference_driver mutations 0 20000     damage by the seeds 0 to 19999
    python -m tests.fuzz.reference_driver followed 0 500        the same with every allocation followed: slower

The answer is one line of JSON. With a last argument the number in work stands in the file of that name.
"""

import contextlib
import json
import os
import sys
import time
import traceback
import tracemalloc
from collections import Counter
from random import Random

from deltaic.errors import InputError, NotFoundError, RegistryError
from deltaic.schema.registry import Registry
from deltaic.wire.references import (
    Index,
    Indices,
    MapKey,
    Parent,
    Range,
    Ranges,
    Reference,
    ReferenceBlock,
    Unknown,
    decode_exact,
    decode_prefix,
    delete,
    encode,
    get,
    put,
    resolve,
)
from tests.unit.wire.references.independent_reader import read_block, read_reference

CODES = {"Truncated", "TrailingData", "NonCanonical", "ReservedParamType", "ParamLengthMismatch", "InvalidParam",
         "InvalidUtf8"}  # fmt: skip
MEANINGS = {"UnknownField", "UnknownVersion", "UnknownCriticalParam", "ParamKindMismatch", "UnboundParam"}
MOST_SECONDS = 2.0
MOST_FOLLOWED_BYTES = 8 << 20
CHECKED = os.environ.get("DELTAIC_CHECKED_KERNELS", "")
HOSTILE = (0, 1, 2, 3, 4, 5, 6, 7, 0x7F, 0x80, 0xBF, 0xC0, 0xED, 0xFF)
PATHS = ("a", "items[].name", "data{}", "list", "map", "matrix[][]", "[].price", "groups{}.members[]")
TYPES = (0, 4, 0, 7, 8, 3, 3, 0)
VALUE = {
    "a": {"k": [1]},
    "items": [{"name": 1}, {"name": {"k": 2}}],
    "data": {"k": [1, [2], {"k": 3}]},
    "list": [[1, 2], {"k": 4}],
    "map": {"k": {"k": 5}},
    "matrix": [[1, 2], [3]],
    "groups": {"k": {"members": [1, 2]}},
}


def _registry() -> Registry:
    registry = Registry(durability="none")
    registry.register_many(zip(PATHS, TYPES, strict=True))
    return registry


VIEW = _registry().view


def _parameters(random: Random) -> tuple:
    chosen = [Parent(random.randrange(len(PATHS))) for _ in range(random.choice((0, 0, 1, 2)))]
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        start = random.choice((0, 1, 100, 20_000))
        chosen.append(
            random.choice((
                Index(random.choice((0, 1, 2, 300, 70_000))),
                Range(start, start + random.choice((1, 2, 300))),
                Indices(tuple(random.sample(range(40), random.randint(1, 30)))),
                Ranges(tuple((at, at + 3) for at in random.sample(range(0, 90, 3), random.randint(1, 20)))),
                MapKey(random.choice(("k", "", "ключ", "\U0001f600" * 9))),
                Unknown(random.choice((7, 127, 128, 255)), random.randbytes(random.randrange(5))),
            ))
        )  # fmt: skip
    return tuple(chosen)


def sound(random: Random) -> tuple[str, bytes]:
    """A reference or a block, whole."""
    version = random.choice((0, 0, 0, 1, 65_535))
    rows = [
        Reference(version, random.choice((0, 1, 2, 3, 4, 5, 6, 7, 300, 70_000)), _parameters(random))
        for _ in range(random.choice((0, 1, 3, 20)))
    ]
    if random.random() < 0.5 and rows:
        return "reference", encode(rows[0])
    return "block", ReferenceBlock.of(version, rows).to_bytes()


def damaged(data: bytes, random: Random) -> bytes:
    """One to three kinds of damage."""
    made = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        at = random.randrange(len(made)) if made else 0
        match random.randrange(7):
            case 0 | 1 if made:
                made[at] ^= 1 << random.randrange(8)
            case 2 if made:
                made[at] = random.choice(HOSTILE)
            case 3 if made:
                made[random.randrange(min(len(made), 6))] = random.choice(HOSTILE)
            case 4:
                made[at:at] = random.randbytes(random.randint(1, 4))
            case 5:
                del made[at : at + random.randint(1, 4)]
            case _:
                other = random.randrange(len(made)) if made else 0
                made[at : at + 8] = made[other : other + 8]
    return bytes(made)


def use(reference: Reference) -> str:
    """Resolve, follow and write what was read."""
    assert decode_exact(encode(reference)) == reference
    try:
        address = resolve(reference, VIEW)
    except RegistryError as error:
        assert error.code in MEANINGS, error.code
        return error.code
    str(address)
    for work in (get, delete, lambda value, found: put(value, found, 0)):
        with contextlib.suppress(NotFoundError, InputError):
            work(VALUE, address)
    return "resolved"


def ending(kind: str, data: bytes) -> str:
    """How reading ends; both readers agree on it; whatever else is raised is a failure."""
    try:
        theirs = [read_reference(data)] if kind == "reference" else read_block(data)
    except ValueError:
        theirs = None
    started = time.process_time()
    try:
        if kind == "reference":
            found = [decode_exact(data)]
        else:
            block = ReferenceBlock.decode_exact(data)
            found = list(block)
            assert block.to_bytes() == data
            block.uses(), block.distinct()
    except RegistryError as error:
        assert error.code in CODES, error.code
        assert error.offset is not None and 0 <= error.offset <= len(data), error.offset
        assert theirs is None, "only the second reader reads it"
        return error.code
    finally:
        seconds = time.process_time() - started
        assert seconds < MOST_SECONDS * (8 if CHECKED or tracemalloc.is_tracing() else 1), f"took {seconds:.1f} s"
    assert theirs is not None, "only the second reader refuses it"
    assert [(one.version, one.index, [part.code for part in one.parameters]) for one in found] == [
        (version, index, [code for code, _ in parts]) for version, index, parts in theirs
    ]
    return max((use(reference) for reference in found), default="empty")


def main(plan: str, start: int, stop: int, progress: str = os.devnull) -> int:
    """Run one plan over a range of numbers."""
    endings: Counter[str] = Counter()
    failures = []
    note = os.open(progress, os.O_WRONLY)
    if plan == "followed":
        tracemalloc.start()
    for number in range(start, stop):
        os.pwrite(note, b"%-20d" % number, 0)
        random = Random(number)
        try:
            kind, data = sound(random)
            data = damaged(data, random)
            tracemalloc.reset_peak()
            endings[ending(kind, data)] += 1
            peak = tracemalloc.get_traced_memory()[1]
            assert peak < MOST_FOLLOWED_BYTES, f"took {peak:,} bytes for {len(data)}"
            if kind == "reference":
                decode_prefix_of(data)
        except Exception as error:
            failures.append([number, repr(error), "".join(traceback.format_exception(error)[-3:])])
            if len(failures) == 20:
                break
    print(json.dumps({"endings": endings, "failures": failures}))
    return 1 if failures else 0


def decode_prefix_of(data: bytes) -> None:
    """A reference in front of other bytes ends where it says, and is then exactly those bytes."""
    try:
        reference, end = decode_prefix(data)
    except RegistryError:
        return
    assert encode(reference) == data[:end]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
