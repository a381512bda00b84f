"""Expected values are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.apis.desk import Desk

Wanted = MetadataRequest.MetadataRequestTopic
NOT_ASKED = -(2**31)
UNKNOWN_ID = b"\7" * 16


@pytest.fixture
def desk():
    desk = Desk("num.partitions=2")
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in ("t", "u")]), 7)
    return desk


def find(desk, *wanted, version=12, **more):
    """Return topics as (error, name, number of partitions)."""
    topics = [Wanted(name=each) if isinstance(each, str) else Wanted(name=each[0], topic_id=each[1]) for each in wanted]
    found = desk.ask(MetadataRequest(topics=topics, **more), version).topics
    return [(topic.error_code, topic.name, len(topic.partitions)) for topic in found]


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_a_topic_is_led_and_kept_by_this_broker(desk, version):
    response = desk.ask(MetadataRequest(topics=[Wanted(name="t")]), version)
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [(1, "broker.test", 9092)]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (desk.broker.cluster_id if version >= 2 else None)
    (topic,) = response.topics
    assert topic.topic_id == (desk.broker.topics.get("t").topic_id if version >= 10 else bytes(16))
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
    assert partition.leader_epoch == (0 if version >= 7 else -1)


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_all_topics_are_asked_for_by_null_or_in_version_0_by_an_empty_list(desk, version):
    everything = desk.ask(MetadataRequest(topics=None if version else []), version)
    assert [topic.name for topic in everything.topics] == ["t", "u"]
    nothing = desk.ask(MetadataRequest(topics=[]), version)
    assert [topic.name for topic in nothing.topics] == ([] if version else ["t", "u"])


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_a_requested_topic_exists_at_the_next_request(desk, version):
    assert find(desk, "new", version=version) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new", 0)]
    assert find(desk, "new", version=version) == [(0, "new", 2)]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_created_when_requested(desk, name):
    for code in (3, 0):
        (topic,) = desk.ask(MetadataRequest(topics=[Wanted(name=name)]), 12).topics
        assert (topic.error_code, topic.is_internal) == (code, True)


def test_no_topic_is_created_unless_broker_and_client_allow_it(desk):
    assert find(desk, "new", allow_auto_topic_creation=False) == [(3, "new", 0)]
    assert find(desk, "new", allow_auto_topic_creation=False) == [(3, "new", 0)]
    other = Desk("auto.create.topics.enable=false")
    assert [find(other, "new"), find(other, "new")] == [[(3, "new", 0)]] * 2


def test_invalid_names_are_refused(desk):
    assert find(desk, "a b", "", "__cluster_metadata") == [(17, "a b", 0), (17, "", 0), (3, "__cluster_metadata", 0)]
    assert find(desk, "__cluster_metadata") == [(3, "__cluster_metadata", 0)]


def test_one_request_does_not_create_any_number_of_topics():
    desk = Desk("num.partitions=5000")
    find(desk, "a", "b", "c")
    assert find(desk, "a", "b", "c", allow_auto_topic_creation=False) == [(0, "a", 5000), (0, "b", 5000), (3, "c", 0)]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_can_be_requested_by_id_and_then_names_are_ignored(desk, version):
    topic_id = desk.broker.topics.get("t").topic_id
    assert find(desk, (None, topic_id), version=version) == [(0, "t", 1)]
    assert find(desk, ("u", topic_id), "u", "new", version=version) == [(0, "t", 1)]
    assert find(desk, (None, UNKNOWN_ID), version=version) == [(ErrorCode.UNKNOWN_TOPIC_ID, None, 0)]
    assert find(desk, (None, bytes(16)), version=version) == [(ErrorCode.UNKNOWN_SERVER_ERROR, "", 0)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_used_only_from_version_12(desk, version):
    topic_id = desk.broker.topics.get("t").topic_id
    assert find(desk, (None, topic_id), "u", version=version) == [(42, "", 0), (42, "u", 0)]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_authorized_operations_are_sent_on_request(desk, version):
    more = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    response = desk.ask(MetadataRequest(topics=[Wanted(name="t"), Wanted(name="new")], **more), version)
    assert response.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]
    response = desk.ask(MetadataRequest(topics=[Wanted(name="t")]), version)
    assert response.cluster_authorized_operations == response.topics[0].topic_authorized_operations == NOT_ASKED


def test_a_duplicate_topic_is_answered_once(desk):
    assert find(desk, "t", "t", "new", "new") == [(0, "t", 1), (3, "new", 0)]


def test_topics_are_created_by_use_up_to_a_number_of_partitions_in_all(caplog):
    """Beyond it the broker answers as without auto-creation, and logs that once."""
    desk = Desk("num.partitions=2", "pipeline.auto.create.partitions=5")
    names = ["a", "b", "c", "d"]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find(desk, *names) == [(unknown, name, 0) for name in names]
    assert find(desk, *names) == [(0, "a", 2), (0, "b", 2), (unknown, "c", 0), (unknown, "d", 0)]
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("cannot create a topic on request, because of pipeline.auto.create.partitions: ")
    assert desk.broker.topics.not_created == 4
    desk.broker.topics.durable(desk.broker.topics.delete("a"))
    find(desk, "c")
    assert find(desk, "c") == [(0, "c", 2)]


def test_internal_topics_are_created_beyond_the_limit():
    desk = Desk("pipeline.auto.create.partitions=0")
    find(desk, "__consumer_offsets")
    assert find(desk, "__consumer_offsets") == [(0, "__consumer_offsets", 50)]
