"""Conformance with recorded field references: numbers, paths, references, blocks, addresses.

The checks of single cases; `deltaic.testing.field_registry_conformance` runs them over a folder.
"""

from collections.abc import Callable, Mapping
from typing import Any

from deltaic.errors import DeltaicError, RegistryError
from deltaic.schema.registry_paths import join_path, parse_path
from deltaic.schema.registry_table import Descriptor, Table, View
from deltaic.testing.hollow_conformance import first_difference
from deltaic.wire.references import (
    Address,
    All,
    Index,
    Indices,
    Key,
    MapKey,
    Parameter,
    Parent,
    Range,
    Ranges,
    Reference,
    ReferenceBlock,
    Step,
    Unknown,
    decode_exact,
    decode_number,
    decode_prefix,
    encode,
    encode_number,
    resolve,
)

Json = Any


class Mismatch(Exception):
    """A comparison that did not hold."""


class Checker:
    """Counts comparisons and stops at the first that does not hold."""

    def __init__(self, shared: Mapping[str, Json] | None = None) -> None:
        self.count = 0
        self.shared = shared or {}
        """What a file says once for all its cases."""

    def equal(self, what: str, expected: Json, actual: Json) -> None:
        """Compare two JSON values."""
        self.count += 1
        difference = first_difference(expected, actual)
        if difference is not None:
            raise Mismatch(f"{what}: {difference}")

    def result(self, what: str, case: Json, work: Callable[[], Any], *, any_error: bool = False) -> Any:
        """What the work gives, or None if it ends in the error that the case names."""
        wanted = case.get("error")
        try:
            made = work()
        except DeltaicError as error:
            actual = error.code if isinstance(error, RegistryError) else type(error).__name__
            self.equal(f"{what}: error", wanted, wanted if any_error and wanted is not None else actual)
            return None
        self.equal(f"{what}: error", wanted, None)
        return made


def check_varint(case: Json, checker: Checker) -> None:
    """A number and its bytes, either of which may be refused."""
    if "value" in case:
        data = checker.result("encode", case, lambda: encode_number(case["value"]))
        if data is None:
            return
        checker.equal("bytes", case["hex"], data.hex())
    if "hex" in case:
        read = checker.result("decode", case, lambda: decode_number(bytes.fromhex(case["hex"])))
        if read is not None:
            checker.equal("value and end", [case["value"], len(case["hex"]) // 2], list(read))


def check_path(case: Json, checker: Checker) -> None:
    """A path and its steps."""
    steps = checker.result("parse", case, lambda: parse_path(case["path"]))
    if steps is not None:
        shown = [["key", step.name] if step.kind == "key" else [step.kind] for step in steps]
        checker.equal("steps", case["steps"], shown)
        checker.equal("path", case["path"], join_path(steps))


def check_reference(case: Json, checker: Checker) -> None:
    """A reference and its bytes, with something behind it too; alone and as a block of one."""
    reference = Reference(case["version"], case["index"], parameters_of(case["params"]))
    data: bytes | None = checker.result("encode", case, lambda: encode(reference))
    if data is None:
        return
    checker.equal("bytes", case["hex"], data.hex())
    checker.equal("decoded", shown_reference(reference), shown_reference(decode_exact(data)))
    found, end = decode_prefix(b"\x7f" + data + b"\x00\x01", 1)
    checker.equal("decoded before other bytes", shown_reference(reference), shown_reference(found))
    checker.equal("end", len(data) + 1, end)
    block = ReferenceBlock.of(reference.version, [reference])
    again = ReferenceBlock.decode_exact(block.to_bytes())
    checker.equal("in a block", shown_reference(reference), shown_reference(again[0]))


def check_malformed(case: Json, checker: Checker) -> None:
    """Bytes that are no reference, and by what they are refused; as a block of one too."""
    _check_bytes(case, checker, any_error=False)


def check_damaged(case: Json, checker: Checker) -> None:
    """Bytes that were damaged: the reference that they still are, or an error."""
    _check_bytes(case, checker, any_error=True)


def _check_bytes(case: Json, checker: Checker, *, any_error: bool) -> None:
    data = bytes.fromhex(case["hex"])
    reference = checker.result("decode", case, lambda: decode_exact(data), any_error=any_error)
    # A block of one reference is the reference with the count 1 behind its version.
    head = 6 if data[:2] == b"\xff\xff" else 2
    if len(data) > head:
        block = data[:head] + b"\x01" + data[head:]
        read = checker.result("in a block", case, lambda: ReferenceBlock.decode_exact(block), any_error=any_error)
        if reference is not None and read is not None:
            checker.equal("in a block", shown_reference(reference), shown_reference(read[0]))
    if reference is not None:
        wanted = {name: case[name] for name in ("version", "index", "params")}
        checker.equal("reference", wanted, shown_reference(reference))
        checker.equal("bytes", case["hex"], encode(reference).hex())


def check_block(case: Json, checker: Checker) -> None:
    """A block, read and made."""
    data = bytes.fromhex(case["hex"])
    block: ReferenceBlock | None = checker.result("decode", case, lambda: ReferenceBlock.decode_exact(data))
    if block is None:
        return
    checker.equal("version", case["version"], block.version)
    shown = [{"index": one.index, "params": shown_parameters(one.parameters)} for one in block]
    checker.equal("references", case["refs"], shown)
    recorded = [Reference(case["version"], one["index"], parameters_of(one["params"])) for one in case["refs"]]
    checker.equal("bytes", case["hex"], ReferenceBlock.of(case["version"], recorded).to_bytes().hex())


def check_resolve(case: Json, checker: Checker) -> None:
    """What a reference means in a table of fields."""
    fields = case.get("fields", checker.shared.get("fields"))
    view = view_of(fields)
    if "index" not in case:
        checker.equal("fields", len(fields), len(view.table()))
        return
    reference = Reference(0, case["index"], parameters_of(case["params"]))
    address = checker.result("resolve", case, lambda: resolve(reference, view))
    if address is not None:
        checker.equal("address", case["address"], shown_address(address))


def view_of(fields: Json) -> View:
    """A registry of one version with these fields."""
    descriptors = [Descriptor(field["path"], field["type"]) for field in fields]
    return View(0, 0, {0: Table(0, descriptors, range(len(descriptors)))})


def parameters_of(params: Json) -> tuple[Parameter, ...]:
    """Parameters from their recorded form."""
    return tuple(_parameter(one["type"], one["value"]) for one in params)


def _parameter(name: str, value: Json) -> Parameter:
    match name:
        case "parent":
            return Parent(value)
        case "index":
            return Index(value)
        case "range":
            return Range(*value)
        case "indices":
            return Indices(tuple(value))
        case "ranges":
            return Ranges(tuple((start, end) for start, end in value))
        case "map_key":
            return MapKey(value)
    return Unknown(int(name.removeprefix("unknown:")), bytes.fromhex(value))


def shown_reference(reference: Reference) -> Json:
    """A reference in the form in which it is recorded."""
    return {
        "version": reference.version,
        "index": reference.index,
        "params": shown_parameters(reference.parameters),
    }


def shown_parameters(parameters: tuple[Parameter, ...]) -> Json:
    """Parameters in the form in which they are recorded."""
    return [dict(zip(("type", "value"), _shown(one), strict=True)) for one in parameters]


def shown_address(address: Address) -> Json:
    """An address in the form in which it is recorded."""
    return [dict([_shown_step(step)]) for step in address.steps]


def _shown(parameter: Parameter) -> tuple[str, Json]:
    match parameter:
        case Parent(number):
            return "parent", number
        case Index(number):
            return "index", number
        case Range(start, end):
            return "range", [start, end]
        case Indices(elements):
            return "indices", list(elements)
        case Ranges(ranges):
            return "ranges", [list(one) for one in ranges]
        case MapKey(key):
            return "map_key", key
        case Unknown(code, value):
            return f"unknown:{code}", value.hex()


def _shown_step(step: Step) -> tuple[str, Json]:
    if isinstance(step, Key):
        return "key", step.name
    return ("all", step.placeholder) if isinstance(step, All) else _shown(step)
