"""The group APIs over the wire, in every version that is served."""

from __future__ import annotations

import time

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient

SETTINGS = ["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100", "offset.metadata.max.bytes=16"]
PROTOCOLS = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
NONE, UNKNOWN_MEMBER_ID = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
MODES = pytest.mark.parametrize("mode", ["classic", "pipelined"])


@pytest.fixture
def serve(broker_process):
    """Start a broker and connect to it."""
    clients = []

    def start(mode="pipelined", settings=SETTINGS, **more):
        broker = broker_process(mode=mode, settings=settings, **more)
        client = WireClient(broker.host, broker.port)
        clients.append(client)
        return broker, client

    yield start
    for client in clients:
        client.socket.close()


def ready(client):
    """Create the topic of groups and a topic `t`; return the id of `t`."""
    client.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 2)
    for _ in range(2):
        wanted = MetadataRequest.MetadataRequestTopic(name="t")
        found = client.ask(MetadataRequest(topics=[wanted]), MetadataResponse, 12)
    return found.topics[0].topic_id


def join_request(version, member_id="", group_id="g", **more):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000 if version >= 1 else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=PROTOCOLS,
        **more,
    )


def join(client, version=9, group_id="g", **more):
    """Join a group, as each version requires."""
    answer = client.ask(join_request(version, group_id=group_id, **more), JoinGroupResponse, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request = join_request(version, answer.member_id, group_id, **more)
        answer = client.ask(request, JoinGroupResponse, version)
    return answer


def sync_request(version, joined, assignments=(), group_id="g"):
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(*pair) for pair in assignments],
        **protocol,
    )


def commit_request(version, joined, offset, topic_id, metadata="m", group_id="g"):
    name = {"topic_id": topic_id} if version >= 10 else {"name": "t"}
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, committed_metadata=metadata)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[partition], **name)],
    )


def fetched(client, version, topic_id, group_id="g", *, every=False):
    """Return the committed offset of partition 0 of `t`, as (offset, metadata, error)."""
    if version < 8:
        topics = None if every else [OffsetFetchRequest.OffsetFetchRequestTopic("t", [0])]
        answer = client.ask(OffsetFetchRequest(group_id=group_id, topics=topics), OffsetFetchResponse, version)
        found = answer.topics
    else:
        name = {"topic_id": topic_id} if version >= 10 else {"name": "t"}
        topics = None if every else [OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[0], **name)]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        answer = client.ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, version)
        assert answer.groups[0].group_id == group_id
        found = answer.groups[0].topics
    partitions = [partition for topic in found for partition in topic.partitions]
    return [(partition.committed_offset, partition.metadata, partition.error_code) for partition in partitions]


def versions(request):
    """Return the versions of an API, and check that they are the served ones."""
    declared = versions_of(request)
    assert SERVED[request.SCHEMA.key].versions == declared
    return declared


@MODES
def test_find_coordinator(serve, mode) -> None:
    """Every version returns this broker; an unknown key type has no coordinator."""
    broker, client = serve(mode)
    for version in versions(FindCoordinatorRequest):
        request = (
            FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g", "h"])
        )
        answer = client.ask(request, FindCoordinatorResponse, version)
        found = [answer] if version < 4 else answer.coordinators
        assert [(one.host, one.port, one.error_code) for one in found] == [(broker.host, broker.port, 0)] * len(found)
        assert len(found) == (1 if version < 4 else 2)
    refused = client.ask(FindCoordinatorRequest(key="x", key_type=7), FindCoordinatorResponse, 3)
    assert (refused.error_code, refused.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_the_first_join_creates_the_topic_of_the_group_coordinator_and_the_next_joins(serve) -> None:
    _, client = serve()
    assert client.ask(ListGroupsRequest(), ListGroupsResponse, 5).groups == []
    assert join(client).error_code == ErrorCode.NOT_COORDINATOR
    assert join(client).error_code == ErrorCode.NONE


@MODES
def test_life_of_a_group_in_every_version(serve, mode) -> None:
    """Join, sync, heartbeat, leave, in each version of each."""
    _, client = serve(mode)
    ready(client)
    for version in versions(JoinGroupRequest):
        joined = join(client, version, f"join-{version}")
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (NONE, 1, "range")
        assert (joined.leader, joined.members[0].metadata) == (joined.member_id, b"subscription")
    leader = join(client)
    for version in versions(SyncGroupRequest):
        request = sync_request(version, leader, [(leader.member_id, b"mine")])
        answer = client.ask(request, SyncGroupResponse, version)
        assert (answer.error_code, answer.assignment) == (NONE, b"mine")
    for version in versions(HeartbeatRequest):
        request = HeartbeatRequest("g", leader.generation_id, leader.member_id)
        assert client.ask(request, HeartbeatResponse, version).error_code == NONE
        request.member_id = "stranger"
        assert client.ask(request, HeartbeatResponse, version).error_code == UNKNOWN_MEMBER_ID
    for version in versions(LeaveGroupRequest):
        group_id = f"join-{version}"
        member_id = (
            client.ask(DescribeGroupsRequest([group_id]), DescribeGroupsResponse, 5).groups[0].members[0].member_id
        )
        for expected in (NONE, UNKNOWN_MEMBER_ID):
            member = LeaveGroupRequest.MemberIdentity(member_id)
            who = {"member_id": member_id} if version < 3 else {"members": [member]}
            answer = client.ask(LeaveGroupRequest(group_id=group_id, **who), LeaveGroupResponse, version)
            assert (answer if version < 3 else answer.members[0]).error_code == expected
            assert version < 3 or answer.error_code == NONE


@MODES
def test_rebalance_of_two_members(serve, mode) -> None:
    """Both get the same generation, the leader sees both, and each gets its own assignment in any order of syncs."""
    broker, one = serve(mode)
    ready(one)
    first = join(one)
    with WireClient(broker.host, broker.port) as two:
        two.send(join_request(0), 0)
        request = HeartbeatRequest("g", first.generation_id, first.member_id)
        while one.ask(request, HeartbeatResponse, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        leader = one.ask(join_request(9, first.member_id), JoinGroupResponse, 9)
        follower = two.expect(JoinGroupResponse, 0)
        assert leader.generation_id == follower.generation_id == 2
        assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
        assert follower.members == []
        two.send(sync_request(0, follower), 0)
        assignments = [(leader.member_id, b"L"), (follower.member_id, b"F")]
        assert one.ask(sync_request(5, leader, assignments), SyncGroupResponse, 5).assignment == b"L"
        assert two.expect(SyncGroupResponse, 0).assignment == b"F"


@MODES
def test_commit_and_fetch_in_every_version(serve, mode) -> None:
    """Committed offsets are fetched singly and all at once; an unknown topic is refused alone."""
    _, client = serve(mode)
    topic_id = ready(client)
    joined = join(client)
    client.ask(sync_request(5, joined, []), SyncGroupResponse, 5)
    for version in versions(OffsetCommitRequest):
        answer = client.ask(commit_request(version, joined, 100 + version, topic_id), OffsetCommitResponse, version)
        assert answer.topics[0].partitions[0].error_code == NONE
        assert fetched(client, 8, topic_id) == [(100 + version, "m", NONE)]
    for version in versions(OffsetFetchRequest):
        assert fetched(client, version, topic_id) == [(110, "m", NONE)]
        assert fetched(client, version, topic_id, "nobody") == [(-1, "", NONE)]
        if version >= 2:
            assert fetched(client, version, topic_id, every=True) == [(110, "m", NONE)]
    long = client.ask(commit_request(9, joined, 1, topic_id, metadata="m" * 17), OffsetCommitResponse, 9)
    assert long.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    request = commit_request(9, joined, 1, topic_id)
    request.topics.insert(
        0, OffsetCommitRequest.OffsetCommitRequestTopic("gone", partitions=request.topics[0].partitions)
    )
    codes = [topic.partitions[0].error_code for topic in client.ask(request, OffsetCommitResponse, 9).topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]
    request.topics[0].name = "t"
    request.topics[0].partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(index, 1) for index in (-1, 99)]
    beyond = client.ask(request, OffsetCommitResponse, 9).topics[0].partitions
    assert [partition.error_code for partition in beyond] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    other = bytes(15) + b"x"
    refused = client.ask(commit_request(10, joined, 1, other), OffsetCommitResponse, 10)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched(client, 10, other) == [(-1, "", ErrorCode.UNKNOWN_TOPIC_ID)]
    assert fetched(client, 9, topic_id) == [(1, "m", NONE)]


@MODES
def test_administration_in_every_version(serve, mode) -> None:
    _, client = serve(mode)
    topic_id = ready(client)
    joined = join(client)
    client.ask(sync_request(5, joined, [(joined.member_id, b"mine")]), SyncGroupResponse, 5)
    for version in versions(ListGroupsRequest):
        groups = client.ask(ListGroupsRequest(), ListGroupsResponse, version).groups
        assert [(group.group_id, group.protocol_type) for group in groups] == [("g", "consumer")]
        assert groups[0].group_state == ("Stable" if version >= 4 else "")
        assert groups[0].group_type == ("classic" if version >= 5 else "")
    assert client.ask(ListGroupsRequest(["empty"]), ListGroupsResponse, 5).groups == []
    for version in versions(DescribeGroupsRequest):
        answer = client.ask(DescribeGroupsRequest(["g", "nobody"]), DescribeGroupsResponse, version)
        group, missing = answer.groups
        assert (group.group_state, group.protocol_data) == ("Stable", "range")
        member = group.members[0]
        assert (member.client_id, member.client_host) == ("wire-client", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"subscription", b"mine")
        assert missing.group_state == "Dead"
        assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    for version in versions(DeleteGroupsRequest):
        empty = f"empty-{version}"
        outside = JoinGroupResponse(generation_id=-1)
        client.ask(commit_request(9, outside, 5, topic_id, group_id=empty), OffsetCommitResponse, 9)
        answer = client.ask(DeleteGroupsRequest([empty, "g", "nobody"]), DeleteGroupsResponse, version)
        codes = [result.error_code for result in answer.results]
        assert codes == [NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        assert fetched(client, 9, topic_id, empty) == [(-1, "", NONE)]


@MODES
def test_groups_survive_a_kill(serve, tmp_path, mode) -> None:
    """After kill -9 a stable group has its members and offsets, and a deleted one does not exist."""
    broker, client = serve(mode, data=tmp_path / "kept")
    topic_id = ready(client)
    joined = join(client)
    client.ask(sync_request(5, joined, [(joined.member_id, b"mine")]), SyncGroupResponse, 5)
    client.ask(commit_request(10, joined, 42, topic_id), OffsetCommitResponse, 10)
    outside = JoinGroupResponse(generation_id=-1)
    client.ask(commit_request(9, outside, 5, topic_id, group_id="gone"), OffsetCommitResponse, 9)
    client.ask(DeleteGroupsRequest(["gone"]), DeleteGroupsResponse, 2)
    broker.kill()
    _, client = serve(mode, data=tmp_path / "kept")
    assert fetched(client, 10, topic_id) == [(42, "m", NONE)]
    assert [group.group_id for group in client.ask(ListGroupsRequest(), ListGroupsResponse, 5).groups] == ["g"]
    heartbeat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert client.ask(heartbeat, HeartbeatResponse, 4).error_code == NONE
    assert client.ask(sync_request(5, joined), SyncGroupResponse, 5).assignment == b"mine"


def test_a_silent_member_is_removed(serve) -> None:
    """A session that expires empties the group, without any request."""
    broker, client = serve()
    ready(client)
    request = join_request(0)
    request.session_timeout_ms = 2_000  # a slow machine asks within it, too
    joined = client.ask(request, JoinGroupResponse, 0)
    assert joined.error_code == ErrorCode.NONE
    client.ask(sync_request(0, joined, [(joined.member_id, b"mine")]), SyncGroupResponse, 0)
    states = set()
    while "Empty" not in states:
        states.add(client.ask(DescribeGroupsRequest(["g"]), DescribeGroupsResponse, 5).groups[0].group_state)
        time.sleep(0.01)
    assert states == {"Stable", "Empty"}
    assert broker.process.poll() is None


def test_sync_needs_its_protocol_from_version_5(serve) -> None:
    """A null protocol type or name is refused, as in Apache Kafka."""
    _, client = serve()
    ready(client)
    joined = join(client)
    request = sync_request(4, joined, [])
    assert client.ask(request, SyncGroupResponse, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
