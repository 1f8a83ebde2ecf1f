"""A consumer of an object store, also in a child that was forked after the store was used."""

import os
import time

import pytest

from deltaic.consumer import Consumer
from deltaic.testing.stores import s3_server
from tests.unit.consumer.small_chain import SmallChain, watermarks

pytest.importorskip("moto", reason="no moto: pip install 'moto[server,s3]'")


@pytest.fixture(scope="module")
def server():
    with s3_server() as server:
        yield server


def test_a_chain_on_s3_is_followed_in_the_background_with_copies(server, tmp_path):
    chain = SmallChain(server.store("followed"))
    chain.publish()
    with Consumer(chain.store, cache_dir=tmp_path, poll_seconds=0.1) as consumer:
        chain.publish()
        assert consumer.wait_for(2, 20) and consumer.status().verified
        chain.announcements.pin(1)
        assert consumer.wait_for(1, 20, exact=True)
    assert all(step.from_cache for step in Consumer(chain.store, cache_dir=tmp_path).refresh(to=1).steps)


def test_a_forked_child_refreshes_from_s3(server):
    chain = SmallChain(server.store("forked"))
    chain.publish()
    chain.publish()
    consumer = Consumer(chain.store, cache_dir=False)
    consumer.refresh(to=1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            consumer.refresh()
            code = 0 if watermarks(consumer.state) == {2} else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 10
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hung")
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(found[1]) == 0
