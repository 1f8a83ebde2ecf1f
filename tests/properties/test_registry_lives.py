"""Random lives of a registry with several writers, beside a plain model: the same numbers, whoever asks and when."""

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deltaic.errors import RegistryError
from deltaic.schema import registry_store
from deltaic.schema.registry_store import open_registry
from deltaic.storage.backoff import Backoff
from deltaic.testing.stores import SimulatedStore
from tests.unit.schema import plain_registry

NO_WAIT = Backoff(sleep=lambda _seconds: None)
PATHS = [f"t{number}.f" for number in range(8)] + ["a[]", "b{}.c"]
TYPES = [0, 2, 4, 200]
WRITERS = 3
paths, types, writers = st.sampled_from(PATHS), st.sampled_from(TYPES), st.integers(0, WRITERS - 1)


def code_of(call, *args):
    try:
        return call(*args)
    except RegistryError as error:
        return error.code


class Model:
    """The registry as the page describes it, without bytes."""

    def __init__(self):
        self.current, self.oldest = 0, 0
        self.tables, self.retired = {0: []}, set()
        self.number = 0

    def find(self, path):
        table = self.tables[self.current]
        return next((index for index, field in enumerate(table) if field[0] == path), None)

    def register(self, path, kind):
        index = self.find(path)
        table = self.tables[self.current]
        if index is None:
            self.number += 1
            table.append((path, kind, self.number))
            return len(table) - 1
        if table[index][1] != kind:
            return "TypeConflict"
        self.retired.discard(table[index])
        return index

    def retire(self, path):
        index = self.find(path)
        if index is None:
            return "UnknownField"
        self.retired.add(self.tables[self.current][index])
        return None

    def make_version(self):
        live = [field for field in self.tables[self.current] if field not in self.retired]
        # Fewer than 128 fields: those inside the range keep their place, the others take the holes in their order.
        old = self.tables[self.current]
        order = [None] * len(live)
        late = []
        for field in live:
            index = old.index(field)
            if index < len(live):
                order[index] = field
            else:
                late.append(field)
        for place, field in enumerate(order):
            if field is None:
                order[place] = late.pop(0)
        self.current += 1
        self.tables[self.current] = order
        return self.current

    def evict(self, version):
        if version < self.oldest:
            return "VersionEvicted"
        if version != self.oldest or version == self.current:
            return "UnknownVersion"
        del self.tables[version]
        self.oldest += 1
        return None


class Lives(RuleBasedStateMachine):
    @initialize(files=st.integers(1, 6))
    def start(self, files):
        self.patched = contextlib.ExitStack()
        before = registry_store.SNAPSHOT_FILES
        self.patched.callback(setattr, registry_store, "SNAPSHOT_FILES", before)
        registry_store.SNAPSHOT_FILES = files
        self.store, self.model = SimulatedStore(), Model()
        self.writers = [open_registry(self.store, backoff=NO_WAIT) for _ in range(WRITERS)]

    def teardown(self):
        if hasattr(self, "patched"):
            self.patched.close()

    @rule(writer=writers, path=paths, kind=types)
    def register(self, writer, path, kind):
        # A writer may not know yet what others did: what it finds without asking was true, and stays true there.
        registry = self.writers[writer]
        known = registry.view
        answer = code_of(registry.register, path, kind)
        if registry.view is known and registry.sequence and isinstance(answer, int) and known.lookup(path) == answer:
            registry.refresh()
            answer = code_of(registry.register, path, kind)
        elif answer == "TypeConflict":
            registry.refresh()
            answer = code_of(registry.register, path, kind)
        assert answer == self.model.register(path, kind)

    @rule(writer=writers, fields=st.lists(st.tuples(paths, types), min_size=1, max_size=4, unique_by=lambda f: f[0]))
    def register_many(self, writer, fields):
        registry = self.writers[writer]
        registry.refresh()
        conflicts = [
            path for path, kind in fields
            if (index := self.model.find(path)) is not None and self.model.tables[self.model.current][index][1] != kind
        ]  # fmt: skip
        answer = code_of(registry.register_many, fields)
        if conflicts:
            assert answer == "TypeConflict"
        else:
            assert answer == [self.model.register(path, kind) for path, kind in fields]

    @rule(writer=writers, path=paths)
    def retire(self, writer, path):
        self.writers[writer].refresh()
        assert code_of(self.writers[writer].retire, path) == self.model.retire(path)

    @rule(writer=writers)
    def make_version(self, writer):
        # The version is right even if the writer was behind: it hears of it when its write comes second.
        self.writers[writer].refresh()
        assert self.writers[writer].optimize(force=True) == self.model.make_version()

    @rule(writer=writers, back=st.integers(0, 3))
    def evict(self, writer, back):
        self.writers[writer].refresh()
        version = max(0, self.model.current - back)
        assert code_of(self.writers[writer].evict, version) == self.model.evict(version)

    @rule(writer=writers)
    def reopen(self, writer):
        self.writers[writer].close()
        self.writers[writer] = open_registry(self.store, backoff=NO_WAIT)

    @rule(writer=writers)
    def die(self, writer):
        self.writers[writer] = open_registry(self.store, backoff=NO_WAIT)

    @precondition(lambda self: hasattr(self, "model"))
    @invariant()
    def everybody_who_looks_sees_the_model(self):
        for registry in (open_registry(self.store, read_only=True), self.writers[0]):
            registry.refresh()
            view = registry.view
            assert (view.current, view.oldest) == (self.model.current, self.model.oldest)
            shown = plain_registry.read_snapshot(registry.snapshot())
            for version, table in self.model.tables.items():
                fields = [field[:2] for field in table]
                assert [(field.path, field.type) for field in registry.fields(version)] == fields
                assert [shown["descriptors"][number][:2] for number in shown["versions"][version]] == fields
                for index, field in enumerate(table):
                    assert view.lookup(field[0], version) == index
                    assert registry._state.is_retired(index, version) == (field in self.model.retired)


class TestLives(Lives.TestCase):
    settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
