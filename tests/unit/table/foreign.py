"""Index tables of every generation, written as other programs would: a plain script that shares no code with deltaic.

first_text   the protocol text: version files, `_manifest.json`, JSON checkpoints in one file or in parts
scala        states only, `_manifest.avro`, bare hashes, null metadata, addedAtVersion 0
rust         bare gzip version files, a state for each, prefixed schema keys, inline mappings
"""

import gzip
import io
import json
import os
from pathlib import Path

import fastavro

MAPPING = '[{"fast":true,"indexed":true,"name":"id","stored":true,"type":"i64"}]'


def spark_schema(**columns):
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def protocol(version=4, **more):
    return {"protocol": {"minReaderVersion": version, "minWriterVersion": version, **more}}


def metadata(schema=None, partitions=(), configuration=None, **more):
    return {
        "metaData": {
            "id": "11111111-2222-4333-8444-555555555555",
            "name": None,
            "description": None,
            "format": {"provider": "indextables", "options": {}},
            "schemaString": schema or spark_schema(id="long", day="string"),
            "partitionColumns": list(partitions),
            "configuration": configuration or {},
            "createdTime": 1_700_000_000_000,
            **more,
        }
    }


def add(path, **more):
    members = {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
    }
    return {"add": {**members, **more}}


def remove(path, **more):
    return {"remove": {"path": path, "deletionTimestamp": 1_700_000_000_001, "dataChange": True, **more}}


def skip(path, **more):
    members = {"path": path, "skipTimestamp": 1_700_000_000_000, "reason": "broken", "operation": "merge"}
    return {"mergeskip": {**members, "retryAfter": 4_000_000_000_000, "skipCount": 1, **more}}


def lines(actions):
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def packed(actions, encoding="prefixed"):
    text = lines(actions)
    if encoding == "plain":
        return text
    return (b"\x01\x01" if encoding == "prefixed" else b"") + gzip.compress(text)


class Foreign:
    """A table's folder, written file by file."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.log = self.folder / "_transaction_log"
        (self.log / "manifests").mkdir(parents=True)

    def version(self, number, actions, encoding="prefixed"):
        (self.log / f"{number:020}.json").write_bytes(packed(actions, encoding))

    def checkpoint(self, number, actions, encoding="prefixed"):
        (self.log / f"{number:020}.checkpoint.json").write_bytes(packed(actions, encoding))

    def checkpoint_in_parts(self, number, actions, per_part, encoding="prefixed"):
        names = []
        for part, first in enumerate(range(0, len(actions), per_part), 1):
            names.append(f"{number:020}.checkpoint.a1b2c3d4e5f6.{part:05}.json")
            (self.log / names[-1]).write_bytes(packed(actions[first : first + per_part], encoding))
        listed = {"version": number, "checkpointId": "a1b2c3d4e5f6", "parts": names, "createdTime": 1, "format": "json"}
        (self.log / f"{number:020}.checkpoint.json").write_text(json.dumps(listed))

    def hint(self, version, **more):
        values = {"version": version, "size": 1, "sizeInBytes": 1, "numFiles": 1, "createdTime": 1, **more}
        (self.log / "_last_checkpoint").write_text(json.dumps(values))

    def avro_hint(self, version):
        self.hint(version, format="avro-state", stateDir=f"state-v{version:020}", parts=None, checkpointId=None)

    def manifest(self, name, entries, *, codec="zstandard", schema=None, folder="manifests"):
        out = io.BytesIO()
        fastavro.writer(
            out, fastavro.parse_schema(schema or FILE_ENTRY), [entry(**one) for one in entries], codec=codec
        )
        os.makedirs(self.log / folder, exist_ok=True)
        (self.log / folder / f"manifest-{name}.avro").write_bytes(out.getvalue())
        return f"{folder}/manifest-{name}.avro"

    def state(self, version, manifests, *, form="avro", codec="zstandard", **more):
        infos = [
            {
                "path": path,
                "numEntries": count,
                "minAddedAtVersion": 0,
                "maxAddedAtVersion": 0,
                "partitionBounds": bounds,
                "tombstoneCount": 0,
                "liveEntryCount": -1,
            }
            for path, count, bounds in (one if len(one) == 3 else (*one, None) for one in manifests)
        ]
        values = {
            "formatVersion": 1,
            "stateVersion": version,
            "createdAt": 1_700_000_000_000 + version,
            "numFiles": sum(info["numEntries"] for info in infos) - len(more.get("tombstones", ())),
            "totalBytes": 10,
            "manifests": infos,
            "tombstones": [],
            "schemaRegistry": {},
            "protocolVersion": 4,
            "metadata": None,
            **more,
        }
        folder = self.log / f"state-v{version:020}"
        folder.mkdir()
        if form == "json":
            slim = {key: value for key, value in values.items() if value not in ([], {}, None)}
            (folder / "_manifest.json").write_text(json.dumps(slim, indent=2))
            return
        out = io.BytesIO()
        fastavro.writer(out, fastavro.parse_schema(STATE), [values], codec=codec)
        (folder / "_manifest.avro").write_bytes(out.getvalue())


def entry(path, **more):
    members = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
    return {**members, "hasFooterOffsets": False, "addedAtVersion": 0, "addedAtTimestamp": 1, **more}


_MAP = {"type": "map", "values": "string"}


def _optional(name, kind, number):
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


FILE_ENTRY = {
    "type": "record",
    "name": "io.indextables.state.FileEntry",
    "doc": "A file entry representing a split in the table state",
    "fields": [
        {"name": "path", "type": "string", "field-id": 100},
        {"name": "partitionValues", "type": _MAP, "field-id": 101},
        {"name": "size", "type": "long", "field-id": 102},
        {"name": "modificationTime", "type": "long", "field-id": 103},
        {"name": "dataChange", "type": "boolean", "field-id": 104},
        _optional("stats", "string", 110),
        _optional("minValues", _MAP, 111),
        _optional("maxValues", _MAP, 112),
        _optional("numRecords", "long", 113),
        _optional("footerStartOffset", "long", 120),
        _optional("footerEndOffset", "long", 121),
        {"name": "hasFooterOffsets", "type": "boolean", "default": False, "field-id": 124},
        _optional("splitTags", {"type": "array", "items": "string"}, 132),
        _optional("numMergeOps", "int", 134),
        _optional("docMappingRef", "string", 135),
        _optional("uncompressedSizeBytes", "long", 136),
        {"name": "addedAtVersion", "type": "long", "field-id": 140},
        {"name": "addedAtTimestamp", "type": "long", "field-id": 141},
    ],
}

STATE = {
    "type": "record",
    "name": "io.indextables.state.StateManifest",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {
            "name": "manifests",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "ManifestInfoItem",
                    "fields": [
                        {"name": "path", "type": "string"},
                        {"name": "numEntries", "type": "long"},
                        {"name": "minAddedAtVersion", "type": "long"},
                        {"name": "maxAddedAtVersion", "type": "long"},
                        {
                            "name": "partitionBounds",
                            "type": [
                                "null",
                                {
                                    "type": "map",
                                    "values": {
                                        "type": "record",
                                        "name": "PartitionBoundsItem",
                                        "fields": [
                                            {"name": "min", "type": ["null", "string"], "default": None},
                                            {"name": "max", "type": ["null", "string"], "default": None},
                                        ],
                                    },
                                },
                            ],
                            "default": None,
                        },
                        {"name": "tombstoneCount", "type": "long", "default": 0},
                        {"name": "liveEntryCount", "type": "long", "default": -1},
                    ],
                },
            },
        },
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "metadata", "type": ["null", "string"], "default": None},
    ],
}


def state_manifest(path):
    """What a state says, read by a library that deltaic does not use for it."""
    with open(path, "rb") as file:
        return next(iter(fastavro.reader(file)))


def manifest_entries(path):
    with open(path, "rb") as file:
        return list(fastavro.reader(file))
