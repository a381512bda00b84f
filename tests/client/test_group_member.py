"""A classic group member: rejoining, and errors that mean that the group has moved on."""

import pytest
import trio
import trio.testing

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.cluster_client import connected
from pipeline_broker.client.errors import BrokerRefused
from pipeline_broker.client.group_member import HEARTBEAT_S, GroupMember
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatResponse
from pipeline_broker.wire.messages.groups.join_group import JoinGroupResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitResponse
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupResponse
from pipeline_broker.wire.registry import ApiKey
from tests.client.fake_cluster import TOPIC, FakeCluster, serving

TIMEOUT_S, PATIENCE_S = 5.0, 600.0
GONE_ON = [
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
]

pytestmark = pytest.mark.trio


class Coordinator:
    """Accepts members with a new id each; `codes` are the first error codes of other requests, by API."""

    def __init__(self, codes):
        self.codes = {key: list(some) for key, some in codes.items()}
        self.joined_as = []
        self.fake = FakeCluster({0: 1}, nodes=1, coordinator=1)
        self.fake.answers = {
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.SYNC_GROUP: lambda _: SyncGroupResponse(error_code=self.code(ApiKey.SYNC_GROUP), assignment=b""),
            ApiKey.HEARTBEAT: lambda _: HeartbeatResponse(error_code=self.code(ApiKey.HEARTBEAT)),
            ApiKey.OFFSET_COMMIT: self.commit,
        }

    def code(self, key):
        left = self.codes.get(key)
        return left.pop(0) if left else ErrorCode.NONE

    def join(self, request):
        self.joined_as.append(request.member_id)
        member = request.member_id or f"member-{len(self.joined_as)}"
        return JoinGroupResponse(0, 0, len(self.joined_as), "consumer", "range", "a leader", False, member, [])

    def commit(self, _request):
        partition = OffsetCommitResponse.OffsetCommitResponsePartition(0, self.code(ApiKey.OFFSET_COMMIT))
        return OffsetCommitResponse(
            topics=[OffsetCommitResponse.OffsetCommitResponseTopic(TOPIC, partitions=[partition])]
        )


@pytest.mark.parametrize(
    ("code", "joined_as"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, ["", "member-1"]),
        (ErrorCode.ILLEGAL_GENERATION, ["", "member-1"]),
        (ErrorCode.UNKNOWN_MEMBER_ID, ["", ""]),
    ],
    ids=lambda it: getattr(it, "name", ""),
)
async def test_it_rejoins_with_its_id_unless_the_coordinator_has_forgotten_it(code, joined_as):
    coordinator = Coordinator({ApiKey.SYNC_GROUP: [code]})
    async with serving(coordinator.fake) as address, connected([address], TIMEOUT_S) as cluster:
        member = GroupMember(cluster, "g", [TOPIC])
        assert await member.join() == []
    assert coordinator.joined_as == joined_as
    assert (member.member, member.generation) == ("member-1" if joined_as[1] else "member-2", 2)


async def advance_when_idle(mock_clock):
    """Advance the clock to the next heartbeat when all tasks are idle."""
    while True:
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(HEARTBEAT_S)


@pytest.mark.parametrize("code", GONE_ON, ids=lambda code: code.name)
async def test_it_stays_until_the_group_moves_on_and_then_commits_nothing(mock_clock, code):
    coordinator = Coordinator({ApiKey.HEARTBEAT: [ErrorCode.NONE, code], ApiKey.OFFSET_COMMIT: [ErrorCode.NONE, code]})
    mock_clock.rate = 1
    async with serving(coordinator.fake) as address, connected([address], PATIENCE_S) as cluster:
        member = GroupMember(cluster, "g", [TOPIC])
        await member.join()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(advance_when_idle, mock_clock)
            await member.stay()
            nursery.cancel_scope.cancel()
        assert coordinator.fake.asked[1, ApiKey.HEARTBEAT] == 2
        assert [await member.commit({(TOPIC, 0): 1}) for _ in range(2)] == [True, False]


async def test_other_errors_of_the_coordinator_are_raised():
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    coordinator = Coordinator({ApiKey.SYNC_GROUP: [code], ApiKey.OFFSET_COMMIT: [code]})
    async with serving(coordinator.fake) as address, connected([address], TIMEOUT_S) as cluster:
        member = GroupMember(cluster, "g", [TOPIC])
        for ask in (member.join, lambda: member.commit({(TOPIC, 0): 1})):
            with pytest.raises(BrokerRefused) as refused:
                await ask()
            assert refused.value.code == code
