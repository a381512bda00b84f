"""A member of a classic group, alone in it.

Rules of this file: it asks again while the group says so, and takes every other error for a failure.
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest

SESSION_MS = 60_000


def joined_group(client, group, session_ms=SESSION_MS):
    """The generation and member of a group that is stable."""
    member_id = ""
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
    while True:
        joined = client.ask(
            JoinGroupRequest(group, session_ms, session_ms, member_id, protocol_type="consumer", protocols=protocols)
        )
        if joined.error_code == ErrorCode.NONE:
            break
        member_id = joined.member_id
        client.ask(FindCoordinatorRequest(coordinator_keys=[group]))
    synced = client.ask(
        SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"")],
        )
    )
    assert synced.error_code == ErrorCode.NONE
    return joined.generation_id, joined.member_id


def commit_as_member(client, group, generation, member_id, topic_id, offset):
    """The error code of a commit for partition 0."""
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, committed_metadata="")
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
    answer = client.ask(OffsetCommitRequest(group, generation, member_id, topics=[wanted]))
    return answer.topics[0].partitions[0].error_code


def leave_group(client, group, member_id):
    """Leave it."""
    answer = client.ask(LeaveGroupRequest(group, members=[LeaveGroupRequest.MemberIdentity(member_id)]))
    assert answer.error_code == ErrorCode.NONE
