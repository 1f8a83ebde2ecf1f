"""The data source in a Connect session, and on an object store: what opens a store is in no plan and in no log."""

import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from deltaic.storage import open_store

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark_is_here"),
]

ROOT = Path(__file__).resolve().parents[3]
SECRET = "hunter2hunter2hunter2"


def run(*arguments, **variables):
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.spark.source_program", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def check(found):
    assert found["ids"] == [1, 4, 7, 10, 13, 16, 19]
    assert (found["copied"], found["rows"], found["progress"]) == (20, 20, [{"version": 1}])
    assert found["steps"] == ["sources", "created", "rows", "published"]


def test_a_connect_session_reads_writes_streams_and_runs_pipelines(tmp_path):
    found, _ = run("connect", tmp_path / "data", tmp_path)
    assert found["module"].startswith("pyspark.sql.connect")
    check(found)


@contextmanager
def s3_with_tls(folder):
    """An S3 server as it is outside: with a certificate. Tasks get nothing but a URL and their environment."""
    pytest.importorskip("moto", reason="no moto: pip install 'moto[server,s3]'")
    pytest.importorskip("cryptography")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    certificate, key = _certificate(folder)
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=(str(certificate), str(key)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", certificate
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _certificate(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "certificate.pem", folder / "key.pem"


def test_secrets_come_from_the_environment_and_are_seen_nowhere(tmp_path, monkeypatch):
    (tmp_path / "events").mkdir()
    with s3_with_tls(tmp_path) as (endpoint, certificate):
        variables = {
            "AWS_ACCESS_KEY_ID": "hunter",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "SSL_CERT_FILE": str(certificate),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        context = ssl.create_default_context(cafile=str(certificate))
        scope = "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        bucket = Request(f"{endpoint}/spark", method="PUT", headers={"Authorization": scope})
        urlopen(bucket, timeout=30, context=context).close()
        found, said = run("classic", "s3://spark/data", tmp_path, tmp_path / "events", **variables)
        check(found)
        logs = "".join(path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file())
        assert "deltaic" in logs and "SparkListenerSQLExecutionStart" in logs and "s3://spark/data/films" in logs
        assert SECRET not in logs and SECRET not in said
        store = open_store("s3://spark/data")
        assert SECRET.encode() not in b"".join(bytes(store.get(entry.key).data) for entry in store.list())
        checkpoints = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert SECRET.encode() not in checkpoints
