"""A second reader of announcements, from docs/formats/announcement.md alone; it shares no code with the package."""

import json
import re
from itertools import pairwise
from typing import Any


class Refused(Exception):
    """Holds the code of the format page."""


def read(data: bytes) -> dict[str, Any]:
    need(len(data) <= 4 * 1024 * 1024, "TooLarge")
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=lambda _: need(False, "BadJson"))
    except (ValueError, RecursionError):
        raise Refused("BadJson") from None
    need(isinstance(value, dict) and type(value.get("format")) is int, "BadField")
    need(value["format"] == 1, "UnknownFormat")
    record(value)
    versions = [entry["version"] for entry in value["versions"]]
    need(all(later > earlier for later, earlier in pairwise(versions)), "VersionOrder")
    for entry in value["versions"]:
        names = [artifact["name"] for artifact in entry["artifacts"]]
        need(all(safe(name) for name in names), "UnsafeName")
        need(len(set(names)) == len(names), "TwiceListed")
    wanted = [*value["channels"].values()] + ([] if value["pin"] is None else [value["pin"]])
    need(all(version in versions for version in wanted), "UnlistedVersion")
    return value


def target(value: dict[str, Any], channel: str) -> int | None:
    if value["pin"] is not None:
        return value["pin"]
    return value["channels"].get(channel, value["channels"].get("main"))


def record(value: dict[str, Any]) -> None:
    count(value, "sequence")
    pattern(value.get("token"), r"[0-9a-f]{32}")
    for token in many(value, "tokens", 64):
        pattern(token, r"[0-9a-f]{32}")
    count(value, "written_ms")
    text(value, "writer")
    count(value, "epoch")
    need("lease" in value and "pin" in value and isinstance(value.get("channels"), dict), "BadField")
    if value["lease"] is not None:
        need(isinstance(value["lease"], dict), "BadField")
        text(value["lease"], "holder")
        count(value["lease"], "epoch")
        count(value["lease"], "expires_ms")
    need(len(value["channels"]) <= 16, "BadField")
    for name, version in value["channels"].items():
        pattern(name, r"[a-z][a-z0-9_-]{0,62}")
        is_version(version)
    if value["pin"] is not None:
        is_version(value["pin"])
    for entry in many(value, "versions", 1000):
        need(isinstance(entry, dict), "BadField")
        is_version(entry.get("version"))
        count(entry, "announced_ms")
        count(entry, "epoch")
        for name in many(entry, "channels", 16):
            pattern(name, r"[a-z][a-z0-9_-]{0,62}")
        need(type(entry.get("withdrawn", False)) is bool, "BadField")
        for artifact in many(entry, "artifacts", 10_000):
            need(isinstance(artifact, dict), "BadField")
            pattern(artifact.get("kind"), r"[a-z][a-z0-9_.-]{0,62}")
            text(artifact, "name")
            count(artifact, "size")
            pattern(artifact.get("checksum"), r"crc32c:[0-9a-f]{8}")
            for field in ("from_version", "to_version"):
                if artifact.get(field) is not None:
                    is_version(artifact[field])
            if artifact.get("codec") is not None:
                pattern(artifact["codec"], r"[a-z][a-z0-9_]{0,30}")
                count(artifact, "unpacked_size")
            else:
                need(artifact.get("unpacked_size") is None, "BadField")


def need(condition: bool, code: str) -> None:
    if not condition:
        raise Refused(code)


def count(value: dict[str, Any], field: str) -> None:
    need(type(value.get(field)) is int and 0 <= value[field] <= 2**53, "BadField")


def is_version(value: Any) -> None:
    need(type(value) is int and 0 <= value <= 2**63 - 2, "BadField")


def text(value: dict[str, Any], field: str) -> None:
    need(isinstance(value.get(field), str) and 1 <= len(value[field]) <= 255, "BadField")


def pattern(value: Any, expression: str) -> None:
    need(isinstance(value, str) and re.fullmatch(expression, value) is not None, "BadField")


def many(value: dict[str, Any], field: str, most: int) -> list[Any]:
    need(isinstance(value.get(field), list) and len(value[field]) <= most, "BadField")
    return value[field]


def safe(name: str) -> bool:
    return (
        "/" not in name and "\\" not in name and "\0" not in name and name not in (".", "..") and "%2e%2e" not in name
    )
