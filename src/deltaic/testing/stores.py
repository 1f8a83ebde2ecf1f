"""The testing stores in one place, and an S3 server for tests.

    with s3_server() as server:
        store = server.store("bucket-of-my-test")

needs moto (`pip install 'moto[server,s3]'`); it listens on the loopback interface only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import Request, urlopen

from deltaic.errors import MissingExtraError
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.dishonest_disk import DishonestDisk
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultKind, FaultyStore, Moment
from deltaic.testing.simulated_store import Call, FaultRates, SimulatedStore
from deltaic.testing.stepped_disk import SteppedDisk
from deltaic.testing.store_conformance import StoreConformance, check_store


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running S3 server that keeps its objects in memory."""

    endpoint: str

    def store(self, bucket: str, *, prefix: str = "", read_retries: int = 2) -> Store:
        """A store in a bucket, which is made if it is not there."""
        request = Request(f"{self.endpoint}/{bucket}", method="PUT", headers={"Authorization": _AUTHORIZATION})
        urlopen(request, timeout=30).close()
        return open_store(
            f"s3://{bucket}/{prefix}",
            options={
                "endpoint": self.endpoint,
                "region": "us-east-1",
                "access_key_id": "test-key-id",
                "secret_access_key": "test-secret-key",
                "allow_http": True,
            },
            read_retries=read_retries,
        )


# moto takes the service from the credential scope of the signature, which it does not check.
_AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run an S3 server (moto) on a free port of the loopback interface."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        raise MissingExtraError("an S3 server for tests (moto)", "dev") from None
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()


__all__ = [
    "EVERY_FAULT",
    "Call",
    "DishonestDisk",
    "Fault",
    "FaultKind",
    "FaultRates",
    "FaultyStore",
    "Moment",
    "S3Server",
    "SimulatedStore",
    "SteppedDisk",
    "StoreConformance",
    "check_store",
    "s3_server",
]
