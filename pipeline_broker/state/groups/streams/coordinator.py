"""The streams groups of a broker (KIP-1071), as one of the kinds of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.group_settings import StreamsGroupSettings
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.classic.records import group_tombstone
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.modern.coordinator import ModernGroups, refused
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.layouts import Layouts
from pipeline_broker.state.groups.modern.member import LEAVING_EPOCH
from pipeline_broker.state.groups.modern.membership import is_leaving, leave_temporarily, leaving_member
from pipeline_broker.state.groups.modern.removal import remove_members
from pipeline_broker.state.groups.streams import heartbeats
from pipeline_broker.state.groups.streams.assigning import bump_epoch
from pipeline_broker.state.groups.streams.deletion import tombstone_all
from pipeline_broker.state.groups.streams.describing import describe_group, input_partitions, owned_tasks
from pipeline_broker.state.groups.streams.group import StreamsGroup
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.messages import DescribedStreamsGroup, HeartbeatRequest, HeartbeatResult
from pipeline_broker.state.groups.streams.records import LAYOUTS
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.updates import StreamsGroupUpdated, Subject
from pipeline_broker.state.outcome import Outcome

__all__ = ["StreamsGroups"]


class StreamsGroups(ModernGroups[StreamsGroup, Step]):
    changes: tuple[type, ...] = (StreamsGroupUpdated,)
    group_class = StreamsGroup
    updated = StreamsGroupUpdated
    layouts: ClassVar[Layouts] = LAYOUTS
    epoch_subject = Subject.GROUP_EPOCH

    def heartbeat(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        try:
            heartbeats.check_request(request)
            if is_leaving(request):
                return self._leave(request, token, now_ms)
            step = self._step_of(request, now_ms)
            is_new = self._registry.get(request.group_id) is not step.group
            return self._finish(step, token, heartbeats.heartbeat(step, request, is_new=is_new))
        except GroupError as error:
            return refused(token, HeartbeatResult(error=error.code, message=error.message))

    def _step_of(self, request: HeartbeatRequest, now_ms: int) -> Step:
        group_id, joins = request.group_id, request.member_epoch == 0
        group = self._registry.get(group_id)
        if isinstance(group, StreamsGroup):
            return self._step(group, now_ms)
        if group is None and not joins:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if group is not None and group.is_deleted:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        step = self._step(StreamsGroup(group_id=group_id), now_ms)
        if group is not None:
            if not (joins and isinstance(group, ClassicGroup) and group.is_empty):
                raise _of_another_kind(group_id)
            step.replaces = group
            step.records.append(group_tombstone(group_id))
        return step

    def _leave(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        group = self._group(request.group_id)
        if group is None:
            raise _missing(request.group_id, self._registry.get(request.group_id))
        step = self._step(group, now_ms)
        member = leaving_member(step, request)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        result = HeartbeatResult(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == LEAVING_EPOCH:
            return self._finish(step, token, result, self._remove(step, (member,)))
        leave_temporarily(step, member)
        return self._finish(step, token, result)

    # Administration

    def describe(self, group_id: str) -> DescribedStreamsGroup:
        group = self._registry.shown(group_id)
        if not isinstance(group, StreamsGroup):
            return DescribedStreamsGroup(group_id=group_id, not_found=_missing(group_id, group).message)
        return describe_group(self._step(group, 0), self._group(group_id))

    def assignments(self, group: StreamsGroup) -> Iterator[tuple[Member, dict[str, tuple[int, ...]], int]]:
        """Iterate over members, with the partitions that they process and the number of standby and warm-up tasks."""
        step = self._step(group, 0)
        for member in list(group.members.values()):
            tasks = owned_tasks(member)
            backups = sum(map(len, (*tasks.standby.values(), *tasks.warmup.values())))
            yield member, input_partitions(step, member), backups

    # See ModernGroups

    def _step(self, group: StreamsGroup, now_ms: int) -> Step:
        config, memory = self.config, self._registry.memory
        settings = StreamsGroupSettings.of(config, self._configs_of(group.group_id))
        return Step(group, now_ms, config, settings, self._topics, self._topics_version, self._deadlines, memory)

    def _bump_epoch(self, step: Step) -> None:
        bump_epoch(step)

    def _tombstone_all(self, step: Step) -> None:
        tombstone_all(step)

    def _remove(self, step: Step, members: Collection[Member]) -> Outcome | None:
        remove_members(step, members, bump_epoch)
        return None


def _missing(group_id: str, group: Group | None) -> GroupError:
    if group is None:
        return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return _of_another_kind(group_id)


def _of_another_kind(group_id: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {GroupType.STREAMS.value} group.")
