"""Vector deltas of a column: bytes and microseconds per row, beside ADR-DB-002's tables, zstd, XOR, z4ai and Lance.

    python benchmarks/vectors.py [--rows 100000] [--dims 384] [--rounds 5] [--published 200000] [--json FILE]

Unit vectors of float32; each pattern changes every row. *frames* are batch frames without compression, *zstd* the same
compressed, relative where that is smaller (`smaller_form`). Encode is from two matrices to bytes, decode from bytes to
checked arrays, apply from arrays into the matrix; what they give is compared bit by bit. Times are the best of the
rounds in CPU time of one process. z4ai and zstd take the matrix; Lance has no deltas and writes the rows that changed
(wall time; zstd is asked for, and does nothing to its lists of floats). The dictionary's own file counts as bytes sent.
What is not installed is left out, with a word. Last a chain is published and refreshed for real (`--published` rows,
0: not): what the delta and its vector part take beside whole vectors. `--rows 0` does only that.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _published_vectors import published_refresh
from harness import machine
from numpy.typing import NDArray

from deltaic.kernels import COMPILED, vectors
from deltaic.storage.decompress import Codec, compress, decompress
from deltaic.wire.vectors import (
    DictionaryKeeper,
    EncodeOptions,
    Packing,
    apply_batch,
    encode_batch,
    encode_message,
    read_frames,
    read_message,
    smaller_form,
)

Matrix = NDArray[np.float32]

# ADR-DB-002, "benchmarks" (M2, 384 dimensions; no code behind it): bytes of the best format; encode, decode, apply
DOCUMENT = {
    "sparse 5 %": (152, 1.2, 0.3, 0.4),
    "sparse 10 %": (304, 2.1, 0.5, 0.8),
    "run of 50": (208, 1.8, 0.4, 0.5),
    "scattered 50 %": (1536, None, None, None),
    "full": (1536, 0.2, 0.1, 0.3),
}
DOCUMENT_MODES = {"f16": (768, 0.8, 0.4, 0.6), "int8": (384, 1.2, 0.6, 0.9)}
AIM_ENCODE, AIM_DECODE_APPLY, AIM_COMPRESSED = 0.6, 0.15, 0.45


@dataclass
class Figure:
    """One way to carry one pattern."""

    size: float = 0.0
    encode: float = float("inf")
    decode: float = float("inf")
    apply: float = float("inf")
    extra: dict[str, Any] = field(default_factory=dict)

    def take(self, rows: int, data_bytes: int, *seconds: float) -> None:
        self.size = data_bytes / rows
        names = ("encode", "decode", "apply")
        for name, value in zip(names, seconds, strict=False):
            setattr(self, name, min(getattr(self, name), value * 1e6 / rows))


def patterns(rows: int, dims: int) -> dict[str, Callable[[], tuple[Matrix, Matrix]]]:
    random = np.random.default_rng(1)
    old = random.standard_normal((rows, dims), dtype=np.float32)
    old /= np.linalg.norm(old, axis=1, keepdims=True)

    def fresh(*shape: int) -> Matrix:
        return random.standard_normal(shape, dtype=np.float32) / np.sqrt(np.float32(dims))

    def scattered(count: int) -> tuple[Matrix, Matrix]:
        new = old.copy()
        places = np.argpartition(random.random((rows, dims), dtype=np.float32), count, axis=1)[:, :count]
        np.put_along_axis(new, places, fresh(rows, count), axis=1)
        return old, new

    def run(count: int) -> tuple[Matrix, Matrix]:
        new = old.copy()
        places = random.integers(0, dims - count, rows)[:, None] + np.arange(count)
        np.put_along_axis(new, places, fresh(rows, count), axis=1)
        return old, new

    def recurring() -> tuple[Matrix, Matrix]:
        new = old.copy()
        which = random.integers(0, 64, rows)
        for number in range(64):
            places = np.sort(random.choice(dims, 20, replace=False))
            new[np.flatnonzero(which == number)[:, None], places] = fresh(20)
        return old, new

    def noise() -> tuple[Matrix, Matrix]:
        return old, old * (1 + np.float32(1e-3) * random.standard_normal((rows, dims), dtype=np.float32))

    return {
        "sparse 5 %": lambda: scattered(round(0.05 * dims)),
        "sparse 10 %": lambda: scattered(round(0.1 * dims)),
        "run of 50": lambda: run(50),
        "scattered 50 %": lambda: scattered(dims // 2),
        "noise 1e-3": noise,
        "scale and shift": lambda: (old, old * np.float32(1.01) + np.float32(1e-3)),
        "dictionary": recurring,
        "full": lambda: (old, fresh(rows, dims)),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def ours(
    old: Matrix, new: Matrix, options: EncodeOptions, rounds: int, dictionary: Any, *, lossy: bool = False
) -> Figure:
    figure = Figure()
    matrix = old.copy()
    for _ in range(rounds):
        encode, data = timed(lambda: encode_batch(old, new, options=options, dictionary=dictionary))
        decode, frames = timed(lambda data=data: list(read_frames(data, dictionaries=dictionary)))
        matrix[:] = old
        apply, _ = timed(lambda frames=frames: apply_batch(frames, matrix, in_place=True))
        shipped = len(data) + (0 if dictionary is None else len(dictionary.to_bytes()))
        figure.take(len(old), shipped, encode, decode, apply)
    if lossy:
        return figure
    if matrix.tobytes() != new.tobytes():
        raise SystemExit("what was applied is not what was encoded")
    return figure


def of_xor(old: Matrix, new: Matrix, rounds: int) -> Figure:
    figure = Figure()
    for _ in range(rounds):
        encode, data = timed(
            lambda: compress(
                vectors.to_planes((old.view(np.uint32) ^ new.view(np.uint32)).view(np.uint8).reshape(-1), 4), Codec.ZSTD
            )
        )

        def back(data: bytes = data) -> Matrix:
            raw = decompress(data, Codec.ZSTD, old.nbytes)
            words = vectors.from_planes(np.frombuffer(raw, np.uint8), 4).view(np.uint32).reshape(old.shape)
            return (words ^ old.view(np.uint32)).view(np.float32)

        decode, result = timed(back)
        figure.take(len(old), len(data), encode, decode, 0.0)
    assert result.tobytes() == new.tobytes()
    return figure


def of_zstd(old: Matrix, new: Matrix, rounds: int) -> Figure:
    figure = Figure()
    raw = new.tobytes()
    for _ in range(rounds):
        encode, data = timed(lambda: compress(raw, Codec.ZSTD))
        decode, _ = timed(lambda data=data: decompress(data, Codec.ZSTD, len(raw)))
        figure.take(len(old), len(data), encode, decode, 0.0)
    return figure


def of_z4ai(old: Matrix, new: Matrix, rounds: int) -> Figure:
    import z4ai

    figure = Figure()
    for _ in range(min(rounds, 2)):
        encode, data = timed(lambda: z4ai.compress_delta(new, old, threads=1))
        decode, _ = timed(lambda data=data: z4ai.decompress_delta(data, old))
        figure.take(len(old), len(data), encode, decode, 0.0)
    return figure


def of_lance(old: Matrix, new: Matrix, rounds: int) -> Figure:
    import lance
    import pyarrow as pa

    metadata = {
        "lance-encoding:compression": "zstd",
        "lance-encoding:compression-level": "3",
        "lance-encoding:bss": "on",
    }
    changed = np.flatnonzero((old.view(np.uint32) != new.view(np.uint32)).any(axis=1))
    values = pa.FixedSizeListArray.from_arrays(pa.array(new[changed].reshape(-1)), new.shape[1])
    schema = pa.schema([pa.field("row", pa.int64()), pa.field("vector", values.type, metadata=metadata)])
    table = pa.table([pa.array(changed), values], schema=schema)
    figure = Figure()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(min(rounds, 2)):
            path = Path(folder) / f"{number}.lance"
            start = time.perf_counter()
            lance.write_dataset(table, str(path), data_storage_version="2.1")
            encode = time.perf_counter() - start
            start = time.perf_counter()
            lance.dataset(str(path)).to_table()
            decode = time.perf_counter() - start
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            figure.take(len(old), size, encode, decode, 0.0)
    return figure


RIVALS = {"zstd of new": of_zstd, "XOR, planes, zstd": of_xor, "z4ai delta": of_z4ai, "Lance rows": of_lance}


def shown(value: float | None) -> str:
    return "-" if value is None or value == float("inf") else f"{value:,.2f}"


def line(name: str, figure: Figure, note: str = "") -> None:
    times = (figure.encode, figure.decode, figure.apply, figure.decode + figure.apply)
    print(f"  {name:<22} {figure.size:>10,.1f} {' '.join(f'{shown(value):>8}' for value in times)}  {note}")


def heading(text: str) -> None:
    print(f"\n{text}\n  {'':<22} {'B/row':>10} {'encode':>8} {'decode':>8} {'apply':>8} {'d + a':>8}  µs/row")


def one_pattern(name: str, old: Matrix, new: Matrix, rounds: int) -> dict[str, Any]:
    heading(name)
    dictionary = learned(old, new) if name == "dictionary" else None
    figures = {"frames": ours(old, new, EncodeOptions(), rounds, dictionary)}
    form = EncodeOptions(compression=Packing.ZSTD) if dictionary else smaller_form(old, new)
    figures["frames, zstd"] = ours(old, new, form, rounds, dictionary)
    line("frames", figures["frames"])
    line("frames, zstd", figures["frames, zstd"], "relative" if form.relative else "absolute")
    for rival, measure in RIVALS.items():
        try:
            figures[rival] = measure(old, new, rounds)
        except ImportError as error:
            print(f"  {rival:<22} not installed ({error.name})")
            continue
        line(rival, figures[rival])
    if name in DOCUMENT:
        size, *times = DOCUMENT[name]
        print(f"  {'ADR-DB-002 (M2, Rust)':<22} {size:>10,.1f} {' '.join(f'{shown(value):>8}' for value in times)}")
    return {rival: vars(figure) for rival, figure in figures.items()}


def learned(old: Matrix, new: Matrix) -> Any:
    """The dictionary of a keeper that saw some rows."""
    keeper = DictionaryKeeper(old.shape[1], dict_id=7)
    for row in range(min(2_000, len(old))):
        keeper.observe(read_message(encode_message(old[row], new[row])).delta)
    return keeper.publish().dictionary


def quality(dims: int, rounds: int) -> dict[str, Any]:
    """What the modes lose: the worst and the mean error, and the recall of exact search over what was decoded."""
    random = np.random.default_rng(2)
    centres = random.standard_normal((200, dims), dtype=np.float32)
    vectors_ = centres[random.integers(0, 200, 20_000)] + 0.5 * random.standard_normal((20_000, dims), dtype=np.float32)
    vectors_ /= np.linalg.norm(vectors_, axis=1, keepdims=True)
    queries = vectors_[:200] + 0.02 * random.standard_normal((200, dims), dtype=np.float32)
    truth = np.argsort(-(queries @ vectors_.T), axis=1)[:, :10]
    base = np.zeros_like(vectors_)
    heading("quality of full rows, 20,000 clustered unit vectors")
    found: dict[str, Any] = {}
    for mode in ("none", "f16", "int8", "int4"):
        options = EncodeOptions(quantization=mode)
        figure = ours(base, vectors_, options, rounds, None, lossy=mode != "none")
        decoded = apply_batch(encode_batch(base, vectors_, options=options), base)
        near = np.argsort(-(queries @ decoded.T), axis=1)[:, :10]
        recall = float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(truth.tolist(), near.tolist(), strict=True)]))
        error = np.abs(decoded.astype(np.float64) - vectors_)
        relative = float(np.linalg.norm(decoded - vectors_) / np.linalg.norm(vectors_))
        line(mode, figure, f"worst error {error.max():.2e}, relative {100 * relative:.4f} %, recall@10 {recall:.4f}")
        found[mode] = vars(figure) | {"worst": float(error.max()), "relative": relative, "recall": recall}
        if mode in DOCUMENT_MODES:
            size, *times = DOCUMENT_MODES[mode]
            print(f"  {'  ADR-DB-002':<22} {size:>10,.1f} {' '.join(f'{shown(value):>8}' for value in times)}")
    return found


def verdicts(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    sparse = results["sparse 5 %"]
    plain, packed = sparse["frames"], sparse["frames, zstd"]
    made: list[tuple[str, float, float]] = [
        ("5 %, uncompressed: encode, µs/row", plain["encode"], AIM_ENCODE),
        ("5 %, uncompressed: decode and apply, µs/row", plain["decode"] + plain["apply"], AIM_DECODE_APPLY),
        ("5 %, compressed: decode and apply, µs/row", packed["decode"] + packed["apply"], AIM_COMPRESSED),
    ]
    smallest = 0
    for name, figures in results.items():
        best = min(figure["size"] for rival, figure in figures.items() if rival in RIVALS)
        ratio = figures["frames, zstd"]["size"] / best
        smallest += ratio <= 1
        made.append((f"{name}, compressed: size beside the best rival's", ratio, 1.02))
    made.append(("patterns on which ours is not the smallest", len(results) - smallest, len(results) - 4))
    print()
    for what, value, aim in made:
        print(f"{what:<62} {value:>8.3f}  aim ≤ {aim:g}  {'met' if value <= aim else 'MISSED'}")
    return [{"what": what, "value": value, "aim": aim, "met": value <= aim} for what, value, aim in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--published", type=int, default=200_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    about = machine()
    kernels = "compiled" if COMPILED else "plain"
    print(
        f"{arguments.rows:,} × {arguments.dims} float32, {kernels} kernels, "
        f"{about['processor']}, load {about['load']:.1f}"
    )
    results: dict[str, dict[str, Any]] = {}
    lost: dict[str, Any] = {}
    aims: list[dict[str, Any]] = []
    if arguments.rows:
        for name, make in patterns(arguments.rows, arguments.dims).items():
            results[name] = one_pattern(name, *make(), arguments.rounds)
        lost = quality(arguments.dims, arguments.rounds)
        aims = verdicts(results)
    if arguments.published:
        aims += published_refresh(arguments.published, arguments.dims)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": about, "patterns": results, "quality": lost, "aims": aims}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
