"""When two records are equal, and a hash that goes with it.

Records are equal if their types have the same name and fields and their content is the same, wherever they are: in one
state, in two versions, at different ordinals. References are followed, circles too.
"""

from deltaic.errors import InputError
from deltaic.kernels.content import LIST, MAX_DEPTH, OBJECT, REFERENCE, Place, Reads, checked, members_of, vector

_Pair = tuple[Place, Place]
_Assumed = tuple[set[tuple[int, int, int, int]], ...]


def equal(one: Place, other: Place) -> bool:
    """True if two records have the same type and content, whatever their ordinals; all NaNs are equal."""
    return _all_equal([(one, other)], (set(),))


def _all_equal(waiting: list[_Pair], assumed: _Assumed) -> bool:
    """True if the records of each pair are equal. Long chains of references wait in a list, not on the stack.

    `assumed` holds pairs that were met, one set for each set or map that is being compared further out.
    """
    while waiting:
        one, other = waiting.pop()
        reads, number, ordinal = one
        others, other_number, other_ordinal = other
        if reads is others and number == other_number and ordinal == other_ordinal:
            continue
        pair = (number, ordinal, other_number, other_ordinal)
        if any(pair in layer for layer in assumed):
            # Met before, or a circle of references: equal unless something else differs.
            continue
        assumed[-1].add(pair)
        spec, other_spec = reads.types[number], others.types[other_number]
        if (spec.kind, spec.name, spec.field_names, spec.field_codes, spec.vector_names) != (
            other_spec.kind,
            other_spec.name,
            other_spec.field_names,
            other_spec.field_codes,
            other_spec.vector_names,
        ):
            return False
        if spec.kind == OBJECT:
            if spec.vectors and not _equal_vectors(one, other):
                return False
            if not all(_equal_field(one, other, position, waiting) for position in range(len(spec.field_codes))):
                return False
        elif reads.size(number, ordinal) != others.size(other_number, other_ordinal):
            return False
        elif spec.kind == LIST:
            elements, other_elements = reads.elements(number, ordinal), others.elements(other_number, other_ordinal)
            for mine, theirs in zip(elements, other_elements, strict=True):
                if not _equal_link(one, other, 0, mine, theirs, waiting):
                    return False
        elif not _equal_bags(one, other, assumed):
            return False
    return True


def _equal_vectors(one: Place, other: Place) -> bool:
    """True if the rows of both records are the same bits in every vector column."""
    spec, other_spec = one[0].types[one[1]], other[0].types[other[1]]
    for name in spec.vector_names:
        rows = vector(spec, name, one[2]), vector(other_spec, name, other[2])
        if rows[0] is None or rows[1] is None:
            if rows[0] is not rows[1]:
                return False
        elif rows[0].tobytes() != rows[1].tobytes():
            return False
    return True


def _equal_field(one: Place, other: Place, position: int, waiting: list[_Pair]) -> bool:
    reads, number, ordinal = one
    others, other_number, other_ordinal = other
    if reads.types[number].field_codes[position] != REFERENCE:
        return reads.scalar(number, ordinal, position) == others.scalar(other_number, other_ordinal, position)
    target = reads.pointer(number, ordinal, position)
    other_target = others.pointer(other_number, other_ordinal, position)
    if target < 0 or other_target < 0:
        return target == other_target
    return _equal_link(one, other, position, target, other_target, waiting)


def _equal_link(one: Place, other: Place, position: int, target: int, other_target: int, waiting: list[_Pair]) -> bool:
    """False if two references differ for certain; otherwise what they lead to has to wait its turn."""
    link = one[0].types[one[1]].links[position]
    other_link = other[0].types[other[1]].links[position]
    if link < 0 or other_link < 0:
        return link == other_link and target == other_target
    waiting.append((checked(one[0], link, target), checked(other[0], other_link, other_target)))
    return True


def _equal_bags(one: Place, other: Place, assumed: _Assumed) -> bool:
    """Sets and maps: the same elements, each as often, in whatever buckets."""
    if len(assumed) > MAX_DEPTH:
        raise InputError(f"type {one[0].types[one[1]].name}, record {one[2]}: sets nest too deep to compare", "TooDeep")
    left: dict[int, list[tuple[int, ...]]] = {}
    for parts in members_of(other):
        left.setdefault(_members_hash(other, parts), []).append(parts)
    for parts in members_of(one):
        candidates = left.get(_members_hash(one, parts), [])
        for candidate in candidates:
            waiting: list[_Pair] = []
            # A failed comparison must not leave its assumptions behind, or a later one could lean on them.
            trial = (*assumed, set())
            pairs = enumerate(zip(parts, candidate, strict=True))
            certain = all(_equal_link(one, other, place, mine, theirs, waiting) for place, (mine, theirs) in pairs)
            if certain and _all_equal(waiting, trial):
                assumed[-1].update(trial[-1])
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
