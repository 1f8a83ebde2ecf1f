"""Names from data become keys and paths here, and nowhere else.

A key is `/`-separated segments. Each segment is checked on its own, then once more after percent-decoding, because
some layer below (an HTTP client, a gateway, a proxy) may decode it. Refused are: empty segments, `.` and `..`,
absolute names, backslashes, drive letters, a leading `~`, control characters, lone surrogates, more than 255 bytes in
a segment or 1,024 in a key, and trailing dots or spaces (Windows drops them, so two names would be one file).

Two names that a file system might take for one:

- Unicode: only NFC is accepted. An NFD spelling is refused, so its twin cannot exist.
- Case: names keep their case and are compared byte for byte, as object stores do. Where several names from data land
  in one folder, `refuse_twins` refuses those that differ by case only, so that the folder can be copied to a laptop.
"""

import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

from deltaic.errors import InputError

MAX_SEGMENT_BYTES = 255
"""The longest name that common file systems take."""

MAX_KEY_BYTES = 1024
"""The longest key that S3 takes."""

RESERVED_PREFIX = ".deltaic-"
"""Segments that start so belong to the local store (temporary files, its lock)."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_DECODE_ROUNDS = 3


def safe_join(base: str, *names: str) -> str:
    """Join names that come from data to a trusted key; each name is one segment and cannot leave `base`.

    Raises:
        InputError: with code `UnsafeName` if a name is not safe.
    """
    for name in names:
        check_segment(name)
    return join_key(base, "/".join(names))


def safe_relative(base: str, path: str) -> str:
    """Join a `/`-separated relative path that comes from data (a split path, an archive member) to a trusted key."""
    return join_key(base, check_key(path))


def join_key(base: str, key: str) -> str:
    """Join two keys that were checked already; an empty base is the root."""
    joined = f"{base}/{key}" if base and key else base or key
    if len(joined.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise _unsafe(joined, f"is longer than {MAX_KEY_BYTES} bytes")
    return joined


def check_key(key: str) -> str:
    """Give the key back if every segment is safe."""
    if not key:
        raise _unsafe(key, "is empty")
    if len(key) > MAX_KEY_BYTES or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise _unsafe(key, f"is longer than {MAX_KEY_BYTES} bytes")
    for segment in key.split("/"):
        check_segment(segment, of=key)
    return key


def check_segment(name: str, *, of: str | None = None) -> str:
    """Give the name back if it is one safe segment of a key."""
    shown = name if of is None else of
    if not name:
        raise _unsafe(shown, "has an empty segment")
    try:
        size_bytes = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise _unsafe(shown, "has a lone surrogate") from None
    if size_bytes > MAX_SEGMENT_BYTES:
        raise _unsafe(shown, f"has a segment of more than {MAX_SEGMENT_BYTES} bytes")
    if "/" in name or "\\" in name:
        raise _unsafe(shown, "has a separator inside a segment")
    if _CONTROL.search(name):
        raise _unsafe(shown, "has a control character")
    if not unicodedata.is_normalized("NFC", name):
        raise _unsafe(shown, "is not in Unicode normal form NFC")
    if name.startswith(RESERVED_PREFIX):
        raise _unsafe(shown, f"starts with {RESERVED_PREFIX!r}, which the local store keeps for itself")
    _refuse_traversal(name, shown)
    if name[-1] in ". ":
        raise _unsafe(shown, "ends with a dot or a space")
    _refuse_encoded_traversal(name, shown)
    return name


def refuse_twins(names: Iterable[str]) -> None:
    """Refuse names that a file system without case or with its own normal form would take for one file."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        other = seen.setdefault(folded, name)
        if other != name:
            raise InputError(f"the names {_shown(other)} and {_shown(name)} are one file on some systems", "TwinNames")


def _refuse_traversal(name: str, shown: object) -> None:
    if name in (".", ".."):
        raise _unsafe(shown, "leads out of its folder")
    if name.startswith("~"):
        raise _unsafe(shown, "starts with a tilde")
    if _DRIVE.match(name):
        raise _unsafe(shown, "starts with a drive letter")


def _refuse_encoded_traversal(name: str, shown: object) -> None:
    # `%2F` inside a partition value is fine: it stays one segment here, and decoded it stays inside the folder.
    decoded = name
    for _ in range(_DECODE_ROUNDS):
        if not _PERCENT.search(decoded):
            return
        decoded = unquote(decoded, errors="replace")
        parts = re.split(r"[/\\]", decoded)
        if not parts[0] and len(parts) > 1:
            raise _unsafe(shown, "is absolute once percent-decoded")
        for part in parts:
            # Trailing dots and spaces are dropped by some systems, so `.. ` and `...` count as well.
            if part and not part.strip(". "):
                raise _unsafe(shown, "leads out of its folder once percent-decoded")
        _refuse_traversal(parts[0], shown)
    if _PERCENT.search(decoded):
        raise _unsafe(shown, "is percent-encoded again and again")


def _unsafe(name: object, why: str) -> InputError:
    return InputError(f"the name {_shown(name)} {why}", "UnsafeName")


def _shown(name: object) -> str:
    # ascii() keeps control characters and look-alikes of a hostile name out of logs.
    text = ascii(name)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"
