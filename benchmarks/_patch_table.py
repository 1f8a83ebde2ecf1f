"""What is measured of patches, for deltaic and its rivals alike, and the table that shows it."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from _patch_rivals import PatchData, Rival

from deltaic.storage.decompress import Codec, compress

AIM_SHARE, AIM_APPLIED, AIM_VISIBLE_SECONDS = 0.2, 500_000, 2.0
_LINE = "{:<34} {:>12} {:>12} {:>13} {:>13} {:>16}  {}"


@dataclass
class PatchRow:
    """One way to send all patches. Seconds are CPU time of one process, the best of the rounds."""

    name: str
    size_bytes: int
    """As it is sent."""
    packed_bytes: int | None = None
    """The same with zstd around it; None if it is packed already."""
    encode_seconds: float | None = None
    decode_seconds: float | None = None
    applied_seconds: float | None = None
    """Decoding and applying together."""
    visible_seconds: float | None = None
    """Wall time until a follower shows all of them."""
    note: str = ""


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of some work, and what it gave."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def rival_row(rival: Rival, data: PatchData, rounds: int) -> PatchRow:
    """Measure one rival; what it leaves is compared with what the changes lead to."""
    encode, decode, apply = [], [], []
    for _ in range(rounds):
        seconds, sent = cpu_seconds(partial(rival.encode, data.changes))
        encode.append(seconds)
        seconds, decoded = cpu_seconds(partial(rival.decode, sent))
        decode.append(seconds)
        world = rival.world(data.movies)
        seconds, _ = cpu_seconds(partial(rival.apply, decoded, world))
        apply.append(seconds)
        for key, movie in data.after.items():
            assert rival.movie(world, key) == movie, f"{rival.name} leaves another movie {key}"
    packed = len(compress(sent, Codec.ZSTD))
    return PatchRow(rival.name, len(sent), packed, min(encode), min(decode), min(decode) + min(apply), None, rival.note)


def print_rows(rows: list[PatchRow], patches: int) -> dict[str, Any]:
    """Print the table and which aims are met; give it as data."""
    print(
        _LINE.format("100,000 patches" if patches == 100_000 else f"{patches:,} patches", "bytes each", "with zstd",
                     "encoded/s", "decoded/s", "and applied/s", "")
    )  # fmt: skip
    for row in rows:
        seconds = (row.encode_seconds, row.decode_seconds, row.applied_seconds)
        rates = ("-" if one is None else f"{patches / one / 1e3:,.0f} k" for one in seconds)
        packed = "-" if row.packed_bytes is None else f"{row.packed_bytes / patches:.1f}"
        print(_LINE.format(row.name, f"{row.size_bytes / patches:.1f}", packed, *rates, row.note))
    ours = [row for row in rows if row.name.startswith("deltaic")]
    theirs = next((row for row in rows if row.name == "JSON Patch"), None)
    lines = []
    if ours and theirs is not None:
        share = min(row.size_bytes for row in ours) / theirs.size_bytes
        lines.append((f"bytes beside JSON Patch: {share:.1%}", f"≤ {AIM_SHARE:.0%}", share <= AIM_SHARE))
        if theirs.packed_bytes:
            small = min(min(row.size_bytes, row.packed_bytes or row.size_bytes) for row in ours) / theirs.packed_bytes
            lines.append((f"bytes beside JSON Patch with zstd: {small:.1%}", "", None))
    applied = [row.applied_seconds for row in ours if row.applied_seconds]
    if applied:
        rate = patches / min(applied)
        lines.append((f"decoded and applied: {rate / 1e3:,.0f} k/s", "≥ 500 k/s", rate >= AIM_APPLIED))
    visible = [row.visible_seconds for row in ours if row.visible_seconds]
    if visible:
        seconds_now = min(visible)
        lines.append((f"visible in a follower: {seconds_now:.2f} s", "< 2 s", seconds_now < AIM_VISIBLE_SECONDS))
    for text, aim, met in lines:
        print(f"  {text:<48} {aim:<12} {'' if met is None else 'met' if met else 'MISSED'}")
    return {"rows": [asdict(row) for row in rows], "aims": [list(line) for line in lines]}
