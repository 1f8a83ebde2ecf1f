"""Credentials stay out of logs, errors, reprs and pickles.

Secrets reach a store by options (wrapped in `Secret` at once), by the environment, or by the machine's role. A URL is
no place for them: one with a user, a password, a query or a fragment is refused, and the refusal does not repeat it.
Text of other libraries passes `redact` before it becomes part of an error or a log line.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn
from urllib.parse import quote, quote_plus, urlsplit

from deltaic.errors import InputError

HIDDEN = "[hidden]"
"""What stands in the place of a secret."""

_SECRET_NAME = re.compile(
    r"key|secret|token|password|passwd|credential|signature|\bsas\b|sas_|_sas|auth|bearer|private", re.IGNORECASE
)
_OPEN_NAME = re.compile(r"key_?prefix|key_?format|(skip|disable|unsigned|virtual|use)_", re.IGNORECASE)
_SECRET_TEXT = (
    re.compile(
        r"(?i)((?:[?&;,\s\"'{(]|^)(?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature"
        r"|x-goog-credential|awsaccesskeyid|accountkey|access_token|token|password|secret[a-z_]*)\s*[=:]\s*\"?)[^&\s,;\"')}]+"
    ),
    re.compile(r"(?i)((?:authorization|x-amz-security-token|x-ms-copy-source-authorization)\"?\s*[:=]\s*)[^\r\n]+"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]+"),
    re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@\"']+@", re.IGNORECASE),
)
_MIN_SECRET_LENGTH = 4


class Secret:
    """A text that shows itself only to `reveal`, and does not pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, to be handed to a client library and nowhere else."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise InputError("a secret is not pickled: give it to the other process by its environment", "SecretPickled")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def is_secret_name(name: str) -> bool:
    """True if an option or variable of that name holds a credential."""
    return bool(_SECRET_NAME.search(name)) and not _OPEN_NAME.search(name)


def wrap_options(options: Mapping[str, object]) -> dict[str, object]:
    """The options with every credential wrapped."""
    return {
        name: Secret(value) if isinstance(value, str) and is_secret_name(name) else value
        for name, value in options.items()
    }


def secrets_of(options: Mapping[str, object], environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Every secret text of the options and of the environment, longest first."""
    found = {value.reveal() for value in options.values() if isinstance(value, Secret)}
    for name, value in (os.environ if environment is None else environment).items():
        if name.upper().startswith(("AWS_", "AZURE_", "GOOGLE_", "GCS_", "MSI_", "IDENTITY_")) and is_secret_name(name):
            found.add(value)
    return tuple(sorted((text for text in found if len(text) >= _MIN_SECRET_LENGTH), key=len, reverse=True))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets, in plain or URL form, and without what looks like a signature or password."""
    for secret in secrets:
        for form in {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}:
            text = text.replace(form, HIDDEN)
    for pattern in _SECRET_TEXT:
        text = pattern.sub(lambda match: match.group(1) + HIDDEN + ("@" if match.group(0).endswith("@") else ""), text)
    return text


def check_url(url: str) -> None:
    """Refuse a URL that carries credentials, without repeating them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InputError("the URL of a store cannot be read", "BadUrl") from None
    if "@" in parts.netloc:
        raise InputError(
            f"a {parts.scheme} URL with a user or password in it: give credentials as options or by the environment",
            "CredentialsInUrl",
        )
    if parts.query or parts.fragment:
        raise InputError(
            f"a {parts.scheme} URL with a query or fragment (a signed link?): "
            "give credentials as options or by the environment",
            "CredentialsInUrl",
        )
