"""The same cycle on S3."""

import pytest

pytest.importorskip("moto")

from deltaic.errors import CommitConflictError
from deltaic.producer import clean_chain
from deltaic.testing.stores import s3_server
from tests.unit.producer.catalogue import check_chain, content_of, movie, movies, producer_of, read


def test_versions_are_published_and_followed_on_s3() -> None:
    with s3_server() as server:
        store = server.store("publish", prefix="movies/chain")
        with producer_of(store) as producer:
            producer.publish(movies(1, 2, 3))
            with producer.incremental() as changes:
                changes.add_or_modify(movie(2, "changed"))
                changes.delete("Movie", 3)
            with pytest.raises(CommitConflictError):
                producer_of(store).publish(movies(9))
        store.put("delta-2-3", b"left by a crash")
        with producer_of(store) as producer:
            assert producer.publish(movies(5)).version == 3
        assert read(store) == (3, content_of(movies(5)))
        check_chain(store)
        clean_chain(store, keep_snapshots=1, keep_versions=1, older_than_seconds=-10, dry_run=False)
        assert read(store) == (3, content_of(movies(5)))
