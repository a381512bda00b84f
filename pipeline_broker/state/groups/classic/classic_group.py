"""A classic group: its members, their votes, its state.

Rules of this file: everything that decides what a group *is* lives here; who asked, and who gets which answer, does
not. A state changes by `transition` only, and only along `PREVIOUS_STATES`:
    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

import attrs

from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.groups.classic.messages import JoinedMember, MemberProtocol
from pipeline_broker.state.groups.classic.subscription import subscribed_topics
from pipeline_broker.state.groups.commits import CommitRequest
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, GroupType, OffsetAge
from pipeline_broker.state.groups.memory import MEMBER_BYTES, HeldBytes, size_of_names, sizes_of
from pipeline_broker.wire.error import ErrorCode

__all__ = ["CONSUMER_PROTOCOL_TYPE", "PREVIOUS_STATES", "ClassicGroup", "GroupState", "Member"]

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """States by the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# From which states each state may be entered. Dead lasts from the request to delete until that is durable; back to
# Empty when it could not be stored.
PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}

COMMIT_ANSWERS: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING_REBALANCE: ErrorCode.NONE,
    GroupState.COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@attrs.define(eq=False, kw_only=True)
class Member:
    """A member of a group; `is_new` until its first join is answered."""

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
        """What it holds."""
        said = sizes_of(each for protocol in self.protocols for each in (protocol.name, protocol.metadata))
        names = sizes_of((self.member_id, self.group_instance_id, self.client_id, self.client_host))
        return MEMBER_BYTES + said + names + len(self.assignment)

    def metadata(self, protocol_name: str) -> bytes:
        """What the member says about itself under one protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that the member prefers."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)


@attrs.define(eq=False, kw_only=True)
class ClassicGroup:
    """One group.

    Attributes:
        state_since_ms: when the group came into its state; -1 when the record did not say.
        parked_joins: member id -> token of its join; such a member has joined the coming generation.
        parked_syncs: member id -> token of its sync.
        pending_joins: ids given out, whose owners were told to join again with them.
        pending_syncs: members of this generation that have not yet asked for their assignment.
        assigned_generation_id: the last generation whose leader gave an assignment; it gives one only once.
        is_initial: the rebalance in progress is the first after Empty; it waits for more members to come.
        grew: a member came since the initial delay was last (re)started.
        initial_remaining_ms: how much more its delay may be extended.
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
        """Go to `state`; a move that the table does not know is our bug."""
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may start now."""
        return self.state in PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing in the coming generation."""
        return len(self.parked_joins) == len(self.members) and not self.pending_joins

    @property
    def is_joining_long(self) -> bool:
        """See Group: the last one that is missing begins the generation."""
        return not self.is_initial and len(self.parked_joins) + 1 >= len(self.members) > MEMBERS_AT_ONCE_MAX

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join or to sync."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Take in a member; the first gives the group its protocol type elsewhere and becomes its leader here."""
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
        """Forget a member or an id that was given out; its parked requests must have been answered."""
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
        """Replace what a member supports and how patient it is."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        before_bytes = member.size_bytes
        member.protocols = protocols
        self.memory.add(member.size_bytes - before_bytes)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def expect(self, member_id: str) -> None:
        """Somebody is to join again with an id that was given out."""
        self.pending_joins.add(member_id)
        self.memory.add(MEMBER_BYTES + sizes_of((member_id,)))

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending_joins:
            self.pending_joins.remove(member_id)
            self.memory.add(-MEMBER_BYTES - sizes_of((member_id,)))

    def assign(self, member: Member, assignment: bytes) -> None:
        """Give a member its assignment, or take it back (empty)."""
        self.memory.add(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id; it keeps its assignment, and its place if it is the leader."""
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
        """Whether such a member exists; one whose instance id somebody else took over is fenced."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is not None and owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def generation_error(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Whether such a member exists, and is of this generation."""
        error = self.member_error(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether somebody with these protocols would have one in common with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(tuple(protocols))
        candidates = self._candidates()
        return self.protocol_type == protocol_type and (
            any(protocol.name in candidates for protocol in protocols) if self.members else bool(tuple(protocols))
        )

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all support; the first one voted for wins a tie."""
        candidates = self._candidates()
        if len(candidates) == 1:
            return candidates.pop()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who joined; False when nobody is there to lead."""
        if self.leader is None:
            return False
        if self.leader not in self.parked_joins:
            joined = next((member_id for member_id in self.members if member_id in self.parked_joins), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        """Close the join phase: to CompletingRebalance, or to Empty when nobody is left."""
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
        """Work out which topics the members consume; None when that cannot be known."""
        before = self.topics
        self.topics = self._found_topics()
        self.memory.add(size_of_names(self.topics or ()) - size_of_names(before or ()))

    def _found_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        assert self.protocol_name is not None, "they have agreed"
        name = self.protocol_name
        return subscribed_topics(member.metadata(name) for member in self.members.values())

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        assert self.protocol_name is not None
        name = self.protocol_name
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        )

    # What is asked of groups of all kinds, see `state/groups/group.py`

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
        """Whether a commit is acceptable: from a member of the generation, or, to an empty group, from anybody.

        As part of a transaction it is so while a rebalance goes on too, and from somebody who does not say who he is:
        before version 3 of TxnOffsetCommit nobody could (as in Apache Kafka).
        """
        if self.state is GroupState.DEAD:
            return COMMIT_ANSWERS[self.state]
        if request.generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
            error = self.generation_error(request.member_id, request.group_instance_id, request.generation_id)
            if error is not ErrorCode.NONE:
                return error
        elif request.holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if request.holder is not None else COMMIT_ANSWERS[self.state]

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """See Group: anybody may."""
        del member_id, member_epoch
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """See Group; consumers whose subscriptions cannot be read may be subscribed to anything."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE if self.topics is None else topic in self.topics

    def delete_offsets_error(self) -> ErrorCode:
        """See Group: of members that are no consumers nobody knows what they use."""
        if self.is_deleted:
            return ErrorCode.GROUP_ID_NOT_FOUND
        is_known = self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP

    def offset_age(self) -> OffsetAge | None:
        """See Group.

        From when it became Empty or, where that is not known, from each commit; of consumers that are Stable, and of
        offsets stored by hand, from each commit.
        """
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
            if not self._supporters[name]:  # names are the clients' choice: keep none that nobody supports
                del self._supporters[name]
