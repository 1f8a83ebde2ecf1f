"""Fields by other numbers: how the index of an older split is joined with those that have a column more or less.

Term dictionaries, postings, positions and norms know a field by its place in the schema, and say so in one list at the
end of each file (index-table.md, 9.2); fast fields know it by name. So a copy of four files with other numbers in that
list belongs to another schema, as long as every field that both have is the same and what the split lacks is null in
its rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltaic.errors import DecodeError
from deltaic.table.split.segment import check_segment_file, footer_version, segment_footer

NUMBERED_SUFFIXES = (".term", ".idx", ".pos", ".fieldnorm")


def new_numbers(
    have: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]], filled: frozenset[str]
) -> dict[int, int] | None:
    """For each field of a split's index its number among the wanted fields; None if rows must be indexed anew.

    Args:
        have: the fields of the split's index.
        wanted: the fields of the joined index.
        filled: the fields for which the split has values in its rows, indexed or not.
    """
    places = {field["name"]: number for number, field in enumerate(wanted)}
    known = {field["name"] for field in have}
    if any(name in filled and name not in known for name in places):
        return None
    numbers = {}
    for number, field in enumerate(have):
        place = places.get(field["name"])
        if place is None:
            # A column that is no longer there: a number that no field has.
            numbers[number] = len(wanted) + number
        elif field != wanted[place]:
            return None
        else:
            numbers[number] = place
    return numbers


def copy_renumbered(source: Path, target: Path, numbers: Mapping[int, int]) -> None:
    """Copy a composite file with other numbers of fields."""
    data, where = source.read_bytes(), str(source)
    body = bytearray(check_segment_file(data, where))
    for at, number in _places(body, where):
        if number not in numbers:
            raise DecodeError("BadIndex", f"there is no field {number}", where)
        body[at : at + 4] = numbers[number].to_bytes(4, "little")
    target.write_bytes(bytes(body) + segment_footer(bytes(body), footer_version(data, where)))


def _places(body: bytearray, where: str) -> list[tuple[int, int]]:
    """Where the numbers stand in the list at the end, and what they are."""
    if len(body) < 4:
        raise DecodeError("Truncated", "no list of fields", where)
    length = int.from_bytes(body[-4:], "little")
    end = len(body) - 4
    at = end - length
    if at < 0:
        raise DecodeError("BadIndex", f"a list of {length:,} bytes", where)
    count, at = _vint(body, at, end, where)
    found = []
    for _ in range(count):
        _, at = _vint(body, at, end, where)
        if at + 4 > end:
            raise DecodeError("Truncated", "the list of fields ends early", where)
        found.append((at, int.from_bytes(body[at : at + 4], "little")))
        _, at = _vint(body, at + 4, end, where)
    if at != end:
        raise DecodeError("BadIndex", "the list of fields is longer than its fields", where)
    return found


def _vint(body: bytearray, at: int, end: int, where: str) -> tuple[int, int]:
    """A number of seven bits per byte, the lowest first; the last byte has its top bit set."""
    value = 0
    for shift in range(0, 63, 7):
        if at >= end:
            break
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            return value, at
    raise DecodeError("InvalidVarint", "a number of the list of fields does not end", where)
