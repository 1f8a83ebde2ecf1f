"""For random models, histories and changes of fields: every reader ends where its mode says, over every path."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.errors import DecodeError, LimitError, SchemaError
from deltaic.state.append_write import SchemaAppend
from deltaic.state.read import ReadState
from tests.unit.append.histories import History, content

KINDS = ("int", "long", "boolean", "float", "double", "string", "bytes", "U", "L", "S", "M")
TEXTS = ("", "a", "text", "Größe", "\U0001f600x", "\ud800", "x" * 200)
COLLECTIONS = {"L": "L List<U>;", "S": "S Set<U>;", "M": "M Map<U,U>;"}


class RandomHistory:
    """A producer whose model changes at random from version to version."""

    def __init__(self, source: random.Random, options: SchemaAppend | None = None) -> None:
        self.random = source
        shards = {name: 1 << source.randrange(4) for name in ("T", "U", "V", "L", "S", "M")}
        if options is None:
            options = SchemaAppend(
                all_fields=source.random() < 0.2, compression=source.choice([None, None, "zstd", "zlib"])
            )
        self.history = History(options, pinned_shards=shards)
        self.fields: dict[str, str] = {}
        self.used = 0
        self.salt = 0
        self.ids = list(range(source.randrange(25)))

    def step(self) -> None:
        """Change the model and the records a little, or not, and publish."""
        renamed = self._change_model()
        source = self.random
        if source.random() < 0.5:
            self.ids = [each for each in self.ids if source.random() < 0.8]
            self.ids += [source.randrange(200) for _ in range(source.randrange(6))]
        if source.random() < 0.2:
            self.salt += 1
        text, rows = self._text(), self._rows()
        self.history.publish(text, rows, {"T": renamed})

    def _change_model(self) -> dict[str, str]:
        source, renamed = self.random, {}
        for _ in range(source.randrange(3)):
            self.used += 1
            self.fields[f"f{self.used}"] = source.choice(KINDS)
        if self.fields and source.random() < 0.25:
            del self.fields[source.choice(list(self.fields))]
        if self.fields and source.random() < 0.25:
            was = source.choice(list(self.fields))
            self.used += 1
            name = f"f{self.used}"
            self.fields = {name if each == was else each: kind for each, kind in self.fields.items()}
            renamed[name] = was
        if source.random() < 0.2:
            items = list(self.fields.items())
            source.shuffle(items)
            self.fields = dict(items)
        return renamed

    def _text(self) -> str:
        kinds = set(self.fields.values())
        types = ["U { int u; string t; }"] if kinds & {"U", *COLLECTIONS} else []
        types += [COLLECTIONS[kind] for kind in COLLECTIONS if kind in kinds]
        fields = " ".join(f"{kind} {name};" for name, kind in self.fields.items())
        return "\n".join([*types, f"T @PrimaryKey(id) {{ int id; {fields} }}"])

    def _rows(self) -> dict:
        kinds = set(self.fields.values())
        rows: dict = {}
        if kinds & {"U", *COLLECTIONS}:
            rows["U"] = [{"u": n, "t": TEXTS[n % len(TEXTS)]} for n in range(6)]
        if "L" in kinds:
            rows["L"] = [{"elements": [n, (n + 1) % 6]} for n in range(6)]
        if "S" in kinds:
            rows["S"] = [{"elements": sorted({n, (n + 2) % 6})} for n in range(6)]
        if "M" in kinds:
            rows["M"] = [{"entries": {n: (n + 3) % 6}} for n in range(6)]
        rows["T"] = [
            {"id": number, **{name: self._value(number, place, name) for name in self.fields}}
            for place, number in enumerate(self.ids)
        ]
        return rows

    def _value(self, number: int, place: int, name: str):
        source = random.Random(
            f"{number} {place if number % 7 == 0 else 0} {name} {self.salt if number % 3 == 0 else 0}"
        )
        if source.random() < 0.3:
            return None
        match self.fields[name]:
            case "int":
                return source.choice([0, 1, -1, 2**31 - 1, -(2**31) + 1, source.randrange(1000)])
            case "long":
                return source.choice([0, -1, 2**63 - 1, -(2**63) + 1, source.getrandbits(40)])
            case "boolean":
                return source.random() < 0.5
            case "float" | "double":
                return source.choice([0.0, -0.0, float("nan"), float("inf"), 1.5, -2.25])
            case "string":
                return source.choice(TEXTS) + str(source.randrange(4))
            case "bytes":
                return bytes(source.randrange(256) for _ in range(source.randrange(5)))
            case _:
                return source.randrange(6)


def values_of(state: ReadState):
    """Content, and what the checksum makes of it."""
    return content(state), state.checksum()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_full_reader_equals_a_fresh_reader_of_the_snapshot_over_every_path(seed):
    source = random.Random(seed)
    made = RandomHistory(source)
    for _ in range(2 + source.randrange(5)):
        made.step()
    history = made.history
    versions = history.versions
    expected = [values_of(history.fresh(number)) for number in range(len(versions))]
    for start in range(len(versions)):
        state = history.fresh(start)
        for number in range(start + 1, len(versions)):
            state = state.apply(versions[number].delta, schema_append="full")
            assert values_of(state) == expected[number], (start, number)
    # A walk back and forth, as pins make it. Going back leaves the model as it is; ending where it began does not.
    state, at = history.fresh(0), 0
    for _ in range(12):
        if at + 1 < len(versions) and (at == 0 or source.random() < 0.6):
            at += 1
            state = state.apply(versions[at].delta, schema_append="full")
        elif at:
            state = state.apply(versions[at].reverse, schema_append="full")
            at -= 1
    while at + 1 < len(versions):
        at += 1
        state = state.apply(versions[at].delta, schema_append="full")
    # Not the checksum: it tells the null of a writer from the one that a reader put where a delta lacked the field.
    assert content(state) == expected[-1][0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_with_the_feature_off_a_reader_equals_one_of_deltas_without_sections(seed):
    chains = []
    for options in (SchemaAppend(), SchemaAppend(enabled=False)):
        source = random.Random(seed)
        made = RandomHistory(source, options)
        for _ in range(4):
            made.step()
        chains.append(made.history)
    off, plain = (chain.follow("off") for chain in chains)
    assert content(off) == content(plain)
    assert content(chains[1].follow("full")) == content(plain)
    for one, other in zip(*(chain.versions for chain in chains), strict=True):
        assert len(one.snapshot) == len(other.snapshot)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_values_reader_equals_an_off_reader_where_it_lacks_the_fields(seed):
    source = random.Random(seed)
    made = RandomHistory(source, SchemaAppend())
    for _ in range(4):
        made.step()
    assert content(made.history.follow("values")) == content(made.history.follow("off"))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_damaged_section_is_an_error_or_harmless_and_leaves_the_state_as_it_was(seed):
    source = random.Random(seed)
    made = RandomHistory(source, SchemaAppend(compression=source.choice([None, "zstd", "zlib"])))
    plain = RandomHistory(random.Random(seed), SchemaAppend(enabled=False))
    plain.random.choice([None, "zstd", "zlib"])
    for _ in range(2):
        made.step()
    before = made.history.fresh(0)
    shown = values_of(before)
    delta = made.history.versions[1].delta
    for _ in range(30):
        damaged = bytearray(delta)
        match source.randrange(3):
            case 0:
                damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
            case 1:
                del damaged[source.randrange(len(damaged)) :]
            case 2:
                damaged += bytes(source.randrange(256) for _ in range(1 + source.randrange(3)))
        try:
            after = before.apply(bytes(damaged), schema_append=source.choice(["values", "full"]))
            content(after)
        except (DecodeError, SchemaError, LimitError):
            pass
        except Exception as error:
            if type(error).__name__ != "ChainError":
                raise
        assert values_of(before) == shown


def test_every_truncation_of_a_section_is_refused():
    made = RandomHistory(random.Random(3), SchemaAppend())
    made.ids = list(range(12))
    made.step()
    size = len(made.history.versions[0].snapshot)
    assert size
    while not made.fields:
        made.step()
    made.step()
    history = made.history
    number = len(history.versions) - 1
    before = history.fresh(number - 1)
    delta = history.versions[number].delta
    plain = before.apply(delta)
    lengths = [cut for cut in range(len(delta)) if _reads(before, delta[:cut], "off")]
    assert lengths, "a reader without the feature never reads the section"
    for cut in lengths:
        assert content(before.apply(delta[:cut])) == content(plain)
        if cut < len(delta):
            with pytest.raises(DecodeError):
                before.apply(delta[:cut], schema_append="full")


def _reads(before: ReadState, delta: bytes, mode: str) -> bool:
    try:
        before.apply(delta, schema_append=mode)
    except DecodeError:
        return False
    return True
