"""A member of a consumer group with the classic protocol, which every Kafka broker supports.

It offers only the range assignor, a default of all consumers, so it can share a group with other clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.cluster_client import PARTITION_CHECK_S, ClusterClient
from pipeline_broker.client.errors import BrokerRefused, ClientError, check
from pipeline_broker.client.groups import commit
from pipeline_broker.client.range_assignor import assign_ranges
from pipeline_broker.client.topology import TopicPartition
from pipeline_broker.wire.codec import DecodeError, decode, encode
from pipeline_broker.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["GroupMember"]

SESSION_TIMEOUT_MS = 45_000
"""Kafka's default of session.timeout.ms."""
REBALANCE_TIMEOUT_MS = 60_000
"""Longest time for a join."""
HEARTBEAT_S = 3.0
"""Kafka's default of heartbeat.interval.ms."""
PROTOCOL = "range"
_TYPE = "consumer"
_FORM_VERSION = 1  # of subscriptions and assignments; every consumer can decode it
_LEAVE_VERSIONS = range(3, 6)  # those with a list of members
# The group has moved on without this generation: the member must join again.
_REJOIN_ERRORS = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class GroupMember:
    """A member that joins, heartbeats, commits and leaves. It reads no records itself.

    Args:
        topics: the subscription.

    Attributes:
        member: the member id; "" before the first join.
        generation: the last known generation of the group; -1 before the first join.
    """

    def __init__(self, cluster: ClusterClient, group: str, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = sorted(topics)
        self.member = ""
        self.generation = -1
        self._led: dict[str, int] = {}  # of the group's leader: the partition counts at the last assignment

    async def join(self) -> list[TopicPartition]:
        """Join or rejoin the group, and return the assigned partitions.

        Raises:
            ClientError: the coordinator rejects the member or cannot be reached, or an assignment or subscription is
                malformed.
        """
        while True:
            try:
                joined = await self._cluster.at_coordinator(self._group, self._join)
                return await self._sync(joined)
            except BrokerRefused as error:
                if error.code not in _REJOIN_ERRORS:
                    raise
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    # The coordinator has forgotten the member, so it joins as a new one.
                    self.member = ""

    async def _join(self, node: int) -> JoinGroupResponse:
        (metadata,) = encode(ConsumerProtocolSubscription(self._topics), _FORM_VERSION)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(PROTOCOL, _versioned(bytes(metadata)))
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member,
                protocol_type=_TYPE,
                protocols=[protocol],
            )
            answer = await self._cluster.ask(request, JoinGroupResponse, node=node, wait_s=REBALANCE_TIMEOUT_MS / 1000)
            # The first join of a member only assigns its id (KIP-394).
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            self.member = answer.member_id
        check(answer.error_code, f"joining group {self._group}")
        self.member, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = []
        self._led = {}
        if joined.leader == self.member and not joined.skip_assignment:
            assignments = await self._assignments(joined)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member,
            protocol_type=_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )

        async def attempt(node: int) -> bytes:
            answer = await self._cluster.ask(request, SyncGroupResponse, node=node, wait_s=REBALANCE_TIMEOUT_MS / 1000)
            check(answer.error_code, f"joining group {self._group}")
            return answer.assignment

        data = await self._cluster.at_coordinator(self._group, attempt)
        if not data:
            return []
        try:
            # The fields of version 0 come first in all versions, after the two bytes of the version.
            assignment, _ = decode(ConsumerProtocolAssignment, 0, data, 2)
        except DecodeError as error:
            raise ClientError(f"the leader of group {self._group} sent a malformed assignment: {error}") from None
        return [(it.topic, partition) for it in assignment.assigned_partitions for partition in it.partitions]

    async def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        subscriptions = {}
        for member in joined.members:
            try:
                subscription, _ = decode(ConsumerProtocolSubscription, 0, member.metadata, 2)
            except DecodeError as error:
                raise ClientError(f"a member of group {self._group} is not a consumer: {error}") from None
            subscriptions[member.member_id] = subscription.topics
        topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
        topology = await self._cluster.refresh(topics)
        counts = self._led = {name: len(topic.partitions) for name, topic in topology.topics.items()}
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(member, _assignment(partitions))
            for member, partitions in assign_ranges(subscriptions, counts).items()
        ]

    async def stay(self) -> None:
        """Send heartbeats until the member must join again, then return.

        A leader also checks for added partitions, and rejoins to assign them, like Kafka's consumers.

        Raises:
            ClientError: the coordinator reports another error, or cannot be reached.
        """

        async def attempt(node: int) -> None:
            request = HeartbeatRequest(self._group, self.generation, self.member)
            answer = await self._cluster.ask(request, HeartbeatResponse, node=node)
            check(answer.error_code, f"staying in group {self._group}")

        looked_at = trio.current_time()
        while True:
            await trio.sleep(HEARTBEAT_S)
            try:
                await self._cluster.at_coordinator(self._group, attempt)
            except BrokerRefused as error:
                if error.code in _REJOIN_ERRORS:
                    return
                raise
            if self._led and trio.current_time() - looked_at >= PARTITION_CHECK_S:
                looked_at = trio.current_time()
                if await self._has_grown():
                    return

    async def _has_grown(self) -> bool:
        topology = await self._cluster.refresh(list(self._led))
        return any(len(topic.partitions) > self._led.get(name, 0) for name, topic in topology.topics.items())

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets. Return False if the group has moved on, and another member may own the partitions.

        Raises:
            ClientError: the coordinator reports another error, or cannot be reached.
        """
        try:
            await commit(self._cluster, self._group, offsets, generation=self.generation, member=self.member)
        except BrokerRefused as error:
            if error.code in _REJOIN_ERRORS:
                return False
            raise
        return True

    async def leave(self) -> None:
        """Leave the group, so that it reassigns the partitions at once instead of after the session timeout.

        Does nothing before the first join.

        Raises:
            ClientError: the coordinator cannot be reached.
        """
        if not self.member:
            return
        request = LeaveGroupRequest(self._group, members=[LeaveGroupRequest.MemberIdentity(self.member)])

        async def attempt(node: int) -> None:
            await self._cluster.ask(request, LeaveGroupResponse, node=node, versions=_LEAVE_VERSIONS)

        await self._cluster.at_coordinator(self._group, attempt)
        self.member = ""


def _versioned(data: bytes) -> bytes:
    return _FORM_VERSION.to_bytes(2, "big") + data


def _assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assigned = [ConsumerProtocolAssignment.TopicPartition(topic, numbers) for topic, numbers in by_topic.items()]
    (data,) = encode(ConsumerProtocolAssignment(assigned), _FORM_VERSION)
    return _versioned(bytes(data))
