"""Options are read once, whatever the case of their names; what is wrong with them is said by name."""

import os

import pytest

pytest.importorskip("pyspark")

from deltaic.errors import InputError
from deltaic.spark.progress import StreamProgress, next_number
from deltaic.spark.request import ReadRequest, WriteRequest


def test_names_of_options_may_be_in_any_case():
    request = ReadRequest.of({"PATH": "/t", "VersionAsOf": "3", "maxRowsPerTrigger": "10", "Columns": "a, b"})
    assert (request.path, request.version, request.max_rows, request.columns) == ("/t", 3, 10, ("a", "b"))


def test_columns_with_commas_in_their_names_are_given_as_json():
    assert ReadRequest.of({"path": "/t", "columns": '["a,b","c"]'}).columns == ("a,b", "c")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:/data/t", "file:///data/t"),
        ("file:///data/t", "file:///data/t"),
        ("s3://bucket/t", "s3://bucket/t"),
        ("memory:x", "memory:x"),
        ("t/x", os.path.abspath("t/x")),
        ("t/a:b", os.path.abspath("t/a:b")),
    ],
)
def test_a_path_means_the_same_in_every_process(given, path):
    assert ReadRequest.of({"path": given}).path == path


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "no path"),
        ({"path": "/t", "version": "x"}, "option version: 'x' is no number"),
        ({"path": "/t", "limit": "-1"}, "option limit: -1, the smallest is 0"),
        ({"path": "/t", "bytesPerTask": "0"}, "the smallest is 1"),
        ({"path": "/t", "changes": "yes"}, "'true' or 'false'"),
        ({"path": "/t", "columns": '["a"'}, "option columns"),
        ({"path": "/t", "versoin": "1"}, "versoin are unknown"),
        ({"path": "/t", "version": "1", "tag": "x"}, "one of them says when"),
        ({"path": "/t", "startingVersion": "1", "startingOffset": "{}"}, "one of them says where"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(options, complaint):
    with pytest.raises(InputError, match=complaint):
        ReadRequest.of(options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"txnVersion": "1"}, "needs txnAppId"),
        ({"partitionOverwriteMode": "some"}, "'static' or 'dynamic'"),
        ({"user": "[]"}, "JSON object of texts"),
        ({"user": '{"a": 1}'}, "JSON object of texts"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(options, complaint):
    with pytest.raises(InputError, match=complaint):
        WriteRequest.of({"path": "/t", **options})


@pytest.mark.parametrize(
    "name",
    [
        "aws_secret_access_key",
        "accessKey",
        "AWS_SESSION_TOKEN",
        "password",
        "azure_storage_sas_key",
        "fs.s3a.secret.key",
    ],
)
@pytest.mark.parametrize("of", [ReadRequest.of, WriteRequest.of])
def test_a_secret_is_no_option_and_its_value_is_not_said(name, of):
    with pytest.raises(InputError, match="secrets are no options") as refused:
        of({"path": "/t", name: "hunter2"})
    assert "hunter2" not in str(refused.value)


class TestNumbers:
    """By which number a batch goes into the table, or why not."""

    LAST = StreamProgress("films", 7, "query", 7)

    def test_the_first_checkpoint_numbers_as_spark_does(self):
        assert next_number(None, "films", "query", 0, None) == 0

    def test_the_next_batch_follows(self):
        assert next_number(self.LAST, "films", "query", 8, None) == 8

    def test_a_batch_that_comes_again_is_there(self):
        assert next_number(self.LAST, "films", "query", 7, None) is None

    def test_an_older_checkpoint_is_refused(self):
        with pytest.raises(InputError, match="checkpoint is older") as refused:
            next_number(self.LAST, "films", "query", 6, None)
        assert refused.value.code == "OldCheckpoint"

    @pytest.mark.parametrize("batch", [0, 7, 8])
    def test_another_checkpoint_is_refused_whatever_its_batch(self, batch):
        with pytest.raises(InputError, match="from another checkpoint") as refused:
            next_number(self.LAST, "films", "other", batch, None)
        assert refused.value.code == "NewCheckpoint"

    def test_another_checkpoint_that_knows_what_is_there_goes_on(self):
        assert next_number(self.LAST, "films", "other", 0, 7) == 8
        assert next_number(self.LAST, "films", "other", 2, 7) == 10

    def test_one_that_knows_less_than_is_there_is_refused(self):
        with pytest.raises(InputError, match="from another checkpoint"):
            next_number(self.LAST, "films", "other", 0, 6)

    def test_what_another_kind_of_writer_left_is_no_checkpoint_of_ours(self):
        with pytest.raises(InputError, match="from another checkpoint"):
            next_number(StreamProgress("films", 7), "films", "query", 8, None)

    def test_to_go_on_after_nothing_is_refused(self):
        with pytest.raises(InputError, match="has nothing of films"):
            next_number(None, "films", "query", 0, 7)
