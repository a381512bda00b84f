"""The coordinator of the groups in one partition of `__consumer_offsets`, and of their committed offsets.

A request that has to wait is parked under its caller's token. A later call returns its answer in an `Outcome`. The
caller:

* appends the records of every `Write` of an outcome, in order, then calls `durable` (or `failed`) with it;
* calls `advance` at `next_deadline_ms`;
* after a restart calls `replay` for every durable record in order, then `loaded`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups import commits
from pipeline_broker.state.groups.administration import DeletedOffset, DeletedOffsets, ListedGroup, delete_offsets
from pipeline_broker.state.groups.commits import CommitRequest, CommitResult, FetchedOffset, FetchTopic
from pipeline_broker.state.groups.forgetting import Forgetting
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.kind import GroupKind
from pipeline_broker.state.groups.memory import GROUP_BYTES, GroupMemory
from pipeline_broker.state.groups.offset_expiry import ToCheck, expired
from pipeline_broker.state.groups.offset_records import OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets, OffsetChange
from pipeline_broker.state.groups.records import GroupRecord
from pipeline_broker.state.groups.registry import GroupRegistry
from pipeline_broker.state.outcome import Outcome, Write
from pipeline_broker.state.placed_partitions import OneBroker
from pipeline_broker.state.topics import TopicCatalogue

if TYPE_CHECKING:
    from pipeline_broker.state.groups.classic.coordinator import ClassicGroups
    from pipeline_broker.state.groups.classic.messages import (
        DescribedGroup,
        HeartbeatRequest,
        JoinRequest,
        LeaveResult,
        LeavingMember,
        SyncRequest,
    )
    from pipeline_broker.state.groups.consumer.coordinator import ConsumerGroups
    from pipeline_broker.state.groups.share.coordinator import ShareGroups
    from pipeline_broker.state.groups.streams.coordinator import StreamsGroups

__all__ = ["GroupCoordinator"]

EXPIRY = "offset expiry"
MINUTE_MS = 60_000


@attrs.frozen(eq=False)
class GroupDeleted:
    """The deletion of a group and its offsets, complete once their tombstones are durable."""

    group: Group
    offsets: OffsetChange


class GroupCoordinator:
    """The groups of one partition and their committed offsets.

    Args:
        topics: the existing topics; empty by default.
        configs_of: returns the config overrides of a group, by its id.
        memory: bound that the coordinators of all partitions share; by default one of its own.

    Attributes:
        memory: memory held by groups and offsets.
        forgetting: offsets of deleted topics that are still to be deleted.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicCatalogue | None = None,
        configs_of: Callable[[str], Mapping[str, str]] = lambda _: {},
        memory: GroupMemory | None = None,
    ) -> None:
        self.config = config
        self._topics = TopicCatalogue(1, OneBroker(0)) if topics is None else topics
        self._configs_of = configs_of
        self.memory = GroupMemory(config.pipeline_group_bytes) if memory is None else memory
        self.registry = GroupRegistry(self.memory)
        self._offsets = CommittedOffsets(self.memory)
        self.forgetting = Forgetting(self._offsets)
        self._to_check = ToCheck()
        self._deadlines: Deadlines[str] = Deadlines()
        self._kinds: list[GroupKind] = []

    @functools.cached_property
    def classic(self) -> ClassicGroups:
        from pipeline_broker.state.groups.classic.coordinator import (  # noqa: PLC0415 - load a kind on first use
            ClassicGroups,
        )

        classic = ClassicGroups(self.config, self.registry)
        self._kinds.append(classic)
        return classic

    @functools.cached_property
    def consumer(self) -> ConsumerGroups:
        from pipeline_broker.state.groups.consumer.coordinator import (  # noqa: PLC0415 - load a kind on first use
            ConsumerGroups,
        )

        consumer = ConsumerGroups(self.config, self.registry, self.classic, self._topics, self._configs_of)
        self._kinds.append(consumer)
        return consumer

    @functools.cached_property
    def streams(self) -> StreamsGroups:
        from pipeline_broker.state.groups.streams.coordinator import (  # noqa: PLC0415 - load a kind on first use
            StreamsGroups,
        )

        streams = StreamsGroups(self.config, self.registry, self.classic, self._topics, self._configs_of)
        self._kinds.append(streams)
        return streams

    @functools.cached_property
    def share(self) -> ShareGroups:
        from pipeline_broker.state.groups.share.coordinator import ShareGroups  # noqa: PLC0415 - load on first use

        share = ShareGroups(self.config, self.registry, self._configs_of)
        self._kinds.append(share)
        return share

    def change_config(self, config: BrokerConfig) -> None:
        self.config = config
        self.memory.bytes_max = config.pipeline_group_bytes
        for kind in self._kinds:
            kind.config = config

    def _kind(self, group_type: GroupType) -> GroupKind:
        if group_type is GroupType.SHARE:
            return self.share
        if group_type is GroupType.STREAMS:
            return self.streams
        return self.classic if group_type is GroupType.CLASSIC else self.consumer

    def _type_of(self, group_id: str) -> GroupType | None:
        group = self.registry.get(group_id)
        return None if group is None else group.group_type

    # Members of the classic protocol

    def join(self, request: JoinRequest, token: object, now_ms: int) -> Outcome:
        """Answer a JoinGroup request, or park it under `token`.

        A join turns an empty consumer or streams group into a classic group. A consumer group with members accepts it
        as a member of the classic protocol.
        """
        group = self.registry.get(request.group_id)
        if group is None or group.group_type is GroupType.CLASSIC:
            return self.classic.join(request, token, now_ms)
        is_streams = group.group_type is GroupType.STREAMS and group.is_empty
        if group.group_type is not GroupType.CONSUMER and not is_streams:
            # As in Kafka, without the member id.
            refused = attrs.evolve(request, member_id="")
            return self.classic.refuse_join(refused, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, token, now_ms)
        error = self.classic.join_error(request, None if group.is_empty else group)
        if error is not ErrorCode.NONE:
            return self.classic.refuse_join(request, error, token, now_ms)
        if not group.is_empty:
            return self.consumer.join(request, token, now_ms)
        kind = self.streams if is_streams else self.consumer
        outcome = Outcome(writes=[kind.tombstones(group, now_ms)])
        outcome.extend(self.classic.join(request, token, now_ms))
        return outcome

    def sync(self, request: SyncRequest, token: object, now_ms: int) -> Outcome:
        if self._type_of(request.group_id) is GroupType.CONSUMER:
            return self.consumer.sync(request, token, now_ms)
        return self.classic.sync(request, token, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Return the error of a Heartbeat request of the classic protocol; restart the session of a valid member."""
        if self._type_of(request.group_id) is GroupType.CONSUMER:
            return self.consumer.classic_heartbeat(request, now_ms)
        return self.classic.heartbeat(request, now_ms)

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], now_ms: int) -> tuple[LeaveResult, Outcome]:
        """Remove members from a group, and return the result of each.

        The response must wait until the writes of the outcome are durable.
        """
        if self._type_of(group_id) is GroupType.CONSUMER:
            return self.consumer.leave(group_id, leaving, now_ms)
        return self.classic.leave(group_id, leaving, now_ms)

    # Administration

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe a group of the classic protocol; a group of any other kind counts as not found."""
        group = self.registry.shown(group_id)
        if group is not None and group.group_type is GroupType.CLASSIC:
            return self.classic.describe(group)
        reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return self.classic.not_found(group_id, reason)

    def list_groups(
        self,
        states: AbstractSet[str] = frozenset(),
        types: AbstractSet[str] = frozenset(),
        group_ids: Iterable[str] | None = None,
    ) -> list[ListedGroup]:
        """List the groups that match the filters; an empty filter matches every group.

        Args:
            states, types: names in lower case.
            group_ids: list only these groups, as far as they exist; None lists all.
        """
        groups = self.registry.all_shown() if group_ids is None else filter(None, map(self.registry.shown, group_ids))
        return [
            ListedGroup(group.group_id, group.protocol_type_name, group.state_name, group.group_type.value)
            for group in groups
            if (not states or group.state_name.lower() in states) and (not types or group.group_type.value in types)
        ]

    def delete(self, group_ids: Iterable[str], now_ms: int) -> tuple[dict[str, ErrorCode], Outcome]:
        """Delete empty groups with their offsets; return the error of each group, by its id.

        The response must wait until the writes of the outcome are durable.
        """
        outcome = Outcome()
        errors: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            if group_id in errors:
                continue
            group = self.registry.get(group_id)
            if group is None or group.is_deleted:
                errors[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                errors[group_id] = ErrorCode.NON_EMPTY_GROUP
            else:
                errors[group_id] = ErrorCode.NONE
                outcome.writes.append(self._delete(group, now_ms))
        return errors, outcome

    # Interventions by operators, outside the Kafka protocol

    def expire_members(self, group_id: str, member_id: str | None, now_ms: int) -> Outcome | None:
        """Remove a member, or all members if `member_id` is None, as if their sessions had expired.

        Returns None if the group or the member does not exist.
        """
        group = self.registry.get(group_id)
        if group is None or group.is_deleted or (member_id is not None and member_id not in group.members):
            return None
        outcome = Outcome()
        for each in list(group.members) if member_id is None else [member_id]:
            # Look the group up again: removing a member may convert it to another kind.
            remaining = self.registry.get(group_id)
            assert remaining is not None, "a group outlives its members"
            outcome.extend(self._kind(remaining.group_type).expire_member(remaining, each, now_ms))
        return outcome

    def force_rebalance(self, group_id: str, now_ms: int) -> Outcome | None:
        """Start a rebalance of a group; return None if it has no members or does not exist."""
        group = self.registry.get(group_id)
        if group is None or group.is_empty or group.is_deleted:
            return None
        return self._kind(group.group_type).force_rebalance(group, now_ms)

    # Offsets

    def commit(self, request: CommitRequest, now_ms: int) -> CommitResult:
        """Check a commit and return its errors and its write.

        An accepted commit restarts the session of its member. A commit without a generation creates a missing group.
        The offsets become visible when `durable` is called with the write.
        """
        group = self.registry.get(request.group_id)
        if group is None and request.generation_id >= 0:
            error = ErrorCode.GROUP_ID_NOT_FOUND if request.missing_group_named else ErrorCode.ILLEGAL_GENERATION
            return CommitResult((error,) * len(request.partitions))
        if group is None and not self.memory.has_room(GROUP_BYTES):
            return CommitResult((ErrorCode.INVALID_COMMIT_OFFSET_SIZE,) * len(request.partitions))
        if group is None:
            # A client outside of group management creates its (simple) group with its first commit.
            group = self.classic.create(request.group_id, now_ms)
        error = group.commit_error(request)
        if error is not ErrorCode.NONE:
            return CommitResult((error,) * len(request.partitions))
        self._kind(group.group_type).committed(group, request.member_id, now_ms)
        prepared = request.prepared or commits.prepare(request, self.config, now_ms)
        result = commits.commit(self._offsets, request, prepared)
        if result.write is not None and request.producer_id is None:
            self.forgetting.discard(key for key, _ in prepared.changes)
        return result

    def fetch_error(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error of an OffsetFetch request, by its member id and epoch (version 9 and later).

        Returns NONE for a missing group.
        """
        group = self.registry.get(group_id)
        return ErrorCode.NONE if group is None else group.fetch_error(member_id, member_epoch)

    def fetch(
        self, group_id: str, topics: Iterable[FetchTopic] | None = None, *, require_stable: bool = False
    ) -> list[FetchedOffset]:
        """Return durable offsets of a group, of some partitions or of all (None); see `commits.fetch`."""
        group = self.registry.get(group_id)
        if group is not None and group.is_deleted and topics is None:
            return []
        return commits.fetch(self._offsets, group_id, topics, require_stable=require_stable)

    def committed_partitions(self, group_id: str, topic: str | None = None) -> dict[str, list[int]]:
        """Return the partitions with committed offsets, by topic, so that a caller can fetch them in batches.

        Args:
            topic: list this topic only; None lists all topics.
        """
        group = self.registry.get(group_id)
        return {} if group is not None and group.is_deleted else self._offsets.partitions_of_group(group_id, topic)

    def count_offsets(self, group_id: str) -> int:
        """Return the number of offsets that `fetch` returns for all partitions, in a step for each topic."""
        group = self.registry.get(group_id)
        return 0 if group is not None and group.is_deleted else self._offsets.count(group_id)

    def delete_offsets(self, group_id: str, wanted: Collection[DeletedOffset]) -> DeletedOffsets:
        """Delete committed offsets of a group, except those of topics that it subscribes to."""
        return delete_offsets(self.registry.get(group_id), self._offsets, group_id, wanted)

    def forget_before(self, request: CommitRequest) -> Outcome:
        """Return the tombstones that must precede the offsets of a transactional commit.

        Topics of the commit may have been deleted and created again. Then their old offsets may still wait for
        deletion.
        """
        keys = (OffsetKey(request.group_id, it.topic, it.partition) for it in request.partitions)
        return self.forgetting.delete_before_commit(request.group_id, keys)

    def topic_changed(self) -> None:
        for kind in self._kinds:
            kind.topic_changed()

    # Time and durability

    def next_deadline_ms(self) -> int | None:
        """Return the latest time to call `advance`; None if no timer runs."""
        if self.forgetting or self._to_check:
            # The next batch is ready: call `advance` at once.
            return 0
        deadlines = [self._deadlines.next_ms(), *(kind.next_deadline_ms() for kind in self._kinds)]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now_ms: int) -> Outcome:
        """Run the timers that have expired, and the next part of long deletions and expiry checks."""
        outcome = self.forgetting.delete_batch()
        for kind in self._kinds:
            outcome.extend(kind.advance(now_ms))
        for _ in self._deadlines.pop_due(now_ms):
            self._to_check.add(group.group_id for group in self.registry.all())
            self._schedule_expiry(now_ms)
        for group_id in self._to_check.next_groups(self._offsets.count):
            self._expire_offsets(group_id, outcome, now_ms)
        return outcome

    def durable(self, write: Write, now_ms: int) -> Outcome:
        """Apply a write after its records became durable.

        Writes become durable in the order in which they were returned.
        """
        change = write.change
        if isinstance(change, OffsetChange):
            self._offsets.apply(change)
        elif isinstance(change, GroupDeleted):
            self._offsets.apply(change.offsets)
            self._kind(change.group.group_type).deleted(change.group)
        elif change is not None:
            return self._owner(change).durable(change, now_ms)
        return Outcome()

    def failed(self, write: Write, error: ErrorCode, now_ms: int) -> Outcome:
        change = write.change
        if isinstance(change, OffsetChange):
            self._offsets.drop(change)
        elif isinstance(change, GroupDeleted):
            self._offsets.drop(change.offsets)
            self._kind(change.group.group_type).not_deleted(change.group, now_ms)
        elif change is not None:
            return self._owner(change).failed(change, error, now_ms)
        return Outcome()

    def replay(self, record: GroupRecord) -> None:
        """Apply one durable record.

        Raises:
            MisplacedRecordError: the record contradicts the records before it; nothing has changed.
        """
        if record.owner is not None:
            self._kind(record.owner).replay(record.change)
            return
        subject, committed = record.change
        self._offsets.replay(subject, committed)
        if committed is not None and self.registry.get(subject.group_id) is None:
            self.classic.create(subject.group_id, -1)

    def replay_held(self, producer_id: int, record: GroupRecord) -> None:
        """Apply a record that belongs to an open transaction; only committed offsets have an effect."""
        if record.owner is not None:
            return
        subject, committed = record.change
        if committed is not None:
            self._offsets.replay_held(producer_id, subject, committed)
            if self.registry.get(subject.group_id) is None:
                self.classic.create(subject.group_id, -1)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply or drop the offsets of a transaction, after its marker became durable in one partition of the topic."""
        self._offsets.end_transaction(producer_id, committed=committed)

    def loaded(self, now_ms: int) -> Outcome:
        """Start the sessions of all members, after the last record was replayed."""
        outcome = Outcome()
        for kind in self._kinds:
            outcome.extend(kind.loaded(now_ms))
        self._schedule_expiry(now_ms)
        return outcome

    def unload(self, now_ms: int) -> Outcome:
        """Answer all parked requests with NOT_COORDINATOR. The coordinator must not be used afterwards."""
        outcome = Outcome()
        for kind in self._kinds:
            outcome.extend(kind.unload(now_ms))
        return outcome

    def _owner(self, change: object) -> GroupKind:
        return next(kind for kind in self._kinds if isinstance(change, kind.changes))

    def _expire_offsets(self, group_id: str, outcome: Outcome, now_ms: int) -> None:
        group = self.registry.get(group_id)
        if group is None or group.is_deleted:
            return
        keys = expired(group, self._offsets, self.config.offsets_retention_minutes * MINUTE_MS, now_ms)
        # `deletable` includes pending and transactional offsets, so a group that still has some stays.
        if group.is_deletable_unasked and len(keys) == len(self._offsets.deletable(group_id)):
            outcome.writes.append(self._delete(group, now_ms))
        elif keys:
            outcome.writes.append(commits.deletion(self._offsets, group_id, keys))

    def _schedule_expiry(self, now_ms: int) -> None:
        self._deadlines.set(EXPIRY, now_ms + self.config.offsets_retention_check_interval_ms)

    def _delete(self, group: Group, now_ms: int) -> Write:
        write = commits.deletion(self._offsets, group.group_id, self._offsets.deletable(group.group_id))
        records = (*write.records, *self._kind(group.group_type).delete(group, now_ms))
        assert isinstance(write.change, OffsetChange)
        return Write(group.group_id, records, GroupDeleted(group, write.change))
