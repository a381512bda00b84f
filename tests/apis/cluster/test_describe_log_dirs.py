"""Expected values are those of Apache Kafka."""

import errno
import os

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest
from tests.apis.data.test_delete_records import create, produce
from tests.apis.desk import DIRECTORY, Desk


@pytest.fixture
def desk():
    desk = Desk()
    create(desk, "a")
    create(desk, "b", 3)
    produce(desk, "b", 1)
    produce(desk, "b", 1)
    produce(desk, "b", 2)
    return desk


def describe(desk, *wanted, version=5):
    """Describe the one directory, with all partitions by default."""
    topics = [DescribeLogDirsRequest.DescribableLogDirTopic(*topic) for topic in wanted] or None
    (directory,) = desk.ask(DescribeLogDirsRequest(topics), version).results
    return directory


def sizes(directory):
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in directory.topics
    }


@pytest.mark.parametrize("version", versions_of(DescribeLogDirsRequest))
def test_the_directory_its_disk_and_all_partitions_are_described(desk, version):
    found = describe(desk, version=version)
    assert (found.error_code, found.log_dir, found.is_cordoned) == (0, str(DIRECTORY), False)
    free = desk.files.free
    assert (found.total_bytes, found.usable_bytes) == ((2 * free, free) if version >= 4 else (-1, -1))
    one = sizes(found)["b"][2]
    assert one > 0
    assert sizes(found) == {"a": {0: 0, 1: 0}, "b": {0: 0, 1: 2 * one, 2: one}}
    assert all(
        (each.offset_lag, each.is_future_key) == (0, False) for topic in found.topics for each in topic.partitions
    )


def test_archived_batches_count_like_those_in_the_journal(desk):
    before = sizes(describe(desk))
    desk.archive_all()
    assert sizes(describe(desk)) == before
    assert sizes(describe(desk.restart())) == before


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([("b", [1, 9])], {"b": [1]}),
        ([("b", [1]), ("b", [0, 1])], {"b": [0, 1]}),
        ([("a", [1]), ("missing", [0])], {"a": [1]}),
        ([("a", [])], {}),
        ([("a", [-1])], {}),
        ([("__cluster_metadata", [0])], {}),
    ],
)
def test_only_requested_partitions_that_exist_are_described(desk, wanted, expected):
    found = sizes(describe(desk, *wanted))
    assert {name: list(partitions) for name, partitions in found.items()} == expected


def test_a_request_without_topics_describes_the_disk(desk):
    (found,) = desk.ask(DescribeLogDirsRequest([]), 5).results
    assert found.topics == []
    assert found.usable_bytes == desk.files.free


def test_a_failing_disk_is_an_error_of_the_directory(desk):
    def before(operation, path):
        if operation == "total bytes":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    desk.files.before = before
    found = describe(desk)
    assert (found.error_code, found.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, str(DIRECTORY))
    assert (found.topics, found.total_bytes, found.usable_bytes) == ([], -1, -1)


@pytest.mark.parametrize("version", versions_of(DescribeLogDirsRequest))
def test_a_client_that_may_not_describe_the_cluster_is_refused(desk, version):
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    response = desk.ask(DescribeLogDirsRequest(None), version)
    assert response.results == []
    assert response.error_code == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version >= 3 else 0)
