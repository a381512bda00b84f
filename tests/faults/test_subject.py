"""Rules find every group, topic and partition, in all versions of all served APIs."""

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.faults.subject import Subject
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.registry import message_classes
from tests.bad_input.raw_client import each_served_version
from tests.wire.generated import sample

IDS = {b"i" * 16: "by-id"}


def subject(message, version=0, sessions=None):
    read = []

    def reader():
        read.append(message)
        return message

    found = Subject(
        type(message).SCHEMA.key, version, "c", 0, reader, IDS.get, lambda key: (sessions or {}).get(key, ())
    )
    found.read_count = read
    return found


@each_served_version()
def test_any_request_can_be_searched(key, version):
    message = sample(message_classes(key)[0], version, elements=2)
    found = subject(message, version)
    assert all(isinstance(name, str) and isinstance(number, int) for name, number in found.partitions)
    assert all(isinstance(group, str) for group in found.groups)


def test_every_group_that_a_request_has_a_field_for_is_found():
    requests = [message_classes(key)[0] for key in SERVED]
    with_a_group = [request for request in requests if hasattr(request(), "group_id")]
    assert len(with_a_group) >= 20
    for request in with_a_group:
        assert subject(request(group_id="g")).groups == {"g"}, request.__name__


@pytest.mark.parametrize(
    ("message", "partitions"),
    [
        (
            ProduceRequest(
                topic_data=[
                    ProduceRequest.TopicProduceData("a", partition_data=[ProduceRequest.PartitionProduceData(3)]),
                    ProduceRequest.TopicProduceData(
                        "", b"i" * 16, partition_data=[ProduceRequest.PartitionProduceData(0)]
                    ),
                ]
            ),
            {("a", 3), ("by-id", 0)},
        ),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="m")]), {("m", -1)}),
        (MetadataRequest(topics=None), set()),
        (
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                        topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("x", [1, 2])]
                    )
                ]
            ),
            {("x", 1), ("x", 2)},
        ),
        (
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequest.OffsetFetchRequestGroup(
                        "g", topics=[OffsetFetchRequest.OffsetFetchRequestTopics("o", partition_indexes=[5])]
                    )
                ]
            ),
            {("o", 5)},
        ),
    ],
    ids=["produce", "metadata", "all metadata", "transactions", "offsets"],
)
def test_partitions_are_found_by_the_name_of_their_topic_or_its_id(message, partitions):
    assert subject(message).partitions == partitions


def test_a_fetch_names_the_partitions_of_its_session_but_not_forgotten_ones():
    topic = FetchRequest.FetchTopic("asked", partitions=[FetchRequest.FetchPartition(1)])
    forgotten = FetchRequest.ForgottenTopic("forgotten", partitions=[0])
    message = FetchRequest(session_id=7, session_epoch=3, topics=[topic], forgotten_topics_data=[forgotten])
    found = subject(message, sessions={7: [("kept", b"", 2), ("", b"i" * 16, 0)]})
    assert found.partitions == {("asked", 1), ("kept", 2), ("by-id", 0)}


@pytest.mark.parametrize(
    ("message", "groups"),
    [
        (FindCoordinatorRequest(key="g", key_type=0), {"g"}),
        (FindCoordinatorRequest(key="g", key_type=1), set()),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), {"a", "b"}),
        (DescribeGroupsRequest(groups=["a", "b"]), {"a", "b"}),
        (OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup("g")]), {"g"}),
    ],
)
def test_groups_are_found_wherever_they_are_named(message, groups):
    assert subject(message).groups == groups


def test_a_request_is_decoded_at_most_once_and_on_demand():
    found = subject(DescribeGroupsRequest(groups=["a"]))
    assert found.read_count == []
    assert found.groups == {"a"}
    assert found.partitions == set()
    assert len(found.read_count) == 1
