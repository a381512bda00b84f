"""The consumer groups of a broker (KIP-848), as one of the kinds of groups.

Every group exists twice: a pending one, on which requests are decided, and the shown one, to which the same updates are
applied once their records are durable. A response waits for the records of its request. If it has none, it waits for
the pending records of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ConsumerGroupSettings
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.classic.coordinator import ClassicGroups
from pipeline_broker.state.groups.classic.messages import (
    HeartbeatRequest as ClassicHeartbeatRequest,
)
from pipeline_broker.state.groups.classic.messages import (
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.groups.classic.records import group_tombstone
from pipeline_broker.state.groups.consumer import classic_members, heartbeats, migration
from pipeline_broker.state.groups.consumer.assigning import bump_epoch
from pipeline_broker.state.groups.consumer.describing import assignment_of, describe_group
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.leaving import remove_members, tombstone_all
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.messages import (
    DescribedConsumerGroup,
    GroupError,
    HeartbeatRequest,
    HeartbeatResult,
    NamedPartitions,
)
from pipeline_broker.state.groups.consumer.records import record_of
from pipeline_broker.state.groups.consumer.step import Step, Timer, TimerKind
from pipeline_broker.state.groups.consumer.topic_view import TopicView
from pipeline_broker.state.groups.consumer.updates import GroupUpdated, Subject, Update
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.registry import GroupRegistry, check_replaceable
from pipeline_broker.state.outcome import Completion, Outcome, StateRecord, Write

__all__ = ["ConsumerGroups"]


class ConsumerGroups:
    """All consumer groups of a broker; see `GroupKind`.

    Args:
        registry: the groups of every kind.
        classic: receives groups that are downgraded.
        topics: the existing topics.
        configs_of: returns the config overrides of a group, by its id.
    """

    changes: tuple[type, ...] = (GroupUpdated,)

    def __init__(
        self,
        config: BrokerConfig,
        registry: GroupRegistry,
        classic: ClassicGroups,
        topics: TopicView,
        configs_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.config = config
        self._registry = registry
        self._classic = classic
        self._topics = topics
        self._configs_of = configs_of
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._unsettled: dict[str, list[GroupUpdated]] = {}
        self._topics_version = 0

    # Members of the consumer protocol

    def heartbeat(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        """Answer a ConsumerGroupHeartbeat once its changes are durable."""
        try:
            heartbeats.check_request(request, self.config)
            if heartbeats.is_leaving(request):
                return self._leave_one(request, token, now_ms)
            step = self._step_of(request, now_ms)
            return self._finish(step, token, heartbeats.heartbeat(step, request))
        except GroupError as error:
            return _refused(token, HeartbeatResult(error=error.code, message=error.message))

    def refresh_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Restart the session of a member that the broker cannot serve now, so that it stays in its group."""
        group = self._group(group_id)
        if group is not None and member_id in group.members:
            self._step(group, now_ms).start_session(group.members[member_id])

    def _step_of(self, request: HeartbeatRequest, now_ms: int) -> Step:
        group_id, joins = request.group_id, request.member_epoch == 0
        group = self._registry.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._step(group, now_ms)
        if group is None and not joins:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if group is not None and group.is_deleted:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if group is not None and not (joins and isinstance(group, ClassicGroup)):
            raise _of_another_kind(group_id)
        step = self._step(ConsumerGroup(group_id=group_id), now_ms)
        if isinstance(group, ClassicGroup):
            if group.is_empty:
                step.replaces = group
                step.records.append(group_tombstone(group_id))
            else:
                migration.check_upgrade(group, self.config)
                migration.upgrade(step, group)
        return step

    def _leave_one(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        group = self._registry.get(request.group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _of_another_kind(request.group_id)
        step = self._step(group, now_ms)
        result, members = heartbeats.leaving_members(step, request)
        return self._finish(step, token, result, self._remove(step, members))

    # Members of the classic protocol

    def join(self, request: JoinRequest, token: object, now_ms: int) -> Outcome:
        """Answer a JoinGroup request to a consumer group once its changes are durable."""
        group = self._group(request.group_id)
        assert group is not None, "the coordinator has seen that it is one"
        step = self._step(group, now_ms)
        was_mixed, epoch = group.classic_members < len(group.members), group.epoch
        try:
            result = classic_members.join(step, request)
        except GroupError as error:
            return _refused(token, JoinResult(error=error.code, member_id=request.member_id))
        if not was_mixed or not migration.can_downgrade(step, frozenset(), replaced=True):
            return self._finish(step, token, result)
        # The other members continue undisturbed (KAFKA-19546), unless this one has changed its subscription or has no
        # target yet. Then all join again. As in Kafka, this member gets a generation that does not exist (0).
        rebalances = not epoch == group.epoch == group.assignment_epoch
        result = result._replace(generation_id=0 if rebalances else epoch)
        return self._finish(step, token, result, self._downgrade(step, frozenset(), epoch, rebalances=rebalances))

    def sync(self, request: SyncRequest, token: object, now_ms: int) -> Outcome:
        """Answer a SyncGroup request to a consumer group once pending records are durable."""
        group = self._group(request.group_id)
        assert group is not None, "the coordinator has seen that it is one"
        step = self._step(group, now_ms)
        try:
            return self._finish(step, token, classic_members.sync(step, request))
        except GroupError as error:
            return _refused(token, SyncResult(error=error.code))

    def classic_heartbeat(self, request: ClassicHeartbeatRequest, now_ms: int) -> ErrorCode:
        group = self._group(request.group_id)
        assert group is not None, "the coordinator has seen that it is one"
        try:
            return classic_members.heartbeat(self._step(group, now_ms), request)
        except GroupError as error:
            return error.code

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], now_ms: int) -> tuple[LeaveResult, Outcome]:
        """Remove members of either protocol. The response must wait until the writes of the outcome are durable."""
        group = self._group(group_id)
        assert group is not None, "the coordinator has seen that it is one"
        step = self._step(group, now_ms)
        found = [classic_members.leaving(step, leaver) for leaver in leaving]
        members = {member.member_id: member for _, member in found if member is not None}
        outcome = self._finish(step, None, None, self._remove(step, tuple(members.values())))
        return LeaveResult(members=tuple(left for left, _ in found)), outcome

    # Only heartbeats extend the session of a member of the consumer protocol.
    def committed(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None: ...

    def expire_member(self, group: ConsumerGroup, member_id: str, now_ms: int) -> Outcome:
        step = self._step(group, now_ms)
        return self._finish(step, None, None, self._remove(step, (group.members[member_id],)))

    def force_rebalance(self, group: ConsumerGroup, now_ms: int) -> Outcome:
        step = self._step(group, now_ms)
        bump_epoch(step)
        return self._finish(step, None, None)

    # Administration

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self._registry.shown(group_id)
        if group is None:
            return DescribedConsumerGroup(group_id=group_id, not_found=f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            return DescribedConsumerGroup(group_id=group_id, not_found=f"Group {group_id} is not a consumer group.")
        return describe_group(self._step(group, 0))

    def assignments(self, group: ConsumerGroup) -> Iterator[tuple[Member, tuple[NamedPartitions, ...]]]:
        step = self._step(group, 0)
        for member in list(group.members.values()):
            yield member, assignment_of(step, member)

    def tombstones(self, group: Group, now_ms: int) -> Write:
        """Return the write that deletes an empty group, which a classic group replaces."""
        records = self.delete(group, now_ms)
        return Write(group.group_id, records, GroupUpdated(group.group_id, (), is_removed=True))

    def delete(self, group: Group, now_ms: int) -> tuple[StateRecord, ...]:
        assert isinstance(group, ConsumerGroup)
        step = self._step(group, now_ms)
        tombstone_all(step)
        self._registry.remove(group)
        return tuple(record_of(group.group_id, update) for update in step.updates)

    def deleted(self, group: ConsumerGroup) -> None:
        shown = self._registry.shown(group.group_id)
        if isinstance(shown, ConsumerGroup):
            self._registry.hide(shown)

    def not_deleted(self, group: ConsumerGroup, now_ms: int) -> None:
        """Do nothing: replay restores the group when the coordinator loads its partition again."""

    # Time and durability

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def advance(self, now_ms: int) -> Outcome:
        """Remove members with expired timers, all members of one group in one write."""
        late: dict[str, dict[str, Member]] = {}
        for timer in self._deadlines.pop_due(now_ms):
            group = self._group(timer.group_id)
            member = None if group is None else group.members.get(timer.member_id)
            if member is not None:
                late.setdefault(timer.group_id, {})[timer.member_id] = member
        outcome = Outcome()
        for group_id, members in late.items():
            group = self._group(group_id)
            assert group is not None
            step = self._step(group, now_ms)
            outcome.extend(self._finish(step, None, None, self._remove(step, tuple(members.values()))))
        return outcome

    def durable(self, change: GroupUpdated, now_ms: int) -> Outcome:
        del now_ms
        self._settle(change)
        shown = self._registry.shown(change.group_id)
        if change.is_removed:
            if isinstance(shown, ConsumerGroup):
                self._registry.hide(shown)
            if change.successor is not None:
                self._registry.show(change.successor)
        else:
            if not isinstance(shown, ConsumerGroup):
                shown = ConsumerGroup(group_id=change.group_id)
                self._registry.show(shown)
            for update in change.updates:
                shown.apply(update)
        return Outcome(completions=change.completions)

    def failed(self, change: GroupUpdated, error: ErrorCode, now_ms: int) -> Outcome:
        del now_ms
        # The pending group is not rolled back: it is replayed when its partition is loaded again.
        self._settle(change)
        return Outcome(
            completions=[Completion(each.token, type(each.result)(error=error)) for each in change.completions]  # type: ignore[call-arg]  # all results have an error
        )

    def _settle(self, change: GroupUpdated) -> None:
        waiting = self._unsettled.get(change.group_id, [])
        if change in waiting:
            waiting.remove(change)
        if not waiting:
            self._unsettled.pop(change.group_id, None)

    def replay(self, change: tuple[str, Update]) -> None:
        group_id, update = change
        group = self._registry.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if update.value is None:
                return  # a tombstone of a group that was deleted, or converted to a classic one
            check_replaceable(group, GroupType.CONSUMER)
            if group is not None:
                self._registry.hide(group)
            group = ConsumerGroup(group_id=group_id)
            self._registry.put(group)
        group.apply(update)
        # The tombstone of the group epoch is the last record of its group, see `tombstone_all`.
        if update.subject is Subject.GROUP_EPOCH and update.value is None:
            self._registry.remove(group)

    def loaded(self, now_ms: int) -> Outcome:
        for group in self._all():
            # A copy: the shown group must not change with later decisions.
            self._registry.show(group.copy())
            step = self._step(group, now_ms)
            for member in group.members.values():
                step.start_session(member)
                if member.current.must_revoke and member.metadata.classic is None:
                    step.start(TimerKind.REBALANCE, member.member_id, member.metadata.rebalance_timeout_ms)
        return Outcome()

    def unload(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        for changes in list(self._unsettled.values()):
            for change in list(changes):
                outcome.extend(self.failed(change, ErrorCode.NOT_COORDINATOR, now_ms))
                # The write may still settle later; it must not answer twice.
                change.completions.clear()
        return outcome

    def topic_changed(self) -> None:
        """Let each group compare its topics again on its next heartbeat."""
        self._topics_version += 1

    def _group(self, group_id: str) -> ConsumerGroup | None:
        group = self._registry.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _all(self) -> list[ConsumerGroup]:
        return [group for group in self._registry.all() if isinstance(group, ConsumerGroup)]

    def _step(self, group: ConsumerGroup, now_ms: int) -> Step:
        config, memory = self.config, self._registry.memory
        settings = ConsumerGroupSettings.of(config, self._configs_of(group.group_id))
        return Step(group, now_ms, config, settings, self._topics, self._topics_version, self._deadlines, memory)

    def _remove(self, step: Step, members: tuple[Member, ...]) -> Outcome | None:
        """Remove members; return a further outcome if the group is downgraded to a classic one."""
        leaving = frozenset(member.member_id for member in members)
        if leaving and migration.can_downgrade(step, leaving):
            return self._downgrade(step, leaving, step.group.epoch, rebalances=True)
        if leaving:
            remove_members(step, members)
        return None

    def _downgrade(self, step: Step, leaving: frozenset[str], generation_id: int, *, rebalances: bool) -> Outcome:
        classic = migration.downgrade(step, leaving, generation_id)
        self._registry.remove(step.group)
        outcome = self._classic.take_over(classic, step.now_ms, rebalances=rebalances)
        records = [record_of(classic.group_id, update) for update in step.updates]
        change = GroupUpdated(classic.group_id, (), is_removed=True, successor=classic)
        # Before the writes of the rebalance that `take_over` may have started.
        outcome.writes.insert(0, Write(classic.group_id, (*records, *self._classic.records(classic)), change))
        self._unsettled.setdefault(classic.group_id, []).append(change)
        step.updates.clear()
        return outcome

    def _finish(self, step: Step, token: object, result: Any, outcome: Outcome | None = None) -> Outcome:
        """Write the updates of a step, and answer once all pending records of the group are durable."""
        outcome = Outcome() if outcome is None else outcome
        group_id = step.group.group_id
        if step.updates:
            if isinstance(step.replaces, ClassicGroup):
                outcome.extend(self._classic.give_up(step.replaces, step.now_ms))
            if self._registry.get(group_id) is not step.group:
                self._registry.put(step.group)
            records = (*step.records, *(record_of(group_id, update) for update in step.updates))
            change = GroupUpdated(group_id, tuple(step.updates))
            outcome.writes.append(Write(group_id, records, change))
            self._unsettled.setdefault(group_id, []).append(change)
        if result is not None:
            # Writes settle in order, so the last pending one of the group settles after all others.
            unsettled = self._unsettled.get(group_id)
            completions = unsettled[-1].completions if unsettled else outcome.completions
            completions.append(Completion(token, result))
        return outcome


def _refused(token: object, result: Any) -> Outcome:
    return Outcome(completions=[Completion(token, result)])


def _of_another_kind(group_id: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {GroupType.CONSUMER.value} group.")
