"""Every error that deltaic raises.

    DeltaicError
    ├── InputError(ValueError)        the caller's arguments; has a code where a format page names one
    ├── SchemaError(ValueError)       a model that cannot be, or two that do not fit
    ├── DecodeError(ValueError)       the bytes are not what their format says; has code, reason, at
    │   ├── ChecksumError             the bytes are not those that were written
    │   └── LimitError                the bytes ask for more than `deltaic.limits` allows
    ├── RegistryError(ValueError)     a field reference, path or registry; has code, reason, offset, version, index
    ├── NotFoundError(LookupError)    no such dataset, type, field, version
    │   └── MissingKeyError(KeyError)   no record with the key that `[key]` asked for; has type_name, key
    ├── ChainError                    no way from one version to another
    ├── ValidationError               a validator refused the state
    ├── StorageError(OSError)         the store failed; nothing is known to have changed
    ├── CommitConflictError           another writer was first; nothing was written
    ├── PatchConflictError            a patch met another value than it expects; has key, path, found, expected
    ├── CommitUnknownError            the store did not answer; the commit may have landed
    └── MissingExtraError(ImportError)  an optional library is needed; says what to install

Constructor arguments are kept in `args`, so that every error survives pickling between Spark's processes.
"""


class DeltaicError(Exception):
    """The root of every error that deltaic raises."""


class InputError(DeltaicError, ValueError):
    """An argument of the caller is wrong."""

    def __init__(self, reason: str, code: str = "Input") -> None:
        super().__init__(reason, code)
        self.reason, self.code = reason, code

    def __str__(self) -> str:
        return self.reason


class SchemaError(DeltaicError, ValueError):
    """A model that cannot be, or two models that do not fit each other."""


class DecodeError(DeltaicError, ValueError):
    """The bytes are not what their format says."""

    def __init__(self, code: str, reason: str, at: str) -> None:
        super().__init__(code, reason, at)
        self.code, self.reason, self.at = code, reason, at

    def __str__(self) -> str:
        return f"{self.reason} (at {self.at})"


class ChecksumError(DecodeError):
    """The bytes are not those that were written."""


class LimitError(DecodeError):
    """The bytes ask for more than the limits allow."""


class RegistryError(DeltaicError, ValueError):
    """A field reference, a field path or a registry is not what its format says, or names what is not there.

    `code` is the name that the format page gives the condition; `offset` is the byte (of a path: the character)
    where it was found; version and index are those of the reference. What is not known is None.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        offset: int | None = None,
        version: int | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(code, reason, offset, version, index)
        self.code, self.reason = code, reason
        self.offset, self.version, self.index = offset, version, index

    def __str__(self) -> str:
        known = (("at byte", self.offset), ("version", self.version), ("field", self.index))
        where = ", ".join(f"{name} {value}" for name, value in known if value is not None)
        return f"{self.reason} ({where})" if where else self.reason


class NotFoundError(DeltaicError, LookupError):
    """There is no such dataset, type, field or version."""


class MissingKeyError(NotFoundError, KeyError):
    """No record of a type has the key that was asked for."""

    def __init__(self, type_name: str, key: object) -> None:
        super().__init__(type_name, key)
        self.type_name, self.key = type_name, key

    def __str__(self) -> str:
        return f"there is no {self.type_name} with the key {self.key!r}"


class ChainError(DeltaicError):
    """There is no way from one version to another."""


class ValidationError(DeltaicError):
    """A validator refused the state. Nothing was announced."""


class StorageError(DeltaicError, OSError):
    """The store failed."""


class CommitConflictError(DeltaicError):
    """Another writer committed first and the changes clash. Nothing was written; re-read, then retry."""


class PatchConflictError(DeltaicError):
    """A patch met another value than it expects, or nothing where it needs something. Nothing was written."""

    def __init__(
        self, type_name: str, key: object, path: str, found: object, expected: object, reason: str = ""
    ) -> None:
        super().__init__(type_name, key, path, found, expected, reason)
        self.type_name, self.key, self.path = type_name, key, path
        self.found, self.expected, self.reason = found, expected, reason

    def __str__(self) -> str:
        place = f"{self.type_name} {self.key!r}" + (f", {self.path}" if self.path else "")
        why = self.reason or f"{_shown(self.found)} is there, {_shown(self.expected)} was expected"
        return f"{place}: {why}"


class CommitUnknownError(DeltaicError):
    """The store did not answer. The commit may have landed: look for its token before trying again."""


class MissingExtraError(DeltaicError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(need, extra)
        self.need, self.extra = need, extra

    def __str__(self) -> str:
        return f"{self.need} needs the extra {self.extra!r}: pip install 'deltaic[{self.extra}]'"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
