"""Postings, positions and field norms, byte for byte as the engine writes them (index-table.md, 9.2.2).

What goes in is one row per token: its term, its document, its position. Lists below 128 entries, which are nearly all,
are written for all terms at once; longer ones have blocks of 128 numbers, packed in four lanes.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Record = Literal["basic", "freq", "position"]
"""What a field keeps of a term in a document: that it is there, how often, and where."""

BLOCK = 128
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one field, in the order of documents and positions."""

    keys: list[bytes]
    """The distinct terms, sorted."""
    terms: Numbers
    """For each token the place of its term in `keys`."""
    documents: Numbers
    positions: Numbers
    total: int
    """How many tokens the field counts; of numbers, how many values."""
    plain: NDArray[np.bool_] | None = None
    """Which terms keep only that they are there, whatever the field keeps: those of JSON that are not text."""


@dataclass(frozen=True, slots=True)
class FieldPostings:
    """What the files of a segment hold of one field."""

    postings: bytes
    positions: bytes
    document_counts: Numbers
    postings_lengths: Numbers
    positions_lengths: Numbers


def vints(numbers: Numbers) -> tuple[bytes, Numbers]:
    """Numbers as vints (the high bit is on the last byte), and how many bytes each takes."""
    values = numbers.astype(np.uint64)
    lengths = np.ones(len(values), np.int64)
    for place in range(1, 10):
        lengths += (values >> np.uint64(7 * place)) > 0
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    for place in range(int(lengths.max()) if len(lengths) else 0):
        chosen = lengths > place
        part = (values[chosen] >> np.uint64(7 * place)) & np.uint64(127)
        last = (lengths[chosen] == place + 1).astype(np.uint8) << 7
        out[starts[chosen] + place] = part.astype(np.uint8) | last
    return out.tobytes(), lengths


def vint(number: int) -> bytes:
    """One number as a vint."""
    out = bytearray()
    while number > 127:
        out.append(number & 127)
        number >>= 7
    out.append(number | 128)
    return bytes(out)


def encode_postings(
    tokens: Tokens, record: Record, norm_ids: NDArray[np.uint8] | None, num_documents: int
) -> FieldPostings:
    """The `.idx` (behind its 8-byte header) and `.pos` of a field, and where each term lies in them."""
    order = np.argsort(tokens.terms, kind="stable")
    terms, documents, positions = tokens.terms[order], tokens.documents[order], tokens.positions[order]
    fresh = np.ones(len(terms), np.bool_)
    fresh[1:] = (terms[1:] != terms[:-1]) | (documents[1:] != documents[:-1])
    firsts = np.flatnonzero(fresh)
    frequencies = np.diff(np.append(firsts, len(terms)))
    list_terms, list_documents = terms[firsts], documents[firsts]
    counts = np.bincount(list_terms, minlength=len(tokens.keys)).astype(np.int64)
    plain = np.zeros(len(tokens.keys), np.bool_) if tokens.plain is None else tokens.plain
    if record == "basic":
        plain = np.ones(len(tokens.keys), np.bool_)
    best = _BestDocument(tokens.total, num_documents, norm_ids)
    postings, postings_lengths = _lists(counts, list_documents, frequencies, record, best, plain)
    if record != "position":
        nothing = np.zeros(len(tokens.keys), np.int64)
        return FieldPostings(postings, b"", counts, postings_lengths, nothing)
    deltas = positions.copy()
    deltas[1:] -= np.where(fresh[1:], 0, positions[:-1])
    kept = ~plain[terms]
    token_counts = np.bincount(terms[kept], minlength=len(tokens.keys)).astype(np.int64)
    packed, packed_lengths = _position_lists(token_counts, deltas[kept])
    return FieldPostings(postings, packed, counts, postings_lengths, packed_lengths)


def norm_id(lengths: Numbers) -> NDArray[np.uint8]:
    """The one-byte field norm of lengths: the largest whose length is not above."""
    return (np.searchsorted(NORM_LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def _norm_length(number: int) -> int:
    if number < 24:
        return number
    power, rest = divmod(number - 24, 8)
    return 24 + (rest if power == 0 else (8 + rest) << (power - 1))


NORM_LENGTHS = np.array([_norm_length(number) for number in range(256)], np.int64)
"""The length that each field norm stands for."""


def _lists(
    counts: Numbers,
    documents: Numbers,
    frequencies: Numbers,
    record: Record,
    best: "_BestDocument",
    plain: NDArray[np.bool_],
) -> tuple[bytes, Numbers]:
    ends = np.cumsum(counts)
    starts = ends - counts
    short = counts < BLOCK
    deltas = documents.copy()
    deltas[1:] -= documents[:-1]
    deltas[starts[counts > 0]] = documents[starts[counts > 0]]
    blob, lengths = _short_lists(counts, deltas, frequencies, short, plain)
    if short.all():
        return blob, lengths
    pieces: list[bytes] = []
    at = 0
    for term in range(len(counts)):
        if short[term]:
            pieces.append(blob[at : at + int(lengths[term])])
            at += int(lengths[term])
            continue
        place = slice(int(starts[term]), int(ends[term]))
        made = _long_list(documents[place], frequencies[place], "basic" if plain[term] else record, best)
        lengths[term] = len(made)
        pieces.append(made)
    return b"".join(pieces), lengths


def _short_lists(
    counts: Numbers, deltas: Numbers, frequencies: Numbers, short: NDArray[np.bool_], plain: NDArray[np.bool_]
) -> tuple[bytes, Numbers]:
    """All lists without a full block, behind each other: document deltas of a term, then its frequencies."""
    of_term = np.repeat(np.arange(len(counts)), counts)
    chosen = short[of_term]
    numbers, owners = deltas[chosen], of_term[chosen]
    counted = chosen & ~plain[of_term]
    if counted.any():
        # A stable sort by term puts the frequencies of a term behind its deltas.
        numbers = np.concatenate((numbers, frequencies[counted]))
        owners = np.concatenate((owners, of_term[counted]))
        order = np.argsort(owners, kind="stable")
        numbers, owners = numbers[order], owners[order]
    blob, sizes = vints(numbers)
    return blob, np.bincount(owners, sizes, len(counts)).astype(np.int64)


def _long_list(documents: Numbers, frequencies: Numbers, record: Record, best: "_BestDocument") -> bytes:
    full = len(documents) // BLOCK
    skips: list[bytes] = []
    blocks: list[bytes] = []
    before = -1
    for number in range(full):
        place = slice(number * BLOCK, (number + 1) * BLOCK)
        some, often = documents[place], frequencies[place]
        gaps = np.diff(some, prepend=before) - 1
        before = int(some[-1])
        width = _width(gaps)
        skip = before.to_bytes(4, "little") + bytes([64 | width])
        blocks.append(_packed(gaps, width))
        if record != "basic":
            frequency_width = _width(often - 1)
            skip += bytes([frequency_width])
            blocks.append(_packed(often - 1, frequency_width))
            if record == "position":
                skip += int(often.sum()).to_bytes(4, "little")
            skip += best.of(some, often)
        skips.append(skip)
    tail = documents[full * BLOCK :]
    rest = np.diff(tail, prepend=before if full else 0)
    if record != "basic":
        rest = np.concatenate((rest, frequencies[full * BLOCK :]))
    skip_bytes = b"".join(skips)
    return b"".join((vint(len(skip_bytes)), skip_bytes, *blocks, vints(rest)[0]))


def _position_lists(counts: Numbers, deltas: Numbers) -> tuple[bytes, Numbers]:
    ends = np.cumsum(counts)
    pieces: list[bytes] = []
    tails = counts % BLOCK
    of_term = np.repeat(np.arange(len(counts)), counts)
    in_tail = np.arange(len(deltas)) >= (ends - tails)[of_term]
    blob, sizes = vints(deltas[in_tail])
    tail_sizes = np.bincount(of_term[in_tail], sizes, len(counts)).astype(np.int64)
    lengths = tail_sizes.copy()
    at = 0
    for term, tail_size in enumerate(tail_sizes.tolist()):
        full = int(counts[term]) // BLOCK
        head = vint(full)
        if full:
            start = int(ends[term] - counts[term])
            blocks = deltas[start : start + full * BLOCK].reshape(full, BLOCK)
            widths = [_width(block) for block in blocks]
            head += bytes(widths) + b"".join(_packed(block, width) for block, width in zip(blocks, widths, strict=True))
        pieces.append(head)
        pieces.append(blob[at : at + tail_size])
        lengths[term] += len(head)
        at += tail_size
    return b"".join(pieces), lengths


def _width(numbers: Numbers) -> int:
    return int(numbers.max()).bit_length()


def _packed(numbers: Numbers, width: int) -> bytes:
    """128 numbers: number i is in lane i mod 4; a lane is 32 numbers from the low bit in `width` words of 32 bits."""
    if not width:
        return b""
    lanes = numbers.reshape(32, 4).T.astype(np.uint64)
    bits = (lanes[:, :, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    packed = np.packbits(bits.reshape(4, width * 32).astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(np.ascontiguousarray(packed).view("<u4").T).tobytes()


class _BestDocument:
    """The document of a block that could score highest, which a reader uses to skip blocks."""

    __slots__ = ("norm_ids", "norms")

    def __init__(self, total: int, num_documents: int, norm_ids: NDArray[np.uint8] | None) -> None:
        # In single precision and in this order of operations, as the engine does.
        mean = np.float32(total) / np.float32(max(1, num_documents))
        lengths = NORM_LENGTHS.astype(np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.norms = np.float32(1.2) * (np.float32(0.25) + np.float32(0.75) * lengths / mean)
        self.norm_ids = norm_ids

    def of(self, documents: Numbers, frequencies: Numbers) -> bytes:
        if self.norm_ids is None:
            return bytes(2)
        ids = self.norm_ids[documents]
        often = frequencies.astype(np.float32)
        scores = often / (often + self.norms[ids])
        place = len(scores) - 1 - int(np.argmax(scores[::-1]))
        return bytes([int(ids[place]), min(255, int(frequencies[place]))])
