"""The consumer groups of a broker (KIP-848), as one of the kinds of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import ClassVar

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import Steps
from pipeline_broker.config.group_settings import ConsumerGroupSettings
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
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
    HeartbeatRequest,
    HeartbeatResult,
    Matches,
    NamedPartitions,
)
from pipeline_broker.state.groups.consumer.records import LAYOUTS
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.subscribing import find_matches
from pipeline_broker.state.groups.consumer.updates import ConsumerGroupUpdated, Subject
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.modern.coordinator import ModernGroups, refused
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.layouts import Layouts
from pipeline_broker.state.groups.modern.member import LEAVING_EPOCH
from pipeline_broker.state.groups.modern.membership import is_leaving, leave_temporarily, leaving_member
from pipeline_broker.state.outcome import Outcome, Write

__all__ = ["ConsumerGroups"]


class ConsumerGroups(ModernGroups[ConsumerGroup, Step]):
    changes: tuple[type, ...] = (ConsumerGroupUpdated,)
    group_class = ConsumerGroup
    updated = ConsumerGroupUpdated
    layouts: ClassVar[Layouts] = LAYOUTS
    epoch_subject = Subject.GROUP_EPOCH

    # Members of the consumer protocol

    def heartbeat(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        """Carry out a heartbeat.

        Raises:
            MatchesNeeded: the request has a new regular expression, and may not match it.
        """
        try:
            heartbeats.check_request(request, self.config)
            if is_leaving(request):
                return self._leave_one(request, token, now_ms)
            step = self._step_of(request, now_ms)
            return self._finish(step, token, heartbeats.heartbeat(step, request))
        except GroupError as error:
            return refused(token, HeartbeatResult(error=error.code, message=error.message))

    def find_matches(self, regex: str) -> Steps[Matches]:
        return find_matches(regex, [topic.name for topic in self._topics.all()], self._topics_version)

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
        member = leaving_member(step, request)
        result = HeartbeatResult(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == LEAVING_EPOCH:
            return self._finish(step, token, result, self._remove(step, (member,)))
        leave_temporarily(step, member)
        return self._finish(step, token, result)

    # Members of the classic protocol

    def join(self, request: JoinRequest, token: object, now_ms: int) -> Outcome:
        group = self._group(request.group_id)
        assert group is not None, "the coordinator has seen that it is one"
        step = self._step(group, now_ms)
        was_mixed, epoch = group.classic_members < len(group.members), group.epoch
        try:
            result = classic_members.join(step, request)
        except GroupError as error:
            return refused(token, JoinResult(error=error.code, member_id=request.member_id))
        if not was_mixed or not migration.can_downgrade(step, frozenset(), replaced=True):
            return self._finish(step, token, result)
        # The other members continue undisturbed (KAFKA-19546), unless this one has changed its subscription or has no
        # target yet. Then all join again. As in Kafka, this member gets a generation that does not exist (0).
        rebalances = not epoch == group.epoch == group.assignment_epoch
        result = result._replace(generation_id=0 if rebalances else epoch)
        return self._finish(step, token, result, self._downgrade(step, frozenset(), epoch, rebalances=rebalances))

    def sync(self, request: SyncRequest, token: object, now_ms: int) -> Outcome:
        group = self._group(request.group_id)
        assert group is not None, "the coordinator has seen that it is one"
        step = self._step(group, now_ms)
        try:
            return self._finish(step, token, classic_members.sync(step, request))
        except GroupError as error:
            return refused(token, SyncResult(error=error.code))

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

    # See ModernGroups

    def _step(self, group: ConsumerGroup, now_ms: int) -> Step:
        config, memory = self.config, self._registry.memory
        settings = ConsumerGroupSettings.of(config, self._configs_of(group.group_id))
        return Step(group, now_ms, config, settings, self._topics, self._topics_version, self._deadlines, memory)

    def _bump_epoch(self, step: Step) -> None:
        bump_epoch(step)

    def _tombstone_all(self, step: Step) -> None:
        tombstone_all(step)

    def _remove(self, step: Step, members: Collection[Member]) -> Outcome | None:
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
        records = (*self._records(step), *self._classic.records(classic))
        change = ConsumerGroupUpdated(classic.group_id, (), is_removed=True, successor=classic)
        # Before the writes of the rebalance that `take_over` may have started.
        self._submit(outcome, Write(classic.group_id, records, change), first=True)
        step.updates.clear()
        return outcome


def _of_another_kind(group_id: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {GroupType.CONSUMER.value} group.")
