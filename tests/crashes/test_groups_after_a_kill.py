"""Faults 76: the broker is killed between what a group was told and what its members do with it."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient

pytestmark = pytest.mark.faults
SETTINGS = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1", "num.partitions=2"]
MODES = pytest.mark.parametrize("mode", ["classic", "pipelined"])


@pytest.fixture
def served(broker_process, mode):
    """Starts a broker and kills it between two looks at it."""
    clients = []

    def start():
        broker = broker_process(mode=mode, settings=SETTINGS)
        clients.append(WireClient(broker.host, broker.port))
        return broker, clients[-1]

    yield start
    for client in clients:
        client.socket.close()


def prepare(client):
    client.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 2)
    for _ in range(2):
        client.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), MetadataResponse, 9)


def commit(client, member_id, epoch, offset=7):
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic]
    )
    return client.ask(request, OffsetCommitResponse, 9).topics[0].partitions[0].error_code


def committed(client):
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    (answer,) = client.ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9).groups
    return [each.committed_offset for topic in answer.topics for each in topic.partitions]


def beat(client, member_id, epoch, **more):
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **more)
    return client.ask(request, ConsumerGroupHeartbeatResponse, 1)


@MODES
def test_a_classic_member_commits_after_a_kill_that_followed_its_assignment(served):
    broker, client = served()
    prepare(client)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", b"m")],
    )
    joined = client.ask(request, JoinGroupResponse, 3)
    member_id = joined.member_id
    assigned = [SyncGroupRequest.SyncGroupRequestAssignment(member_id, b"mine")]
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=assigned)
    assert client.ask(sync, SyncGroupResponse, 3).assignment == b"mine"
    broker.kill()
    broker, client = served()
    assert client.ask(HeartbeatRequest("g", 1, member_id), HeartbeatResponse, 3).error_code == 0
    assert client.ask(sync, SyncGroupResponse, 3).assignment == b"mine"
    assert commit(client, member_id, 1) == 0
    broker.kill()
    _, client = served()
    assert committed(client) == [7]


@MODES
def test_members_of_a_consumer_group_go_on_after_a_kill_in_the_midst_of_a_rebalance(served):
    broker, client = served()
    prepare(client)
    new = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["t"]}
    first = beat(client, "a", 0, **new)
    assert beat(client, "b", 0, **new).error_code == 0
    broker.kill()
    broker, client = served()
    assert commit(client, "a", first.member_epoch) == 0
    assert commit(client, "zombie", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    told = None
    while told is None:  # the first heartbeats after the interval make a target
        told = beat(client, "a", first.member_epoch).assignment
        beat(client, "b", first.member_epoch)
    (kept,) = told.topic_partitions
    broker.kill()
    broker, client = served()
    owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(kept.topic_id, kept.partitions)]
    epoch = beat(client, "a", first.member_epoch, topic_partitions=owned).member_epoch
    assert epoch == first.member_epoch + 1
    (given,) = beat(client, "b", epoch).assignment.topic_partitions
    assert sorted(kept.partitions + given.partitions) == [0, 1]
    assert committed(client) == [7]
