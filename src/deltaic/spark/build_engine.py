"""The engine on Spark: which task does what, in which order. The driver holds counts and file names, no records.

flatten and restore      rows → records of all types, numbered per task; the version before, read by type
per level of types       merge: equal records meet, by ranges of their bytes; new ones are counted
translate: records of the next level refer to what is numbered now
pack                     shards of every type, as pieces of snapshot, delta and reverse delta
assemble                 one task per blob joins the pieces
check, validate          the staged blobs are read back
"""

import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.errors import ValidationError
from deltaic.producer.attachments import StagedFile
from deltaic.producer.encode import ARTIFACT_KINDS
from deltaic.producer.engine import Base, BlobPlan, Populated, Rules, StagedVectors
from deltaic.producer.report import TypeChange
from deltaic.producer.stage import STAGING, StagedBlob
from deltaic.producer.validators import ValidationResult, Validator
from deltaic.producer.vector_step import VectorChange
from deltaic.schema.binary import read_schema
from deltaic.schema.evolve import model_step
from deltaic.schema.types import Schema
from deltaic.spark.build_append import AppendType, CollectAppend, sends_values
from deltaic.spark.build_assemble import Assemble, Stretch
from deltaic.spark.build_check import CheckType, Validate, key_closure
from deltaic.spark.build_flatten import Flattened, FlattenRows, FlattenSplits
from deltaic.spark.build_hash_keys import KeySource, key_types
from deltaic.spark.build_jobs import Call, Jobs, RowsCall
from deltaic.spark.build_keep import ChangedKeys, FrameKeys, Keep, SplitKeys, key_columns
from deltaic.spark.build_merge import Merge
from deltaic.spark.build_pack import Pack, Packed
from deltaic.spark.build_restore import Restore, Restored
from deltaic.spark.build_route import Route
from deltaic.spark.build_runs import splitters
from deltaic.spark.build_scratch import Place, Scratch, open_place
from deltaic.spark.build_sources import Input, grouped
from deltaic.spark.build_translate import Translate
from deltaic.spark.build_types import TypeBuild, groups_of, levels_of
from deltaic.spark.build_vector_rows import LocalVectors
from deltaic.spark.build_vectors import CompareVectors, StageVectors, VectorInput
from deltaic.state.append_write import CollectedAppend, SchemaAppend
from deltaic.state.bitset import EMPTY
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind
from deltaic.wire.append_write import EncodedSection
from deltaic.wire.write_header import Envelope
from deltaic.wire.write_layout import ObjectLayout
from deltaic.wire.write_sections import SectionContent, write_section_head
from deltaic.wire.write_shards import RecordSource
from deltaic.wire.write_stream import Output

_NO_RECORDS = RecordSource(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int32))


@dataclass(frozen=True)
class Sizes:
    """When work is split; small numbers make many small pieces, for tests."""

    sorted_rows: int = 1 << 12
    """A task's records of a type are sorted, so that ranges of them can be read, if there are so many."""
    range_bytes: int = 1 << 20
    """A type is merged in several ranges if it has so many bytes of records."""
    group_bytes: int = 4 << 20
    """Its shards are packed by several tasks if it has so many."""
    restore_bytes: int = 8 << 20
    """Each type of the version before is read by several tasks if its snapshot has so many."""


class SparkEngine:
    """Builds versions on Spark.

    Args:
        jobs: where tasks run.
        rows: what the version holds; or, of an incremental build, the rows that are new or changed.
        chain: the folder of the chain; every task opens it itself.
        scratch_url: where tasks leave what they have for each other; the staging folder of the chain if None.
        sizes: when work is split.
        removed: makes the build incremental: rows, or their keys, that were there and are no more. Everything else
            of the version before stays.
    """

    def __init__(
        self,
        jobs: Jobs,
        rows: Input,
        chain: Place,
        *,
        scratch_url: str | None = None,
        sizes: Sizes = Sizes(),  # noqa: B008 - frozen
        removed: Input | None = None,
    ) -> None:
        self.jobs = jobs
        self._rows, self._chain, self._tasks, self._sizes = rows, chain, jobs.tasks, sizes
        folder = f"build-{secrets.token_hex(8)}"
        self._scratch = Scratch(scratch_url or chain, folder if scratch_url else f"{STAGING}/{folder}")
        self._cut = 0 if jobs.tasks == 1 else sizes.sorted_rows
        self._removed = removed
        self._types: dict[str, TypeBuild] = {}
        self._base: Base | None = None
        self._rules: Rules | None = None
        self._previous: ReadState | None = None
        self._appended: Stretch | None = None
        self._vectors: list[tuple[int, LocalVectors]] = []
        self._parts: tuple[StagedFile, ...] = ()

    def populate(self, base: Base | None, rules: Rules) -> Populated:
        """Number the records of the version."""
        self._base, self._rules = base, replace(rules, model=replace(rules.model, classes={}))
        schemas = rules.model.schemas
        levels = levels_of(schemas)
        self._types = {schema.name: TypeBuild(schema) for schema in schemas}
        self._previous = previous = self._flatten_and_restore()
        for level in levels:
            self._merge(level)
            self._translate_and_route(level, levels)
        other_records = any(each.new or each.leaving for each in self._types.values())
        return Populated(
            tuple(name for name, each in self._types.items() if _changed(each)),
            other_records or self._other_vectors(),
            {name: each.live for name, each in self._types.items()},
            {
                name: (each.layout.previous_shards, each.layout.shards)
                for name, each in self._types.items()
                if each.layout is not None and each.layout.previous_shards != each.layout.shards
            },
            previous,
        )

    def append(self, options: SchemaAppend) -> CollectedAppend:
        """Collect the new fields of records that stayed, if the model changed."""
        rules = self._known_rules()
        assert self._previous is not None
        step = model_step(self._previous.schemas, rules.model.schemas, rules.model.renamed)
        if not options.enabled or (not step and not options.all_fields):
            return CollectedAppend(None, complete=not step)
        types = tuple(
            AppendType(
                each.schema,
                each.layout.shards if each.layout is not None else 1,
                _changed(each),
                each.free,
                each.ranges if sends_values(each.schema, _changed(each), step, options) else (),
            )
            for each in self._types.values()
        )
        (found,) = self.jobs.run("append", [CollectAppend(types, step, options, self._scratch)])
        section = None
        if found.envelope is not None:
            section = EncodedSection(found.envelope, (), found.plain_bytes)
            self._appended = Stretch(found.key, 0, found.length)
        return CollectedAppend(
            section,
            found.fields,
            found.values,
            found.size_bytes,
            found.plain_bytes,
            found.seconds,
            found.too_large,
            found.complete,
        )

    def stage(self, cycle_id: str, blobs: Mapping[BlobKind, BlobPlan]) -> Mapping[BlobKind, StagedBlob]:
        """Pack all types and write the blobs into the staging folder."""
        packed = self._pack(snapshot=BlobKind.SNAPSHOT in blobs, deltas=BlobKind.DELTA in blobs)
        rules = self._known_rules()
        calls = [
            Assemble(
                self._chain,
                cycle_id,
                str(plan.name),
                (plan.header, *self._pieces(kind, packed)),
                rules.compression,
                self._scratch,
            )
            for kind, plan in blobs.items()
        ]
        staged = {}
        for (kind, plan), call, done in zip(blobs.items(), calls, self.jobs.run("assemble", calls), strict=True):
            stepping = plan.name.from_version is not None
            artifact = Artifact(
                ARTIFACT_KINDS[kind],
                str(plan.name),
                done.size_bytes,
                done.checksum,
                plan.name.from_version,
                plan.name.to_version if stepping else None,
            )
            if rules.compression is not None:
                artifact = msgspec.structs.replace(artifact, codec=rules.compression, unpacked_size=done.plain_bytes)
            staged[kind] = StagedBlob(plan.name, call.key, artifact)
        return staged

    def stage_vectors(
        self, cycle_id: str, staged: Mapping[BlobKind, StagedBlob], published: Sequence[BlobKind]
    ) -> StagedVectors:
        """Write the vector parts of the staged blobs beside them, and compare what they lead to."""
        found = self._vector_input()
        if found is None:
            return StagedVectors()
        level = self._known_rules().integrity
        call = StageVectors(found, cycle_id, tuple(staged.items()), tuple(published), level)
        (done,) = self.jobs.run("vectors", [call])
        self._parts = tuple(StagedFile(artifact.name, key, artifact) for key, artifact in done.files)
        return StagedVectors(
            self._parts,
            {(each[0], each[1]): VectorChange(*each[2:]) for each in done.changes},
        )

    def _other_vectors(self) -> bool:
        """Whether vectors alone deserve a version."""
        found = self._vector_input()
        if found is None:
            return False
        (compared,) = self.jobs.run("compare vectors", [CompareVectors(found)])
        return bool(compared.differ)

    def _vector_input(self) -> VectorInput | None:
        """What is needed to make the vector columns of the version; None if it has none beside its records."""
        rules = self._known_rules()
        if all(storage.form == "bytes" for storage in rules.vectors.values()):
            return None
        by_task: dict[tuple[int, str], list[LocalVectors]] = {}
        for task, each in self._vectors:
            by_task.setdefault((task, each.type_name), []).append(each)
        given = []
        for (task, name), listed in by_task.items():
            numbered = self._types[name].numbered(task)
            if numbered is not None:
                given.append((numbered, tuple(listed)))
        return VectorInput(
            rules.model,
            tuple(rules.vectors.items()),
            tuple(given),
            self._chain,
            () if self._base is None else self._base.steps,
            rules.limits,
            self._scratch,
        )

    def check(self, staged: Mapping[BlobKind, StagedBlob], tag: int) -> Mapping[str, TypeChange]:
        """Read the staged blobs back, type by type, and compare them."""
        rules = self._known_rules()
        max_ordinals = tuple((name, each.max_ordinal) for name, each in self._types.items())
        to_check = tuple((kind, blob) for kind, blob in staged.items() if kind is not BlobKind.HEADER)
        calls = [
            CheckType(
                self._chain,
                to_check,
                self._base,
                rules.model,
                name,
                rules.integrity,
                tag,
                tuple((need, part) for need in key_closure(rules.model.schemas, name) if (part := self._bits(need))),
                max_ordinals,
                rules.limits,
                self._scratch,
                each.given_bytes,
            )
            for name, each in self._types.items()
        ]
        found = self.jobs.run("check", calls)
        return {
            name: TypeChange(each.records, each.added, each.removed, each.modified)
            for name, each in zip(self._types, found, strict=True)
        }

    def validate(
        self, version: int, staged: Mapping[BlobKind, StagedBlob], validators: Sequence[Validator]
    ) -> tuple[ValidationResult, ...]:
        """Have the validators judge the staged version, in one task."""
        if not validators:
            return ()
        rules = self._known_rules()
        call = Validate(
            self._chain,
            tuple(staged.items()),
            self._base,
            rules.model,
            version,
            tuple(validators),
            rules.limits,
            self._parts,
        )
        (found,) = self.jobs.run("validate", [call])
        if found.refused is not None:
            raise ValidationError(found.refused)
        return tuple(ValidationResult(*each) for each in found.results)

    def close(self) -> None:
        """Remove what the tasks left for each other."""
        self._scratch.clear()
        self._types, self._vectors, self._parts = {}, [], ()

    def _flatten_and_restore(self) -> ReadState | None:
        rules = self._known_rules()
        columns: dict[str, tuple[str, ...]] = {}
        removed = Input((), ())
        if self._removed is not None and self._base is not None:
            removed = self._removed
            columns = {name: key_columns(rules.model, name) for name in self._rows.named() | removed.named()}
        calls: list[Call[Any]] = []
        owners: list[str] = []
        for type_name, splits in self._rows.splits:
            for group in grouped(splits, self._tasks):
                keys = columns.get(type_name, ())
                calls.append(FlattenSplits(rules.model, type_name, group, self._scratch, self._cut, keys))
                owners.append(type_name)
        for type_name, splits in removed.splits:
            for group in grouped(splits, self._tasks):
                calls.append(SplitKeys(group, columns[type_name], self._scratch))
                owners.append(type_name)
        restored_from = len(calls)
        if self._base is not None:
            calls += self._restores(self._base)
        frames: list[tuple[Any, RowsCall[Any]]] = [
            (
                self._few_partitions(frame),
                FlattenRows(rules.model, name, self._scratch, self._cut, columns.get(name, ())),
            )
            for name, frame in self._rows.frames
        ]
        frames += [
            (self._few_partitions(frame), FrameKeys(columns[name], self._scratch)) for name, frame in removed.frames
        ]
        results, by_frame = self.jobs.run_beside("flatten", calls, frames)
        tasks: list[tuple[str, Flattened | ChangedKeys]] = list(zip(owners, results, strict=False))
        for (name, _), found in zip((*self._rows.frames, *removed.frames), by_frame, strict=True):
            tasks += [(name, each) for each in found]
        for task, (_, each) in enumerate(tasks):
            if isinstance(each, Flattened):
                self._take_local(task, each)
        previous: ReadState | None = None
        for call, restored in zip(calls[restored_from:], results[restored_from:], strict=True):
            assert isinstance(call, Restore)
            self._types[call.schema.name].restored.append(restored)
        if self._base is not None:
            previous = _recordless([each.restored[0] for each in self._types.values()])
        if self._base is not None and self._removed is not None:
            keys_found = tuple((name, each.keys) for name, each in tasks if each.keys is not None)
            keep = Keep(self._chain, self._base.steps, rules.model, keys_found, rules.limits, self._scratch)
            (kept,) = self.jobs.run("keep", [keep])
            for name, part in kept.types.items():
                self._types[name].kept = part
        return previous

    def _take_local(self, task: int, found: Flattened) -> None:
        self._vectors += [(task, each) for each in found.vectors]
        for name, local in found.types.items():
            self._types[name].locals[task] = local
            if local.run is not None:
                self._types[name].runs[task] = local.run

    def _restores(self, base: Base) -> Iterator[Restore]:
        rules = self._known_rules()
        size = open_place(self._chain).head(str(base.steps[0])).size_bytes
        pieces = self._tasks if size >= self._sizes.restore_bytes else 1
        for schema in rules.model.schemas:
            for piece in range(pieces):
                yield Restore(
                    self._chain,
                    base.steps,
                    schema,
                    rules.limits,
                    self._scratch,
                    self._cut,
                    piece,
                    pieces,
                    size // pieces,
                    tuple(rules.model.renamed.get(schema.name, {}).items()),
                )

    def _few_partitions(self, frame: Any) -> Any:
        return frame.coalesce(self._tasks)

    def _merge(self, level: list[str]) -> None:
        calls: list[Merge] = []
        owners: list[TypeBuild] = []
        for name in level:
            build = self._types[name]
            runs, previous = tuple(sorted(build.runs.items())), build.previous_runs
            if not runs and not previous:
                continue
            ranges = 1
            if build.common_fields is None and build.given_bytes >= self._sizes.range_bytes:
                ranges = self._tasks
            cuts = splitters([*build.runs.values(), *previous], ranges)
            for low, high in zip([None, *cuts], [*cuts, None], strict=True):
                calls.append(
                    Merge(
                        build.schema,
                        runs,
                        previous,
                        build.kept,
                        build.common_fields,
                        low,
                        high,
                        self._scratch,
                        build.given_bytes // (len(cuts) + 1),
                    )
                )
                owners.append(build)
        for build, merged in zip(owners, self.jobs.run("merge", calls), strict=True):
            build.merged.append(merged)

    def _translate_and_route(self, level: list[str], levels: list[list[str]]) -> None:
        rules = self._known_rules()
        number = levels.index(level)
        above = levels[number + 1] if number + 1 < len(levels) else []
        calls: list[Call[Any]] = []
        translated: list[int] = []
        for task in sorted({task for name in above for task in self._types[name].locals}):
            types = tuple(
                (self._types[name].schema, self._types[name].locals[task])
                for name in above
                if task in self._types[name].locals
            )
            needs = dict.fromkeys(need for schema, _ in types for need in schema.references() if need in self._types)
            below = tuple(
                (need, numbered) for need in needs if (numbered := self._types[need].numbered(task)) is not None
            )
            calls.append(Translate(types, below, self._scratch, self._cut))
            translated.append(task)
        counts: dict[str, tuple[int, int]] = {}
        routed: list[TypeBuild] = []
        for name in level:
            build = self._types[name]
            before, after = counts[name] = build.shard_counts(rules)
            if build.given_bytes >= self._sizes.group_bytes:
                build.groups = groups_of(before, after, self._tasks)
            if build.needs_routing(before, after):
                for part in build.ranges:
                    shards = max(before, after)
                    calls.append(Route(build.schema, part, build.free, build.groups, shards, self._scratch))
                    routed.append(build)
        results = self.jobs.run("translate" if translated else "route", calls)
        for task, runs in zip(translated, results, strict=False):
            for name, run in runs.runs.items():
                self._types[name].runs[task] = run
        for build, found in zip(routed, results[len(translated) :], strict=True):
            build.routed.append(found)
        for name in level:
            self._types[name].lay_out(*counts[name])

    def _pack(self, *, snapshot: bool, deltas: bool) -> dict[str, list[Packed]]:
        schemas = self._known_rules().model.schemas
        calls = []
        for build in self._types.values():
            assert build.layout is not None
            sources = tuple(
                KeySource(self._types[need].schema, self._types[need].free, self._types[need].ranges)
                for need in key_types(build.schema, schemas)
            )
            calls += [
                Pack(
                    build.layout,
                    group,
                    build.ranges_of_group(group),
                    build.ranges if group == 0 and build.groups > 1 else (),
                    sources,
                    snapshot,
                    deltas and _changed(build),
                    self._scratch,
                )
                for group in range(build.groups)
            ]
        packed: dict[str, list[Packed]] = {name: [] for name in self._types}
        for call, found in zip(calls, self.jobs.run("pack", calls), strict=True):
            packed[call.of.schema.name].append(found)
            if found.populated is not None:
                self._types[call.of.schema.name].populated = found.populated
        return packed

    def _pieces(self, kind: BlobKind, packed: Mapping[str, list[Packed]]) -> Iterator[bytes | Stretch]:
        """What follows the header of a blob: per type what stands before its shards, the shards, and what ends it."""
        for name, build in self._types.items():
            of = build.layout
            assert of is not None
            if kind is not BlobKind.SNAPSHOT and not _changed(build):
                continue
            shards = of.previous_shards if kind is BlobKind.REVERSE_DELTA else of.shards
            yield _section_head(build.schema, shards, of.max_ordinal)
            bodies: dict[int, Stretch] = {}
            for each in packed[name]:
                listed = {
                    BlobKind.SNAPSHOT: each.snapshot,
                    BlobKind.DELTA: each.delta,
                    BlobKind.REVERSE_DELTA: each.reverse,
                }[kind]
                bodies.update((shard, Stretch(each.key, start, length)) for shard, start, length in listed)
            yield from (bodies[shard] for shard in range(shards))
            if kind is BlobKind.SNAPSHOT:
                first = packed[name][0]
                yield Stretch(first.key, *first.tail)
        if kind is BlobKind.DELTA and self._appended is not None:
            yield self._appended

    def _bits(self, name: str) -> Any:
        return self._types[name].populated

    def _known_rules(self) -> Rules:
        assert self._rules is not None
        return self._rules


def _changed(build: TypeBuild) -> bool:
    """True if the type belongs into a delta."""
    of = build.layout
    return bool(build.new or build.leaving) or (of is not None and of.shards != of.previous_shards)


def _section_head(schema: Schema, shards: int, max_ordinal: int) -> bytes:
    made = io.BytesIO()
    output = Output(made)
    content = SectionContent(schema, _NO_RECORDS, ObjectLayout((), ()), shards, max_ordinal)
    write_section_head(output, content, Envelope())
    output.flush()
    return made.getvalue()


def _recordless(restored: Sequence[Restored]) -> ReadState:
    """The version before, without any record; types of the model as they were, others as its snapshot has them."""
    first = restored[0]
    schemas = [read_schema(Cursor(data, "the version before")) for data in first.schemas]
    known = {schema.name: schema for schema in schemas}
    for each in restored:
        if each.schema:
            schema = read_schema(Cursor(each.schema, "the version before"))
            known[schema.name] = schema
    types = {name: TypeData(schema, (), -1, EMPTY) for name, schema in known.items()}
    return ReadState(types, tag=first.tag, origin_tag=0, header_tags=first.header_tags)
