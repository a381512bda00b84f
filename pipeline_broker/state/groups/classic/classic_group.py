"""The state of a classic group: its members, their votes for a protocol, and the state machine of its rebalances.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

This module knows nothing about requests and responses; `joining.py`, `membership.py` and `rebalancing.py` do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.groups.classic.messages import JoinedMember, MemberProtocol
from pipeline_broker.state.groups.classic.subscription import subscribed_topics
from pipeline_broker.state.groups.commits import CommitRequest
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, GroupType, OffsetAge
from pipeline_broker.state.groups.memory import MEMBER_BYTES, HeldBytes, size_of_names, sizes_of

__all__ = ["CONSUMER_PROTOCOL_TYPE", "PREVIOUS_STATES", "ClassicGroup", "GroupState", "Member"]

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# A group is Dead from the request to delete it until its tombstone is durable. If that cannot be stored, it returns to
# Empty.
PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}

# A member cannot commit between its join and its assignment: it does not know its partitions.
COMMIT_ANSWERS: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING_REBALANCE: ErrorCode.NONE,
    GroupState.COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@attrs.define(eq=False, kw_only=True)
class Member:
    """A member of a classic group; `is_new` until its first join is answered."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False

    @property
    def size_bytes(self) -> int:
        protocols = sizes_of(each for protocol in self.protocols for each in (protocol.name, protocol.metadata))
        names = sizes_of((self.member_id, self.group_instance_id, self.client_id, self.client_host))
        return MEMBER_BYTES + protocols + names + len(self.assignment)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol. Raises KeyError if it does not support the protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the first candidate in the member's order of preference."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)


@attrs.define(eq=False, kw_only=True)
class ClassicGroup:
    """A group of the classic protocol.

    Attributes:
        state_since_ms: time of the last state change; -1 if the group's record did not contain it.
        parked_joins: tokens of JoinGroup requests by member id; these members have joined the next generation.
        parked_syncs: tokens of SyncGroup requests by member id.
        pending_joins: ids sent with MEMBER_ID_REQUIRED to clients that have not joined with them yet.
        pending_syncs: members of this generation that have not sent a SyncGroup request yet.
        assigned_generation_id: the last generation whose leader sent an assignment; a leader sends only one.
        is_initial: the current rebalance is the first since Empty; it waits for more members.
        grew: a member has joined since the initial delay was last started.
        initial_remaining_ms: time by which the initial delay may still be extended.
        topics: topics of all subscriptions; None if a subscription cannot be read or the members are not consumers.
    """

    group_type: ClassVar[GroupType] = GroupType.CLASSIC

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    parked_joins: dict[str, object] = attrs.Factory(dict)
    parked_syncs: dict[str, object] = attrs.Factory(dict)
    pending_joins: set[str] = attrs.Factory(set)
    pending_syncs: set[str] = attrs.Factory(set)
    assigned_generation_id: int = -1
    is_initial: bool = False
    grew: bool = False
    initial_remaining_ms: int = 0
    topics: frozenset[str] | None = None
    memory: HeldBytes = attrs.Factory(HeldBytes)
    _supporters: Counter[str] = attrs.Factory(Counter)

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Change the state. A transition that is not in PREVIOUS_STATES is a bug and fails an assertion."""
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        """True if every member has joined the next generation, and no pending id remains."""
        return len(self.parked_joins) == len(self.members) and not self.pending_joins

    @property
    def is_joining_long(self) -> bool:
        """True if the next join may complete the generation of a group of more than MEMBERS_AT_ONCE_MAX members."""
        return not self.is_initial and len(self.parked_joins) + 1 >= len(self.members) > MEMBERS_AT_ONCE_MAX

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.memory.add(member.size_bytes)
        self._forget_pending(member.member_id)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. Its parked requests must have been answered."""
        assert member_id not in self.parked_joins
        assert member_id not in self.parked_syncs
        self._forget_pending(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member.protocols, -1)
        self.memory.add(-member.size_bytes)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update(
        self,
        member: Member,
        protocols: tuple[MemberProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        before_bytes = member.size_bytes
        member.protocols = protocols
        self.memory.add(member.size_bytes - before_bytes)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def expect(self, member_id: str) -> None:
        self.pending_joins.add(member_id)
        self.memory.add(MEMBER_BYTES + sizes_of((member_id,)))

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending_joins:
            self.pending_joins.remove(member_id)
            self.memory.add(-MEMBER_BYTES - sizes_of((member_id,)))

    def assign(self, member: Member, assignment: bytes) -> None:
        self.memory.add(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id. It keeps its assignment, and the leadership if it leads."""
        assert old_id not in self.parked_joins
        assert old_id not in self.parked_syncs
        member = self.members.pop(old_id)
        assert member.group_instance_id is not None
        self.memory.add(sizes_of((new_id,)) - sizes_of((old_id,)))
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        self.static_members[member.group_instance_id] = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the group has this member, otherwise UNKNOWN_MEMBER_ID.

        Returns FENCED_INSTANCE_ID if another member now uses the instance id.
        """
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is not None and owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def generation_error(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Return NONE if the group has this member in this generation.

        Returns ILLEGAL_GENERATION for another generation, and the error of `member_error` for another member.
        """
        error = self.member_error(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """Return whether a client with these protocols may join.

        The client needs the protocol type of the group, and a protocol that all members support. An Empty group accepts
        any
        protocol type and protocols, but not the empty type or no protocol.
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(tuple(protocols))
        candidates = self._candidates()
        return self.protocol_type == protocol_type and (
            any(protocol.name in candidates for protocol in protocols) if self.members else bool(tuple(protocols))
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support; the first vote wins a tie."""
        candidates = self._candidates()
        if len(candidates) == 1:
            return candidates.pop()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader has joined the next generation; return False if no member has joined."""
        if self.leader is None:
            return False
        if self.leader not in self.parked_joins:
            joined = next((member_id for member_id in self.members if member_id in self.parked_joins), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        """End the join phase and enter CompletingRebalance, or Empty if no members remain."""
        self.generation_id = next_epoch(self.generation_id)
        self.pending_syncs.clear()
        self.is_initial = False
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now_ms)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        before = self.topics
        self.topics = self._found_topics()
        self.memory.add(size_of_names(self.topics or ()) - size_of_names(before or ()))

    def _found_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        assert self.protocol_name is not None, "a group with members has selected a protocol"
        name = self.protocol_name
        return subscribed_topics(member.metadata(name) for member in self.members.values())

    def joined_members(self) -> tuple[JoinedMember, ...]:
        assert self.protocol_name is not None
        name = self.protocol_name
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        )

    # The interface `Group`, see `state/groups/group.py`

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_deleted(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_deletable_unasked(self) -> bool:
        return self.is_empty and not self.pending_joins

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        """Return NONE if a commit is acceptable: from a member of the current generation, or from any client if Empty.

        A transactional commit is also accepted during a rebalance, and without a member id: clients could not send one
        before version 3 of TxnOffsetCommit (as in Apache Kafka).
        """
        if self.state is GroupState.DEAD:
            return COMMIT_ANSWERS[self.state]
        # A client outside of group management, such as a tool that resets offsets.
        if request.generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
            error = self.generation_error(request.member_id, request.group_instance_id, request.generation_id)
            if error is not ErrorCode.NONE:
                return error
        elif request.producer_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if request.producer_id is not None else COMMIT_ANSWERS[self.state]

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        del member_id, member_epoch
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        # Consumers with unreadable subscriptions may be subscribed to any topic.
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE if self.topics is None else topic in self.topics

    def delete_offsets_error(self) -> ErrorCode:
        if self.is_deleted:
            return ErrorCode.GROUP_ID_NOT_FOUND
        # The coordinator cannot read which topics are used by members of another protocol type, such as Kafka Connect.
        is_known = self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP

    def offset_age(self) -> OffsetAge | None:
        # Offsets of an Empty group age from the moment it became Empty. Offsets of a Stable group of consumers, and of
        # clients without group management, age from each commit.
        if self.protocol_type is None:
            return lambda committed: committed.commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            since_ms = self.state_since_ms
            return lambda committed: since_ms if since_ms >= 0 else committed.commit_timestamp_ms
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.state is GroupState.STABLE and self.topics is not None:
            return lambda committed: committed.commit_timestamp_ms
        return None

    def _candidates(self) -> set[str]:
        return {name for name, supporters in self._supporters.items() if supporters == len(self.members)}

    def _count(self, protocols: Iterable[MemberProtocol], change: int) -> None:
        for name in {protocol.name for protocol in protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:  # clients choose the names: a name without members would leak
                del self._supporters[name]
