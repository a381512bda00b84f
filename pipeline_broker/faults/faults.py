"""The fault rules of a broker: made, listed, removed, and asked what they do to a request.

Rules of this room: see `names.py`. All of it is called on the event loop's thread; whoever has another one hands over
to it first. Rules are tried in the order in which they were made, and each counts for itself. An effect that answers or
ends a request decides, and those behind it count for nothing but its answer; delays add up.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import (
    CorruptCrc,
    Crash,
    Delay,
    DiskError,
    Effect,
    Outage,
    Pause,
    StoreError,
    Unsure,
)
from pipeline_broker.faults.held import Held
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, Condition, DiskCondition, RequestCondition, Rule, StoreCondition
from pipeline_broker.faults.rule_makers import RuleBeginner
from pipeline_broker.wire.registry import ApiKey

if TYPE_CHECKING:
    from pipeline_broker.faults.disk import DiskFaults
    from pipeline_broker.faults.rule import Origin
    from pipeline_broker.faults.store_faults import StoreFaults
    from pipeline_broker.faults.subject import Subject

__all__ = ["Faults", "GroupControls"]

logger = logging.getLogger(__name__)

RULES_MAX = 1000
"""Each request is held against each rule."""
FETCHES = frozenset({int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)})


class GroupControls(Protocol):
    """What can be done to a group from outside; each returns whether there is such a group, or member."""

    def expire_member(self, group_id: str, member_id: str | None, now_ms: int) -> bool:
        """Take a member out as if its session were over, or all of them."""

    def force_rebalance(self, group_id: str, now_ms: int) -> bool:
        """Have the members of a group join again, or move to its next epoch."""


class Faults(RuleBeginner):
    """All rules of one broker; empty until somebody makes one.

    Args:
        clock_ms: wall clock.
        wake_timer: called when `next_deadline_ms` has become earlier.
        disk: the rules about files; None where the broker's files take none.
        changed: called with these rules when some came or went.
        store: the rules about the store of objects; None where there is none.

    Attributes:
        rules: in the order in which they were made.
        keys: of the APIs that a rule is about: other requests need not be judged.
        held: who waits because of them.
    """

    def __init__(
        self,
        groups: GroupControls,
        clock_ms: Callable[[], int],
        wake_timer: Callable[[], None],
        disk: DiskFaults | None = None,
        changed: Callable[[Faults], None] = lambda _: None,
        store: StoreFaults | None = None,
    ) -> None:
        self.rules: list[Rule] = []
        self.keys: frozenset[int] = frozenset()
        self.held = Held(wake_timer)
        self.disk = disk
        self.store = store
        self._notify = changed
        self._groups = groups
        self._clock_ms = clock_ms
        self._numbers = itertools.count(1)

    def add(
        self,
        condition: Condition,
        choice: Choice,
        effect: Effect,
        origin: Origin = "Python",
    ) -> Rule:
        """Make a rule of its parts; it counts from the next request on.

        Raises:
            FaultError: the effect makes no sense for what the rule is about, or there are too many rules.
        """
        if len(self.rules) >= RULES_MAX:
            raise FaultError(f"there are {RULES_MAX} rules already; remove some")
        self.check(condition, effect)
        rule = Rule(next(self._numbers), condition, choice, effect, origin)
        self.rules.append(rule)
        logger.warning("fault rule %d is active: %s", rule.number, rule)
        self._rules_changed()
        return rule

    def check(self, condition: Condition, effect: Effect) -> None:
        """Refuse an effect that makes no sense for what a rule is about.

        Raises:
            FaultError: it makes none.
        """
        if isinstance(condition, StoreCondition):
            self._check_store(effect)
            return
        needs_disk = isinstance(condition, DiskCondition) or (type(effect) is Pause and effect.stage == effects.COMMIT)
        if needs_disk and self.disk is None:
            raise FaultError("the files of this broker take no fault rules")
        if isinstance(effect, StoreError | Unsure | Outage):
            raise FaultError(f"{effect} is an effect on a store of objects")
        if isinstance(condition, DiskCondition):
            if not isinstance(effect, Delay | Pause | DiskError | Crash):
                raise FaultError(f"{effect.key} is not an effect on a file; there are crash, delay, error, pause")
            if type(effect) is Crash and self.disk is not None and not self.disk.can_crash:
                raise FaultError("a crash ends the process: only a broker that runs in a process of its own takes it")
        elif isinstance(effect, DiskError | Crash):
            raise FaultError(f"{effect.key} is an effect on a file, not on a request")
        elif type(effect) is CorruptCrc and not condition.keys <= FETCHES:
            raise FaultError(f"corrupt_crc is about Fetch and ShareFetch, not {condition.api}")

    def _check_store(self, effect: Effect) -> None:
        if self.store is None:
            raise FaultError("this broker has no store of objects")
        if not isinstance(effect, Delay | Pause | StoreError | Unsure | Outage):
            raise FaultError(f"{effect.key} is not an effect on a store; there are delay, error, outage, pause, unsure")

    # Looking after them

    @property
    def is_active(self) -> bool:
        """Whether there is a rule."""
        return bool(self.rules)

    @property
    def judges_requests(self) -> bool:
        """Whether a rule is about requests."""
        return bool(self.keys)

    def rule(self, number: int) -> Rule:
        """A rule by its number.

        Raises:
            FaultError: there is none.
        """
        for rule in self.rules:
            if rule.number == number:
                return rule
        there_are = ", ".join(str(rule.number) for rule in self.rules) or "none"
        raise FaultError(f"there is no fault rule {number}; there are: {there_are}")

    def remove(self, number: int) -> None:
        """Take a rule away; what it holds goes on.

        Raises:
            FaultError: there is none of this number.
        """
        self._remove([self.rule(number)])

    def clear(self) -> int:
        """Take all rules away, and return how many there were; what they hold goes on."""
        gone = list(self.rules)
        self._remove(gone)
        return len(gone)

    def _remove(self, gone: list[Rule]) -> None:
        for rule in gone:
            rule.is_removed = True
            logger.warning("fault rule %d is gone after %d hits", rule.number, rule.hits)
        self.rules = [rule for rule in self.rules if not rule.is_removed]
        self._rules_changed()
        now_ms = self._clock_ms()
        for rule in gone:
            self.held.rule_gone(rule.number, now_ms)

    def _rules_changed(self) -> None:
        conditions = [rule.condition for rule in self.rules]
        self.keys = frozenset().union(*(each.keys for each in conditions if isinstance(each, RequestCondition)))
        for of_threads in self._of_threads:
            of_threads.follow(self.rules)
        self._notify(self)

    def release(self, number: int) -> bool:
        """Let go what a rule holds; it holds what comes later. Returns whether it held anything.

        Raises:
            FaultError: there is none of this number.
        """
        self.rule(number)
        released = [each.release(number) for each in self._of_threads]
        return self.held.release(number, self._clock_ms()) or any(released)

    def held_by(self, number: int) -> int:
        """How many answers, queues, operations on files and requests to a store a rule holds."""
        return self.held.count(number) + sum(each.count(number) for each in self._of_threads)

    @property
    def _of_threads(self) -> list[DiskFaults | StoreFaults]:
        return [each for each in (self.disk, self.store) if each is not None]

    def end(self) -> None:
        """The broker ends: nobody waits any more, and no rule holds anybody else."""
        if self.is_active:
            self.clear()
        self.held.end()

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        return self.held.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Give the answers whose time has come."""
        self.held.advance(now_ms)

    # Groups

    def expire_member(self, group: str, member: str | None = None) -> None:
        """Take a member out of its group as if its session were over; without a member, all of them.

        Raises:
            FaultError: there is no such group or member.
        """
        if not self._groups.expire_member(group, member, self._clock_ms()):
            raise FaultError(f"there is no group {group!r}" + ("" if member is None else f" with a member {member!r}"))

    def force_rebalance(self, group: str) -> None:
        """Have the members of a group join again; of a consumer or share group, move to its next epoch.

        Raises:
            FaultError: there is no such group, or it has no members.
        """
        if not self._groups.force_rebalance(group, self._clock_ms()):
            raise FaultError(f"there is no group {group!r} with members")

    # What a request meets

    def judge(self, subject: Subject) -> list[Rule]:
        """The rules that strike a request, which is counted; of CorruptCrc those that may, see `Rule.strikes`."""
        struck = []
        for rule in self.rules:
            condition = rule.condition
            is_meant = isinstance(condition, RequestCondition) and condition.matches(subject)
            if is_meant and (type(rule.effect) is CorruptCrc or rule.strikes()):
                struck.append(rule)
        return struck
