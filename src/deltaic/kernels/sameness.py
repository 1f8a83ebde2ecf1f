"""When two records are equal, and a hash that goes with it.

Records are equal if their types have the same name and fields and their content is the same, wherever they are: in one
state, in two versions, at different ordinals. References are followed, circles too.
"""

from deltaic.errors import InputError
from deltaic.kernels.content import LIST, MAX_DEPTH, OBJECT, REFERENCE, Place, Reads, checked, members_of


def equal(one: Place, other: Place) -> bool:
    """True if two records have the same type and content, whatever their ordinals; all NaNs are equal."""
    return _equal(one, other, set(), 0)


def _equal(one: Place, other: Place, assumed: set[tuple[int, int, int, int]], depth: int) -> bool:
    reads, number, ordinal = one
    others, other_number, other_ordinal = other
    if reads is others and number == other_number and ordinal == other_ordinal:
        return True
    spec, other_spec = reads.types[number], others.types[other_number]
    if spec.kind != other_spec.kind or spec.name != other_spec.name or spec.field_names != other_spec.field_names:
        return False
    if spec.field_codes != other_spec.field_codes:
        return False
    pair = (number, ordinal, other_number, other_ordinal)
    if pair in assumed:
        # A circle of references: equal unless something on it differs.
        return True
    if depth > 4 * MAX_DEPTH:
        raise InputError(f"type {spec.name}, record {ordinal}: references nest too deep to compare", "TooDeep")
    assumed.add(pair)
    if spec.kind == OBJECT:
        return all(_equal_field(one, other, position, assumed, depth) for position in range(len(spec.field_codes)))
    if reads.size(number, ordinal) != others.size(other_number, other_ordinal):
        return False
    if spec.kind == LIST:
        elements, other_elements = reads.elements(number, ordinal), others.elements(other_number, other_ordinal)
        pairs = zip(elements, other_elements, strict=True)
        return all(_equal_link(one, other, 0, mine, theirs, assumed, depth) for mine, theirs in pairs)
    return _equal_bags(one, other, assumed, depth)


def _equal_field(one: Place, other: Place, position: int, assumed: set[tuple[int, int, int, int]], depth: int) -> bool:
    reads, number, ordinal = one
    others, other_number, other_ordinal = other
    if reads.types[number].field_codes[position] != REFERENCE:
        return reads.scalar(number, ordinal, position) == others.scalar(other_number, other_ordinal, position)
    target = reads.pointer(number, ordinal, position)
    other_target = others.pointer(other_number, other_ordinal, position)
    if target < 0 or other_target < 0:
        return target == other_target
    return _equal_link(one, other, position, target, other_target, assumed, depth)


def _equal_link(
    one: Place,
    other: Place,
    position: int,
    target: int,
    other_target: int,
    assumed: set[tuple[int, int, int, int]],
    depth: int,
) -> bool:
    link = one[0].types[one[1]].links[position]
    other_link = other[0].types[other[1]].links[position]
    if link < 0 or other_link < 0:
        return link == other_link and target == other_target
    place, other_place = checked(one[0], link, target), checked(other[0], other_link, other_target)
    return _equal(place, other_place, assumed, depth + 1)


def _equal_bags(one: Place, other: Place, assumed: set[tuple[int, int, int, int]], depth: int) -> bool:
    """Sets and maps: the same elements, each as often, in whatever buckets."""
    waiting: dict[int, list[tuple[int, ...]]] = {}
    for parts in members_of(other):
        waiting.setdefault(_members_hash(other, parts), []).append(parts)
    for parts in members_of(one):
        candidates = waiting.get(_members_hash(one, parts), [])
        for candidate in candidates:
            # A failed comparison must not leave its assumptions behind, or a later one could lean on them.
            trial = set(assumed)
            pairs = enumerate(zip(parts, candidate, strict=True))
            if all(_equal_link(one, other, place, mine, theirs, trial, depth) for place, (mine, theirs) in pairs):
                candidates.remove(candidate)
                break
        else:
            return False
    return True


def _members_hash(place: Place, parts: tuple[int, ...]) -> int:
    reads, number, _ = place
    return hash(tuple(_link_hash(reads, number, position, part, 0) for position, part in enumerate(parts)))


def content_hash(reads: Reads, number: int, ordinal: int) -> int:
    """A hash that equal records share: scalars of the record, and of what it refers to one step away."""
    return _hash(reads, number, ordinal, 1)


def _hash(reads: Reads, number: int, ordinal: int, steps: int) -> int:
    spec = reads.types[number]
    if spec.kind == OBJECT:
        parts: list[object] = [spec.name]
        for position, code in enumerate(spec.field_codes):
            if code != REFERENCE:
                parts.append(reads.scalar(number, ordinal, position))
            else:
                target = reads.pointer(number, ordinal, position)
                parts.append(None if target < 0 else _link_hash(reads, number, position, target, steps - 1))
        return hash(tuple(parts))
    size = reads.size(number, ordinal)
    if steps <= 0:
        return hash((spec.name, size))
    hashes = [
        tuple(_link_hash(reads, number, position, part, steps - 1) for position, part in enumerate(parts_of))
        for parts_of in members_of((reads, number, ordinal))
    ]
    if spec.kind == LIST:
        return hash((spec.name, size, tuple(hashes)))
    return hash((spec.name, size, sum(hash(parts_hash) for parts_hash in hashes)))


def _link_hash(reads: Reads, number: int, position: int, target: int, steps: int) -> int:
    link = reads.types[number].links[position]
    if link < 0:
        return hash(target)
    checked(reads, link, target)
    spec = reads.types[link]
    if spec.boxed:
        return hash((spec.name, reads.scalar(link, target, 0)))
    return _hash(reads, link, target, steps) if steps >= 0 else hash(spec.name)
