"""Fake credentials through every door; then every log, error, repr and pickle is searched for them."""

import copy
import logging
import pickle
import traceback
from collections.abc import Callable

import pytest

from deltaic.errors import CommitUnknownError, DeltaicError, InputError, StorageError
from deltaic.storage.credentials import Secret, is_secret_name, redact, wrap_options
from deltaic.storage.remote import RemoteStore
from deltaic.storage.urls import open_store

ACCESS, SECRET, TOKEN = "AKIAFAKE0123456789", "wJalrFAKE/K7MDENG+bPxRfiCY=", "FwoGZXIvYXdzEFAKE//token=="
SAS = "sv=2024&sig=FAKEsignature%3D"
SECRETS = (ACCESS, SECRET, TOKEN, "FAKEsignature", "hunter2", "wJalrFAKE", "FwoGZXIvYXdzEFAKE")


def everything(error: BaseException) -> str:
    """All that a log or an error collector could show of an error, its causes and contexts included."""
    parts = ["".join(traceback.format_exception(error))]
    seen: BaseException | None = error
    while seen is not None:
        parts += [str(seen), repr(seen), repr(seen.args), repr(pickle.dumps(seen))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


def assert_clean(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text, f"{secret} is shown"


@pytest.fixture
def fake_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "ZmFrZWh1bnRlcjI=")


def closed_port_store(options: dict[str, object] | None = None) -> RemoteStore:
    # Port 9 (discard) of the loopback interface: nobody answers.
    return RemoteStore(
        "s3://bucket/prefix",
        options={"endpoint": "http://127.0.0.1:9", "allow_http": True, "region": "us-east-1", **(options or {})},
        timeout_seconds=2,
        read_retries=0,
    )


WITH_SECRETS: dict[str, object] = {"access_key_id": ACCESS, "secret_access_key": SECRET, "session_token": TOKEN}


@pytest.mark.parametrize(
    "url",
    [
        f"s3://{ACCESS}:hunter2@bucket/x",
        f"s3://bucket/x?X-Amz-Signature={ACCESS}",
        f"az://container/x?{SAS}",
        f"gs://bucket/x#{ACCESS}",
        f"ftp://user:hunter2@host/{ACCESS}",
        f"file:///data?token={ACCESS}",
        "s3://user:hunter2@[broken/x",
    ],
)
def test_a_url_with_credentials_is_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(InputError) as caught:
        open_store(url)
    assert_clean(everything(caught.value))


CALLS: dict[str, Callable[[RemoteStore], object]] = {
    "get": lambda store: store.get("k"),
    "head": lambda store: store.head("k"),
    "list": lambda store: list(store.list()),
    "put": lambda store: store.put("k", b""),
    "put_chunks": lambda store: store.put_chunks("k", [b"x" * 9_000_000] * 3),
    "put_if_absent": lambda store: store.put_if_absent("k", b""),
    "put_if_match": lambda store: store.put_if_match("k", b"", "etag"),
    "delete": lambda store: store.delete("k"),
    "folders": lambda store: store.folders(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("door", ["options", "environment"])
@pytest.mark.usefixtures("fake_environment")
def test_errors_and_logs_of_a_failing_store_hold_no_secret(
    call: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = closed_port_store(WITH_SECRETS if door == "options" else None)
    with pytest.raises((StorageError, CommitUnknownError)) as caught:
        CALLS[call](store)
    assert isinstance(caught.value, CommitUnknownError) == call.startswith("put_if")
    assert caught.value.__context__ is None
    assert_clean(everything(caught.value))
    assert_clean(caplog.text)


def test_an_error_that_repeats_the_secrets_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = closed_port_store(WITH_SECRETS)

    class Talkative:
        def __getattr__(self, name: str) -> Callable[..., object]:
            def fail(*arguments: object, **options: object) -> object:
                raise RuntimeError(
                    f"GET https://{ACCESS}:hunter2@host/k?X-Amz-Signature=FAKEsignature&x=1 {SECRET} "
                    f"Authorization: AWS4 {TOKEN}\n\nDebug source: {SECRET}"
                )

            return fail

    monkeypatch.setattr(store, "_backend", Talkative())
    monkeypatch.setattr(store, "_once", Talkative())
    for call in CALLS.values():
        with pytest.raises(DeltaicError) as caught:
            call(store)
        assert_clean(everything(caught.value))
        assert "s3://bucket/prefix" in str(caught.value)


def test_the_repr_and_url_of_a_store_hold_no_secret() -> None:
    store = closed_port_store(WITH_SECRETS)
    assert repr(store) == "RemoteStore('s3://bucket/prefix')"
    assert_clean(f"{store!r} {store} {store.url} {store.child('a')!r} {vars(store)!r}")


def test_a_pickled_store_has_left_its_secrets_at_home() -> None:
    store = closed_port_store(WITH_SECRETS).child("deep")
    data = pickle.dumps(store)
    assert_clean(data.decode("latin-1"))
    other = pickle.loads(data)
    assert other.url == "s3://bucket/prefix/deep"
    assert other._path("k") == "prefix/deep/k"
    assert "region" in other._options
    assert not any(isinstance(value, Secret) for value in other._options.values())
    assert_clean(repr(pickle.dumps(other)))
    assert_clean(repr(vars(copy.copy(other))))


def test_a_store_without_its_secrets_says_why_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from obstore.exceptions import PermissionDeniedError

    other = pickle.loads(pickle.dumps(closed_port_store(WITH_SECRETS)))

    class Refusing:
        def head(self, path: str) -> object:
            raise PermissionDeniedError("403")

    monkeypatch.setattr(other, "_backend", Refusing())
    with pytest.raises(StorageError, match="set them in the environment"):
        other.head("k")


def test_a_memory_store_is_not_pickled() -> None:
    with pytest.raises(InputError):
        pickle.dumps(open_store("memory:"))


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    assert_clean(f"{secret} {secret!r} {secret:>20} {[secret]} {{'k': {secret}}}")
    with pytest.raises(InputError):
        pickle.dumps(secret)
    assert secret == Secret("hunter2") != Secret("other")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("secret_access_key", True),
        ("aws_session_token", True),
        ("account_key", True),
        ("sas_token", True),
        ("azure_storage_sas_key", True),
        ("service_account_key", True),
        ("client_secret", True),
        ("access_key_id", True),
        ("password", True),
        ("bearer_token", True),
        ("region", False),
        ("endpoint", False),
        ("bucket", False),
        ("account_name", False),
        ("skip_signature", False),
        ("allow_http", False),
    ],
)
def test_options_are_known_as_secret_by_their_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
    assert isinstance(wrap_options({name: "x"})[name], Secret) is secret


def test_redaction_knows_encoded_forms_and_leaves_the_rest() -> None:
    text = redact("put https://h/k?a=1&sig=abc%3D failed: wJalrFAKE%2FK7MDENG%2BbPxRfiCY%3D at 12:30", [SECRET])
    assert_clean(text)
    assert "sig=abc" not in text
    assert text.startswith("put https://h/k?a=1&") and text.endswith("at 12:30")
    assert redact("cannot read s3://bucket/a/key-1.json: 404") == "cannot read s3://bucket/a/key-1.json: 404"


def test_an_unknown_option_is_refused_without_its_value() -> None:
    nonsense: dict[str, object] = dict.fromkeys(["nonsense_secret"], SECRETS[4])
    with pytest.raises(InputError) as caught:
        RemoteStore("s3://bucket", options=nonsense)
    assert "nonsense_secret" in str(caught.value)
    assert_clean(everything(caught.value))
