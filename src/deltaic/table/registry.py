"""Schema de-duplication: a document mapping is stored once and referred to by its hash.

The hash is of a canonical form: members sorted, lists of named objects sorted by name, compact JSON, SHA-256, the first
16 characters of base64url. What is stored is the text as it was given. In a state's registry keys are bare hashes;
in `metaData.configuration` they have the prefix `docMappingSchema.`; both are read everywhere.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from deltaic.errors import DecodeError
from deltaic.table.actions import AddFile, Metadata

PREFIX = "docMappingSchema."
"""What the keys of schemas in a table's configuration start with."""


def mapping_hash(text: str) -> str:
    """The hash by which files refer to a document mapping."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        data = text.encode("utf-8", "surrogatepass")
    else:
        data = canonical_text(value).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()[:12]).decode()


def canonical_text(value: Any) -> str:
    """The compact JSON of the canonical form."""
    return json.dumps(_canonical(value), separators=(",", ":"), ensure_ascii=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if items and all(isinstance(item, dict) and "name" in item for item in items):
            items.sort(key=lambda item: item["name"] if isinstance(item["name"], str) else json.dumps(item["name"]))
        return items
    return value


def registry_of(schemas: Mapping[str, str], metadata: Metadata | None) -> dict[str, str]:
    """One lookup table: what a state registers and what the configuration does, by bare hash."""
    found = schemas_in(metadata.configuration) if metadata is not None else {}
    for key, text in schemas.items():
        found[key.removeprefix(PREFIX)] = text
    return found


def schemas_in(configuration: Mapping[str, str]) -> dict[str, str]:
    """The schemas of a table's configuration by bare hash; other keys are no schemas."""
    return {key.removeprefix(PREFIX): text for key, text in configuration.items() if key.startswith(PREFIX)}


def referenced(adds: Iterable[AddFile], known: Mapping[str, str]) -> tuple[list[AddFile], dict[str, str]]:
    """Files with their inline mappings turned into references, and the schemas that were not known yet."""
    new: dict[str, str] = {}
    hashes: dict[str, str] = {}
    kept: list[AddFile] = []
    for add in adds:
        text = add.doc_mapping_json
        if text is None:
            kept.append(add)
            continue
        reference = hashes.get(text)
        if reference is None:
            reference = hashes[text] = mapping_hash(text)
            if reference not in known:
                new.setdefault(reference, text)
        kept.append(replace(add, doc_mapping_json=None, doc_mapping_ref=reference))
    return kept, new


def renormalized(registry: Mapping[str, str]) -> dict[str, str]:
    """For each registered hash the one of its text: schemas that differ only in order fall together."""
    return {reference: mapping_hash(text) for reference, text in registry.items()}


def resolve(add: AddFile, registry: Mapping[str, str]) -> list[Any] | None:
    """The document mapping of a file, or None if it has none.

    Entries of type `object` without fields are left out, because search engines refuse them.
    """
    text = add.doc_mapping_json
    if text is None and add.doc_mapping_ref is not None:
        text = registry.get(add.doc_mapping_ref)
        if text is None:
            reason = f"{add.path} refers to the schema {add.doc_mapping_ref}, which is not registered"
            raise DecodeError("MissingSchema", reason, add.path)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError("BadJson", f"the document mapping is no JSON: {error}", add.path) from error
    entries = value.get("field_mappings") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise DecodeError("BadSchema", "the document mapping is no list of fields", add.path)
    return [entry for entry in entries if not _empty_object(entry)]


def _empty_object(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "object" and entry.get("field_mappings") == []
