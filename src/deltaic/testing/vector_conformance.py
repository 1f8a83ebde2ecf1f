"""Conformance with recorded vector deltas: every case of every file, a line per case.

A folder holds files `{"about": …, "cases": […]}` whose names say what is to be done with a case (varint, quantize,
encode, decode, malformed, apply, compose, inverse, select, dictionary, stream, refresh, batch and kin). Vectors are
compared as bits. A case has either results or the name of an error.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DeltaicError, InputError, MissingExtraError
from deltaic.testing.hollow_conformance import CaseResult, first_difference
from deltaic.wire.vectors import (
    Chain,
    Dictionary,
    DictionaryKeeper,
    EncodeOptions,
    Frame,
    Message,
    Mode,
    RefreshOptions,
    VectorDelta,
    apply_batch,
    encode_batch,
    encode_delta,
    encode_message,
    read_frame,
    read_message,
    read_stream,
)
from deltaic.wire.vectors.blocks import quantized_block, read_block
from deltaic.wire.vectors.heads import payload_sizes
from deltaic.wire.vectors.options import Flag, Quantization
from deltaic.wire.vectors.payload import PayloadReader, uleb

Json = Any
_MODES = {"none": Mode.F32, "f16": Mode.F16, "int8": Mode.INT8, "int4": Mode.INT4}


class _Mismatch(Exception):
    """A comparison that did not hold."""


@dataclass(slots=True)
class _Checker:
    """Counts comparisons and stops at the first that does not hold."""

    dictionary: Dictionary | None
    count: int = 0

    def equal(self, what: str, expected: Json, actual: Json) -> None:
        self.count += 1
        difference = first_difference(expected, actual)
        if difference is not None:
            raise _Mismatch(f"{what}: {difference}")

    def result(self, case: Json, work: Callable[[], Any]) -> Any:
        """What the work gives, or None if it ends in the error that the case names."""
        wanted = case.get("error")
        try:
            made = work()
        except MissingExtraError:
            raise
        except DeltaicError as error:
            self.equal("error", wanted, getattr(error, "code", type(error).__name__))
            return None
        self.equal("error", wanted, None)
        return made


def run_folder(folder: Path) -> Iterator[CaseResult]:
    """Run every case of every file of a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    files = sorted(path for path in folder.glob("*.json") if path.is_file())
    if not any(path.stem in _CHECKS for path in files):
        raise InputError(f"{folder} holds no case: none of {', '.join(sorted(_CHECKS))} as .json")
    dictionary = _shared_dictionary(folder)
    for path in files:
        yield from _run_file(path, dictionary)


def _run_file(path: Path, dictionary: Dictionary | None) -> Iterator[CaseResult]:
    check = _CHECKS.get(path.stem)
    if check is None:
        yield CaseResult(path.stem, 0, skipped="no kind of case that is known")
        return
    try:
        cases = json.loads(path.read_bytes())["cases"]
    except (ValueError, KeyError, TypeError) as error:
        yield CaseResult(path.stem, 0, failure=f"no file of cases: {type(error).__name__}: {error}")
        return
    for case in cases:
        yield run_case(path.stem, case, dictionary)


def run_case(kind: str, case: Mapping[str, Json], dictionary: Dictionary | None = None) -> CaseResult:
    """Run one case of a kind."""
    name = f"{kind}/{case.get('name', '?')}"
    checker = _Checker(dictionary)
    try:
        _CHECKS[kind](case, checker)
    except MissingExtraError as error:
        return CaseResult(name, checker.count, skipped=str(error))
    except (_Mismatch, DeltaicError, ValueError, KeyError, TypeError, IndexError) as error:
        return CaseResult(name, checker.count, failure=f"{type(error).__name__.lstrip('_')}: {error}")
    return CaseResult(name, checker.count)


def _shared_dictionary(folder: Path) -> Dictionary | None:
    """The dictionary that cases of other files are read with: the case `file` of dictionary.json."""
    try:
        cases = json.loads((folder / "dictionary.json").read_bytes())["cases"]
        return Dictionary.read(next(_bytes(case["dictionary"]) for case in cases if case["name"] == "file"))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)


def _words(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(_bytes(text), "<u4").astype(np.uint32)


def _vector(text: str) -> NDArray[np.float32]:
    return _words(text).view(np.float32)


def _hex(array: NDArray[Any]) -> str:
    return array.tobytes().hex()


def _delta(text: str, checker: _Checker) -> VectorDelta:
    return read_message(_bytes(text), dictionaries=checker.dictionary).delta


def _shown(delta: VectorDelta) -> Json:
    return {
        "dims": delta.dims,
        "indices": delta.indices.tolist(),
        "relative": delta.relative,
        "words": _hex(delta.words),
        "prev": None if delta.prev is None else _hex(delta.prev),
    }


def _recorded(delta: Json) -> Json:
    words = next(delta[name] for name in ("words_u32le", "values_f32le", "differences_u32le") if name in delta)
    return {name: delta[name] for name in ("dims", "indices", "relative")} | {
        "words": words,
        "prev": delta["prev_f32le"],
    }


def _check_varint(case: Json, checker: _Checker) -> None:
    reader = PayloadReader(_bytes(case["hex"]), "number")
    value = checker.result(case, reader.uleb32 if case["bits"] == 32 else reader.uleb64)
    if value is not None:
        checker.equal("value", case["value"], value)
        checker.equal("bytes that are left", 0, reader.remaining)
        checker.equal("bytes", case["hex"], uleb(case["value"]).hex())


def _check_quantize(case: Json, checker: _Checker) -> None:
    mode, words = _MODES[case["mode"]], _words(case["values_f32le"])
    block = quantized_block(words, mode)
    checker.equal("block", case["block"], None if block is None else bytes(block).hex())
    if case["block"] is not None:
        reader = PayloadReader(_bytes(case["block"]), "block")
        checker.equal("decoded", case["decoded_f32le"], _hex(read_block(reader, len(words), mode)))
        checker.equal("bytes that are left", 0, reader.remaining)


def _check_encode(case: Json, checker: _Checker) -> None:
    old, new = _vector(case["old_f32le"]), _vector(case["new_f32le"])
    message = checker.result(case, lambda: encode_message(old, new, EncodeOptions(**case["options"])))
    if message is None:
        return
    checker.equal("message", case["message"], message.hex())
    if "delta" in case:
        delta = read_message(message).delta
        checker.equal("delta", _recorded(case["delta"]), _shown(delta))
        checker.equal("result", case["result_f32le"], _hex(delta.apply(old)))


def _check_decode(case: Json, checker: _Checker) -> None:
    data = _bytes(case["message"])
    message: Message | None = checker.result(case, lambda: read_message(data, dictionaries=checker.dictionary))
    if message is None:
        return
    recorded = case["delta"]
    checker.equal("delta", _recorded(recorded), _shown(message.delta))
    for name, value in (("version", message.version), ("format", int(message.format)), ("flags", message.flags)):
        if name in recorded:
            checker.equal(name, recorded[name], value)
    if "base_f32le" in case:
        checker.equal("result", case["result_f32le"], _hex(message.delta.apply(_vector(case["base_f32le"]))))


def _check_apply(case: Json, checker: _Checker) -> None:
    delta, base = _delta(case["message"], checker), _vector(case["base_f32le"])
    before = base.copy()
    result = checker.result(case, lambda: delta.apply(base, check_prev=case["check_prev"]))
    checker.equal("the base afterwards", _hex(before), _hex(base))
    if result is not None:
        checker.equal("result", case["result_f32le"], _hex(result))


def _check_compose(case: Json, checker: _Checker) -> None:
    first, second = _delta(case["first"], checker), _delta(case["second"], checker)
    composed = checker.result(case, lambda: first.then(second, prune=case["prune"]))
    if composed is None:
        return
    checker.equal("delta", _recorded(case["delta"]), _shown(composed))
    checker.equal("message", case["message"], encode_delta(composed).hex())
    base = _vector(case["base_f32le"])
    checker.equal("result", case["result_f32le"], _hex(composed.apply(base)))


def _check_chain(case: Json, checker: _Checker) -> None:
    deltas = [_delta(message, checker) for message in case["messages"]]
    composed = reduce(lambda first, second: first.then(second), deltas)
    other_way = reduce(lambda second, first: first.then(second), reversed(deltas))
    checker.equal("delta", _recorded(case["delta"]), _shown(composed))
    checker.equal("delta in another grouping", _recorded(case["delta"]), _shown(other_way))
    checker.equal("message", case["message"], encode_delta(composed).hex())
    base = _vector(case["base_f32le"])
    checker.equal("result", case["result_f32le"], _hex(composed.apply(base)))
    if "inverse_message" in case:
        inverse = composed.inverse()
        checker.equal("inverse", case["inverse_message"], encode_delta(inverse).hex())
        checker.equal("way back", case["base_f32le"], _hex(inverse.apply(composed.apply(base))))


def _check_inverse(case: Json, checker: _Checker) -> None:
    delta = _delta(case["message"], checker)
    inverse = checker.result(case, delta.inverse)
    if inverse is None:
        return
    checker.equal("inverse", _recorded(case["inverse"]), _shown(inverse))
    checker.equal("message", case["inverse_message"], encode_delta(inverse).hex())
    applied = delta.apply(_vector(case["base_f32le"]))
    checker.equal("applied", case["applied_f32le"], _hex(applied))
    checker.equal("way back", case["base_f32le"], _hex(inverse.apply(applied)))


def _check_select(case: Json, checker: _Checker) -> None:
    dims, indices = case["dims"], np.array(case["indices"], np.uint32)
    sizes = payload_sizes(dims, indices, _MODES[case["quantization"]])
    actual = {"sparse": sizes.sparse, "dense": sizes.dense, "rle": sizes.runs}
    checker.equal("sizes", case["payload_sizes"], actual)
    old = np.linspace(0, 1, dims, dtype=np.float32)
    new = old.copy()
    new[indices] += np.float32(2)
    options = EncodeOptions(selection=case["selection"], quantization=case["quantization"])
    message = encode_message(old, new, options)
    read = read_message(message)
    checker.equal("format", case["format"], int(read.format))
    name = ("sparse", "dense", "rle")[read.format]
    checker.equal("bytes", case["payload_sizes"][name] + 13, len(message))


def _check_dictionary(case: Json, checker: _Checker) -> None:
    if "steps" in case:
        _check_upkeep(case, checker)
    elif "dictionary" in case:
        read = checker.result(case, lambda: Dictionary.read(_bytes(case["dictionary"])))
        if read is not None:
            _check_dictionary_file(case, read, checker)
    else:
        if "old_f32le" in case:
            old, new = _vector(case["old_f32le"]), _vector(case["new_f32le"])
            message = encode_message(old, new, EncodeOptions(**case["options"]), dictionary=checker.dictionary)
            checker.equal("message", case["message"], message.hex())
        _check_decode(case, checker)


def _check_dictionary_file(case: Json, read: Dictionary, checker: _Checker) -> None:
    numbers = ("dict_id", read.dict_id), ("version", read.version), ("dims", read.dims)
    for name, value in (*numbers, ("next_pattern_id", read.next_pattern_id)):
        checker.equal(name, case[name], value)
    patterns = {
        str(number): {"indices": pattern.indices.tolist(), "values_f32le": _hex(pattern.words)}
        for number, pattern in read.patterns.items()
    }
    checker.equal("patterns", case["patterns"], patterns)
    checker.equal("file", case["dictionary"], read.to_bytes().hex())


def _check_upkeep(case: Json, checker: _Checker) -> None:
    dict_id = Dictionary.read(_bytes(case["dictionary"])).dict_id
    settings = {"capacity": case["capacity"], "admit_after": case["admit_after"]}
    keeper = DictionaryKeeper(case["dims"], dict_id=dict_id, **settings)
    patterns = [
        VectorDelta(case["dims"], np.array(pattern["indices"], np.uint32), _words(pattern["values_f32le"]))
        for pattern in case["patterns"]
    ]
    for place, step in enumerate(case["steps"]):
        if "observe" in step:
            checker.equal(f"step {place}", step["pattern_id"], keeper.observe(patterns[step["observe"]]))
            continue
        done = keeper.publish()
        actual = {"version": done.dictionary.version, "added": list(done.added), "evicted": list(done.evicted)}
        checker.equal(f"step {place}", {name: step[name] for name in actual}, actual)
    checker.equal("file", case["dictionary"], keeper.current().to_bytes().hex())


def _check_stream(case: Json, checker: _Checker) -> None:
    data = _bytes(case["stream"])
    offsets: list[int] = []
    error: Json = None
    end = 0
    try:
        for start, message in read_stream(data):
            offsets.append(start)
            end = start + message.size_bytes
    except DeltaicError as raised:
        error = {"class": getattr(raised, "code", type(raised).__name__), "offset": end}
    checker.equal("offsets", case["offsets"], offsets)
    checker.equal("error", case["error"], error)


def _check_refresh(case: Json, checker: _Checker) -> None:
    chain = Chain(case["chain_length"], case["chain_bytes"], case["drift"])
    checker.equal("due", case["refresh"], chain.refresh_due(case["dims"], RefreshOptions(**case["options"])))


def _rows(frame: Frame) -> list[Json]:
    rows = [{"row_id": row_id, "section": int(form)} | _shown(delta) for row_id, form, delta in frame.rows()]
    return sorted(rows, key=lambda row: int(row["row_id"]))


def _check_batch(case: Json, checker: _Checker) -> None:
    data = _bytes(case["frame"])
    dictionary = Dictionary.read(_bytes(case["dictionary"])) if "dictionary" in case else None
    frame: Frame | None = checker.result(case, lambda: read_frame(data, dictionaries=dictionary))
    if frame is None:
        return
    recorded = [{name: row[name] for name in ("row_id", "section")} | _recorded(row) for row in case["rows"]]
    checker.equal("rows", sorted(recorded, key=lambda row: int(row["row_id"])), _rows(frame))
    if "bases_f32le" in case:
        _check_batch_applied(case, data, frame, dictionary, checker)


def _check_batch_applied(
    case: Json, data: bytes, frame: Frame, dictionary: Dictionary | None, checker: _Checker
) -> None:
    numbers = sorted(case["bases_f32le"], key=int)
    ids = np.array([int(number) for number in numbers], np.int64)
    old = np.stack([_vector(case["bases_f32le"][number]) for number in numbers])
    new = apply_batch(data, old, row_ids=ids, check_prev=True, dictionaries=dictionary)
    changed = {str(row["row_id"]) for row in case["rows"]}
    for number, before, after in zip(numbers, old, new, strict=True):
        expected = case["results_f32le"][number] if number in case["results_f32le"] else _hex(before)
        checker.equal(f"row {number}", expected, _hex(after))
        checker.equal(f"row {number} changed", number in changed, _hex(before) != _hex(after))
    # What quantized rows were made of is not recorded; compressed bytes depend on the library.
    if frame.mode is Mode.F32 and not any(entry.codec for entry in frame.directory):
        options = EncodeOptions(include_prev=frame.has_prev, relative=frame.relative)
        checker.equal("frame", case["frame"], encode_batch(old, new, ids, options=options, dictionary=dictionary).hex())


def _check_batch_random(case: Json, checker: _Checker) -> None:
    ids = np.array([row["row_id"] for row in case["rows"]], np.int64)
    old = np.stack([_vector(row["old_f32le"]) for row in case["rows"]])
    new = np.stack([_vector(row["new_f32le"]) for row in case["rows"]])
    options = EncodeOptions(**case["options"])
    data = encode_batch(old, new, ids, options=options)
    checker.equal("frame", case["frame"], data.hex())
    frame = read_frame(data)
    quantized = options.quantization is not Quantization.NONE and not options.relative
    checker.equal("quantized", quantized, bool(frame.flags & Flag.QUANTIZED))
    sections = {row["row_id"]: row["section"] for row in _rows(frame)}
    checker.equal("sections", {str(row["row_id"]): row["section"] for row in case["decoded"]}, _texts(sections))
    result = apply_batch(frame, old, row_ids=ids)
    for row in case["decoded"]:
        place = int(np.searchsorted(ids, row["row_id"]))
        checker.equal(f"row {row['row_id']}", row["result_f32le"], _hex(result[place]))


def _texts(numbers: Mapping[int, int]) -> Json:
    return {str(number): value for number, value in numbers.items()}


_CHECKS: dict[str, Callable[[Json, _Checker], None]] = {
    "varint": _check_varint,
    "quantize": _check_quantize,
    "encode": _check_encode,
    "encode_random": _check_encode,
    "decode": _check_decode,
    "decode_damaged": _check_decode,
    "malformed": _check_decode,
    "apply": _check_apply,
    "compose": _check_compose,
    "compose_random": _check_chain,
    "inverse": _check_inverse,
    "select": _check_select,
    "dictionary": _check_dictionary,
    "stream": _check_stream,
    "refresh": _check_refresh,
    "batch": _check_batch,
    "batch_damaged": _check_batch,
    "batch_malformed": _check_batch,
    "batch_random": _check_batch_random,
}
