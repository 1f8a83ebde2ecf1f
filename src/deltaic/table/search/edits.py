"""The distance between two words: letters inserted, dropped, replaced, or two neighbours swapped."""


def within_distance(text: str, wanted: str, distance: int) -> bool:
    """Whether two words are at most so many edits apart. A swapped pair is not edited again."""
    if abs(len(text) - len(wanted)) > distance:
        return False
    if text == wanted:
        return True
    before: list[int] = []
    row = list(range(len(wanted) + 1))
    for place, letter in enumerate(text, 1):
        older, before, row = before, row, [place]
        for there, other in enumerate(wanted, 1):
            cost = min(before[there] + 1, row[there - 1] + 1, before[there - 1] + (letter != other))
            if place > 1 and there > 1 and letter == wanted[there - 2] and text[place - 2] == other:
                cost = min(cost, older[there - 2] + 1)
            row.append(cost)
        # A swap reaches back two rows, so both must be beyond it.
        if min(row) > distance and min(before) > distance - 1:
            return False
    return row[-1] <= distance
