"""The groups of one kind, as a `GroupKind`: each exists in its pending and in its durable state.

Every group exists twice: a pending one, on which requests are decided, and the shown one, to which the same updates are
applied once their records are durable. A response waits for the records of its request. If it has none, it waits for
the pending records of the group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.classic.coordinator import ClassicGroups
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.groups.modern.group import ModernGroup
from pipeline_broker.state.groups.modern.layouts import Layouts, record_of
from pipeline_broker.state.groups.modern.step import ModernStep, Timer, TimerKind
from pipeline_broker.state.groups.modern.updates import GroupUpdated, Update
from pipeline_broker.state.groups.registry import GroupRegistry, check_replaceable
from pipeline_broker.state.groups.topic_view import TopicView
from pipeline_broker.state.outcome import Completion, Outcome, StateRecord, Write

__all__ = ["ModernGroups", "refused"]

AnyGroup = TypeVar("AnyGroup", bound=ModernGroup)
AnyStep = TypeVar("AnyStep", bound=ModernStep[Any, Any])


class ModernGroups(Generic[AnyGroup, AnyStep]):
    """All groups of one kind; see `GroupKind`.

    Args:
        registry: the groups of every kind.
        classic: the classic groups, which a group may replace.
        topics: the existing topics.
        configs_of: returns the config overrides of a group, by its id.

    Attributes:
        layouts: the records of the kind. The tombstone of `epoch_subject` removes a group.
    """

    changes: tuple[type, ...]
    group_class: ClassVar[type[Any]]
    updated: ClassVar[type[GroupUpdated]]
    layouts: ClassVar[Layouts]
    epoch_subject: ClassVar[int]

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

    @abstractmethod
    def _step(self, group: AnyGroup, now_ms: int) -> AnyStep: ...

    @abstractmethod
    def _remove(self, step: AnyStep, members: Collection[Any]) -> Outcome | None:
        """Remove members; return a further outcome if the group becomes one of another kind."""

    @abstractmethod
    def _bump_epoch(self, step: AnyStep) -> None: ...

    @abstractmethod
    def _tombstone_all(self, step: AnyStep) -> None: ...

    def _expired(self, step: AnyStep, timers: Collection[Timer]) -> Outcome | None:
        members = {timer.member_id: step.group.members[timer.member_id] for timer in timers if timer.member_id}
        return self._remove(step, tuple(members.values())) if members else None

    def refresh_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Restart the session of a member that the broker cannot serve now, so that it stays in its group."""
        group = self._group(group_id)
        if group is not None and member_id in group.members:
            self._step(group, now_ms).start_session(group.members[member_id])

    # Only heartbeats extend the session of a member of these protocols.
    def committed(self, group: AnyGroup, member_id: str, now_ms: int) -> None: ...

    def expire_member(self, group: AnyGroup, member_id: str, now_ms: int) -> Outcome:
        step = self._step(group, now_ms)
        return self._finish(step, None, None, self._remove(step, (group.members[member_id],)))

    def force_rebalance(self, group: AnyGroup, now_ms: int) -> Outcome:
        step = self._step(group, now_ms)
        self._bump_epoch(step)
        return self._finish(step, None, None)

    # Administration

    def tombstones(self, group: Group, now_ms: int) -> Write:
        """Return the write that deletes an empty group, which a classic group replaces."""
        records = self.delete(group, now_ms)
        return Write(group.group_id, records, self.updated(group.group_id, (), is_removed=True))

    def delete(self, group: Any, now_ms: int) -> tuple[StateRecord, ...]:
        step = self._step(group, now_ms)
        self._tombstone_all(step)
        self._registry.remove(group)
        return self._records(step)

    def deleted(self, group: AnyGroup) -> None:
        shown = self._registry.shown(group.group_id)
        if isinstance(shown, self.group_class):
            self._registry.hide(shown)

    def not_deleted(self, group: AnyGroup, now_ms: int) -> None:
        """Do nothing: replay restores the group when the coordinator loads its partition again."""

    # Time and durability

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def advance(self, now_ms: int) -> Outcome:
        late: dict[str, list[Timer]] = {}
        for timer in self._deadlines.pop_due(now_ms):
            group = self._group(timer.group_id)
            if group is not None and (not timer.member_id or timer.member_id in group.members):
                late.setdefault(timer.group_id, []).append(timer)
        outcome = Outcome()
        for group_id, timers in late.items():
            group = self._group(group_id)
            assert group is not None
            step = self._step(group, now_ms)
            outcome.extend(self._finish(step, None, None, self._expired(step, timers)))
        return outcome

    def durable(self, change: GroupUpdated, now_ms: int) -> Outcome:
        del now_ms
        self._settle(change)
        shown = self._registry.shown(change.group_id)
        if change.is_removed:
            if isinstance(shown, self.group_class):
                self._registry.hide(shown)
            if change.successor is not None:
                self._registry.show(change.successor)
        else:
            if not isinstance(shown, self.group_class):
                shown = self.group_class(group_id=change.group_id)
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
        group: Any = self._registry.get(group_id)
        if not isinstance(group, self.group_class):
            if update.value is None:
                return  # a tombstone of a group that was deleted, or converted to a classic one
            check_replaceable(group, self.group_class.group_type)
            if group is not None:
                self._registry.hide(group)
            group = self.group_class(group_id=group_id)
            self._registry.put(group)
        group.apply(update)
        # All other tombstones of a deleted group precede this one, or change nothing; see `_tombstone_all`.
        if update.subject == self.epoch_subject and update.value is None:
            self._registry.remove(group)

    def loaded(self, now_ms: int) -> Outcome:
        for group in self._all():
            shown: Any = group.copy()  # the shown group must not change with later decisions
            self._registry.show(shown)
            step = self._step(group, now_ms)
            for member in group.members.values():
                step.start_session(member)
                if member.current.must_revoke and not group.is_classic(member):
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

    def _group(self, group_id: str) -> AnyGroup | None:
        group: Any = self._registry.get(group_id)
        return group if isinstance(group, self.group_class) else None

    def _all(self) -> list[AnyGroup]:
        groups: list[Any] = [group for group in self._registry.all() if isinstance(group, self.group_class)]
        return groups

    def _records(self, step: AnyStep) -> tuple[StateRecord, ...]:
        group_id = step.group.group_id
        return (*step.records, *(record_of(self.layouts, group_id, update) for update in step.updates))

    def _submit(self, outcome: Outcome, write: Write, *, first: bool = False) -> None:
        """Add a write with an update of this kind to an outcome; later answers of its group wait for it."""
        outcome.writes.insert(0 if first else len(outcome.writes), write)
        assert isinstance(write.change, GroupUpdated)
        self._unsettled.setdefault(write.subject, []).append(write.change)

    def _finish(self, step: AnyStep, token: object, result: Any, outcome: Outcome | None = None) -> Outcome:
        """Write the updates of a step, and answer once all pending records of the group are durable."""
        outcome = Outcome() if outcome is None else outcome
        group_id = step.group.group_id
        if step.updates:
            if isinstance(step.replaces, ClassicGroup):
                outcome.extend(self._classic.give_up(step.replaces, step.now_ms))
            if self._registry.get(group_id) is not step.group:
                self._registry.put(step.group)
            self._submit(outcome, Write(group_id, self._records(step), self.updated(group_id, tuple(step.updates))))
        if result is not None:
            # Writes settle in order, so the last pending one of the group settles after all others.
            unsettled = self._unsettled.get(group_id)
            completions = unsettled[-1].completions if unsettled else outcome.completions
            completions.append(Completion(token, result))
        return outcome


def refused(token: object, result: Any) -> Outcome:
    return Outcome(completions=[Completion(token, result)])
