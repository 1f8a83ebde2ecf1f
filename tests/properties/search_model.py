"""A plain evaluator of queries over a list of documents, and plain BM25. It shares no code with the library.

A query is a nested tuple, and says itself how it is written:

    ("word", field, text) ("phrase", field, words, slop) ("prefix", field, text) ("wild", field, pattern)
    ("fuzzy", field, text, distance) ("range", field, low, high, low_in, high_in) ("in", field, values)
    ("exists", field) ("all",) ("list", ((sign, query), …)) ("and", a, b) ("or", a, b) ("not", a) ("boost", a, factor)
"""

import datetime
import ipaddress
import json
import math
import random
import re
from decimal import Decimal

TEXT = ("title", "body")
WORDS = "red green blue Solaris stalker mirror NOSTALGIA ivan über κόσμος aa ab abc abd bcd x9 2001".split()
GENRES = ("drama", "Drama", "", "sci fi", "a*b", 'q"uote', "übel", "comedy:dark", "x" * 300, "\\slash")
DAY = datetime.date(2024, 1, 1)
NOW = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
ADDRESSES = ("10.0.0.1", "10.0.7.3", "10.9.0.0", "192.168.1.1", "::1", "2001:db8::17", "255.255.255.255")


def documents(seed, count):
    chance = random.Random(seed)

    def maybe(value, nulls=0.15):
        return None if chance.random() < nulls else value

    def text(most):
        return " ".join(chance.choices(WORDS, k=chance.randrange(0, most))) + chance.choice(["", "!", " - ", "\n"])

    found = []
    for number in range(count):
        leaf = chance.choice([1, 2, 2.5, "1", "two", True, None, [1, "two"], {"deep": chance.choice(WORDS)}])
        found.append(
            {
                "id": number,
                "title": maybe(text(8)),
                "body": maybe(text(60)),
                "genre": maybe(chance.choice(GENRES)),
                "plain": maybe(chance.choice(GENRES)),
                "num": maybe(chance.choice([-(2**63), 2**63 - 1, *range(-5, 6)])),
                "small": maybe(chance.randrange(0, 256)),
                "price": maybe(chance.choice([0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 0.1, 1e300])),
                "amount": maybe(Decimal(chance.randrange(-500, 500)) / 100),
                "day": maybe(DAY + datetime.timedelta(days=chance.randrange(-40, 40))),
                "at": maybe(NOW + datetime.timedelta(microseconds=chance.choice([0, 1, 10**6, -1, 86_400_000_000]))),
                "flag": maybe(chance.random() < 0.5),
                "tags": maybe([maybe(chance.choice(GENRES)) for _ in range(chance.randrange(0, 4))]),
                "ip": maybe(chance.choice(ADDRESSES)),
                "info": maybe({"n": maybe(chance.randrange(0, 4)), "word": maybe(chance.choice(GENRES))}),
                "js": maybe(json.dumps({"k": leaf, "list": [{"n": chance.randrange(0, 4)} for _ in range(2)]})),
            }
        )
    return found


def tokens(text):
    found, word = [], ""
    for letter in [*(text or ""), " "]:
        if letter.isalnum():
            word += letter
        elif word:
            found.append("".join(one.lower() for one in word))
            word = ""
    return found


def length_class(length):
    """What the engine keeps of the length of a text: exact up to 40, then one of eight steps per doubling."""
    best = 0
    for number in range(256):
        if number < 24:
            value = number
        else:
            exponent, mantissa = divmod(number - 24, 8)
            value = 24 + mantissa if exponent == 0 else 24 + ((8 + mantissa) << (exponent - 1))
        if value <= length:
            best = value
    return best


class Model:
    """Documents, of which some are hidden; `counted` are those whose words count in statistics."""

    def __init__(self, found, hidden=()):
        self.documents, self.hidden = found, frozenset(hidden)
        self.words = {field: [tokens(one[field]) for one in found] for field in TEXT}
        self.mean = {field: sum(map(len, self.words[field])) / max(1, len(found)) for field in TEXT}

    def search(self, query, where=None):
        """Matching documents with their scores, best first, ties by number."""
        found = []
        for number, document in enumerate(self.documents):
            if number in self.hidden:
                continue
            matches, score = self.look(query, number)
            if matches and (where is None or holds(where, document) is True):
                found.append((number, score))
        return sorted(found, key=lambda one: (-one[1], one[0]))

    def look(self, query, number):
        """Whether a document matches, and its score."""
        kind = query[0]
        if kind == "list":
            return self._list(query[1], number)
        if kind == "and":
            return self._list((("+", query[1]), ("+", query[2])), number)
        if kind == "or":
            return self._list((("", query[1]), ("", query[2])), number)
        if kind == "not":
            return self._list((("-", query[1]),), number)
        if kind == "boost":
            matches, score = self.look(query[1], number)
            if self.scoring(query[1]):
                return matches, score * query[2]
            return matches, query[2] if matches else 0.0
        if kind == "all":
            return True, 0.0
        field = query[1]
        if field is None:
            return self._list(tuple(("", (kind, one, *query[2:])) for one in TEXT), number)
        if field in TEXT and kind != "exists":
            return self._text(query, number)
        return any_value(query, self.documents[number]), 0.0

    def scoring(self, query):
        kind = query[0]
        if kind in ("list",):
            return any(self.scoring(one) for sign, one in query[1] if sign != "-")
        if kind in ("and", "or"):
            return self.scoring(query[1]) or self.scoring(query[2])
        if kind == "boost":
            return query[2] > 0
        if kind in ("not", "all", "exists"):
            return False
        if query[1] is not None and query[1] not in TEXT:
            return False
        # A text without words is in no document, and scores none.
        texts = {"word": query[2:3], "in": query[2]}.get(kind) or query[2]
        return kind not in ("word", "phrase", "in") or any(tokens(text) for text in texts)

    def _list(self, clauses, number):
        seen = [(sign, *self.look(one, number)) for sign, one in clauses]
        if any(matches for sign, matches, _ in seen if sign == "-"):
            return False, 0.0
        must = [matches for sign, matches, _ in seen if sign == "+"]
        should = [matches for sign, matches, _ in seen if sign == ""]
        matches = all(must) if must else (any(should) if should else True)
        return matches, sum(score for sign, hit, score in seen if sign != "-" and hit) if matches else 0.0

    def _text(self, query, number):
        kind, field = query[:2]
        mine = self.words[field][number]
        if kind in ("word", "phrase", "in"):
            texts = query[2] if kind == "in" else (query[2],) if kind == "word" else (" ".join(query[2]),)
            slop = query[3] if kind == "phrase" else 0
            scores = [self._phrase(field, tokens(text), slop, number) for text in texts]
            return any(score is not None for score in scores), sum(score or 0.0 for score in scores)
        if kind == "prefix":
            hit = any(word.startswith(lowered(query[2])) for word in mine)
        elif kind == "wild":
            hit = any(wild(lowered(query[2]), word) for word in mine)
        else:
            hit = any(edits(lowered(query[2]), word) <= query[3] for word in mine)
        return hit, 1.0 if hit else 0.0

    def _phrase(self, field, wanted, slop, number):
        """The BM25 of a phrase, of its best spacing if it has slop; None if it is not there."""
        if not wanted:
            return None
        best = None
        for gaps in spread(len(wanted) - 1, slop):
            offsets = [0]
            for gap in gaps:
                offsets.append(offsets[-1] + 1 + gap)
            mine = self.words[field][number]
            count = sum(
                all(
                    start + at < len(mine) and mine[start + at] == word
                    for at, word in zip(offsets, wanted, strict=True)
                )
                for start in range(len(mine))
            )
            if count:
                score = self.bm25(field, wanted, count, number)
                best = score if best is None else max(best, score)
        return best

    def bm25(self, field, wanted, count, number):
        total = len(self.documents)
        weight = 0.0
        for word in wanted:
            frequency = sum(word in words for words in self.words[field])
            weight += math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
        length = length_class(len(self.words[field][number]))
        norm = 1.2 * (1 - 0.75 + 0.75 * length / self.mean[field])
        return weight * 2.2 * count / (count + norm)


def lowered(text):
    return "".join(one.lower() for one in text)


def spread(gaps, slop):
    if gaps == 0:
        yield ()
        return
    for first in range(slop + 1):
        for rest in spread(gaps - 1, slop - first):
            yield (first, *rest)


def edits(a, b):
    """Restricted Damerau-Levenshtein."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def wild(pattern, text):
    made = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern)
    return re.fullmatch(made, text, re.DOTALL) is not None


def values(field, document):
    """What a field has in a document: none, one or several values."""
    name, _, path = field.partition(".")
    value = document[name]
    if name == "js":
        value = None if value is None else json.loads(value)
    level = [value]
    for step in path.split(".") if path else ():
        level = [inner for one in level for inner in (one if isinstance(one, list) else [one])]
        level = [one[step] for one in level if isinstance(one, dict) and one.get(step) is not None]
    flat = [inner for one in level for inner in (one if isinstance(one, list) else [one])]
    return [one for one in flat if one is not None]


def any_value(query, document):
    kind, field = query[:2]
    if kind == "exists":
        if "." not in field:
            return document[field] is not None
        return any(not isinstance(one, dict) for one in values(field, document))
    return any(one_value(query, field, value) for value in values(field, document))


def one_value(query, field, value):
    kind = query[0]
    if field.startswith("js."):
        return json_value(query, value)
    if kind == "word":
        return typed(field, query[2]) is not None and same(typed(field, query[2]), value, field)
    if kind == "in":
        return any(same(typed(field, one), value, field) for one in query[2])
    if kind == "phrase":
        return same(typed(field, " ".join(query[2])), value, field)
    if kind == "prefix":
        return value.startswith(query[2])
    if kind == "wild":
        return wild(query[2], value)
    if kind == "fuzzy":
        return edits(query[2], value) <= query[3]
    low, high = (None if one is None else typed(field, one) for one in query[2:4])
    value = order(field, value)
    above = low is None or (value >= order(field, low) if query[4] else value > order(field, low))
    return above and (high is None or (value <= order(field, high) if query[5] else value < order(field, high)))


def json_value(query, value):
    kind = query[0]
    if isinstance(value, dict):
        return False
    if kind in ("word", "in", "phrase"):
        texts = query[2] if kind == "in" else (query[2],) if kind == "word" else (" ".join(query[2]),)
        for text in texts:
            if isinstance(value, str) and value == text:
                return True
            if kind == "phrase" or isinstance(value, str):
                continue
            if isinstance(value, bool):
                if text == str(value).lower():
                    return True
            elif re.fullmatch(r"-?\d+(\.\d+)?", text) and float(text) == value:
                return True
        return False
    if kind == "range":
        bounds = [one for one in query[2:4] if one is not None]
        if all(re.fullmatch(r"-?\d+(\.\d+)?", one) for one in bounds):
            if isinstance(value, bool | str):
                return False
            low, high = (None if one is None else float(one) for one in query[2:4])
        else:
            if not isinstance(value, str):
                return False
            low, high = query[2:4]
        above = low is None or (value >= low if query[4] else value > low)
        return above and (high is None or (value <= high if query[5] else value < high))
    if not isinstance(value, str):
        return False
    if kind == "prefix":
        return value.startswith(query[2])
    return wild(query[2], value) if kind == "wild" else edits(query[2], value) <= query[3]


def typed(field, text):
    if field in ("num", "small", "id", "info.n", "part"):
        return int(text)
    if field == "price":
        return float(text)
    if field == "amount":
        return Decimal(text)
    if field == "day":
        return datetime.date.fromisoformat(text)
    if field == "at":
        return datetime.datetime.fromisoformat(text)
    if field == "flag":
        return text == "true"
    return text


def same(wanted, value, field):
    if field == "ip":
        if "/" in wanted:
            network = ipaddress.ip_network(wanted)
            address = ipaddress.ip_address(value)
            return address.version == network.version and address in network
        return ipaddress.ip_address(wanted) == ipaddress.ip_address(value)
    return wanted == value


def order(field, value):
    if field == "ip":
        address = ipaddress.ip_address(value)
        return int(address) + (0xFFFF << 32 if address.version == 4 else 0)
    return value.encode() if isinstance(value, str) else value


def holds(where, document):
    """SQL: True, False or None."""
    kind = where[0]
    if kind in ("and", "or"):
        sides = [holds(one, document) for one in where[1:]]
        decisive = kind == "or"
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    if kind == "not":
        inner = holds(where[1], document)
        return None if inner is None else not inner
    value = document[where[1]]
    if kind == "null":
        return value is None
    if kind == "in":
        if value is None:
            return None
        if value in [one for one in where[2] if one is not None]:
            return True
        return None if None in where[2] else False
    sign, wanted = where[2:]
    if value is None or wanted is None:
        return None
    if isinstance(value, str):
        value, wanted = value.encode(), wanted.encode()
    return {
        "=": value == wanted, "!=": value != wanted, "<": value < wanted, "<=": value <= wanted,
        ">": value > wanted, ">=": value >= wanted,
    }[sign]  # fmt: skip


SPECIAL = set(' ()[]{}"^~:\\*?+-!,<>&|`\t\n')


def word_text(text):
    if not text:
        return '""'
    if text in ("AND", "OR", "NOT", "IN", "TO"):
        return "\\" + text
    return "".join("\\" + one if one in SPECIAL else one for one in text)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written(query):
    """The query in the language."""
    kind = query[0]
    if kind == "list":
        return "(" + " ".join(sign + written(one) for sign, one in query[1]) + ")"
    if kind in ("and", "or"):
        return f"({written(query[1])} {kind.upper()} {written(query[2])})"
    if kind == "not":
        return f"(NOT {written(query[1])})"
    if kind == "boost":
        return f"({written(query[1])})^{query[2]}"
    if kind == "all":
        return "*:*"
    field = "" if query[1] is None else f"{query[1]}:"
    if kind == "exists":
        return f"{field}*"
    if kind == "word":
        return field + word_text(query[2])
    if kind == "phrase":
        return field + quoted(" ".join(query[2])) + (f"~{query[3]}" if query[3] else "")
    if kind == "prefix":
        return field + word_text(query[2]) + "*"
    if kind == "wild":
        return field + "".join(one if one in "*?" else word_text(one) for one in query[2])
    if kind == "fuzzy":
        return f"{field}{word_text(query[2])}~{query[3]}"
    if kind == "in":
        return f"{field}IN [{' '.join(quoted(one) for one in query[2])}]"
    low, high = ("*" if one is None else quoted(one) for one in query[2:4])
    return f"{field}{'[' if query[4] else '{'}{low} TO {high}{']' if query[5] else '}'}"
