"""The fault rules of a broker: made, listed, removed, and asked what they do to a request.

Rules of this room: see `names.py`. All of it is called on the event loop's thread; whoever has another one hands over
to it first. Rules are tried in the order in which they were made, and each counts for itself. An effect that answers or
ends a request decides, and those behind it count for nothing but its answer; delays add up.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import CorruptCrc, Crash, Delay, DiskError, Effect, Pause, When
from pipeline_broker.faults.held import Held
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, DiskCondition, RequestCondition, Rule
from pipeline_broker.wire.registry import ApiKey

if TYPE_CHECKING:
    from pipeline_broker.faults.disk import DiskFaults
    from pipeline_broker.faults.rule import Origin
    from pipeline_broker.faults.subject import Subject

__all__ = ["DiskRuleMaker", "Faults", "GroupControls", "RuleKeeper", "RuleMaker"]

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


class RuleKeeper(Protocol):
    """Who makes rules of their parts."""

    def add(self, condition: RequestCondition | DiskCondition, choice: Choice, effect: Effect) -> Rule: ...


class Faults:
    """All rules of one broker; empty until somebody makes one.

    Args:
        clock_ms: wall clock.
        wake_timer: called when `next_deadline_ms` has become earlier.
        disk: the rules about files; None where the broker's files take none.
        changed: called with these rules when some came or went.

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
    ) -> None:
        self.rules: list[Rule] = []
        self.keys: frozenset[int] = frozenset()
        self.held = Held(wake_timer)
        self.disk = disk
        self._notify = changed
        self._groups = groups
        self._clock_ms = clock_ms
        self._numbers = itertools.count(1)

    # Making rules

    def when(
        self,
        api: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        nth: int | None = None,
        times: int | None = None,
        every: int | None = None,
        p: float | None = None,
        seed: int | None = None,
    ) -> RuleMaker:
        """Begin a rule about requests; the effect that is named next makes it.

        Args:
            api: Kafka's name of the request, "GroupCoordinator" or "TransactionCoordinator".
            topic, partition, client_id, group: see RequestCondition.
            nth, times, every, p, seed: see Choice.

        Raises:
            FaultError: there is no such API, or numbers make no sense.
        """
        condition = RequestCondition(api=api, topic=topic, partition=partition, client_id=client_id, group=group)
        return RuleMaker(self, condition, Choice(nth=nth, times=times, every=every, p=p, seed=seed))

    def disk_when(
        self,
        operation: str,
        *,
        path: str | None = None,
        nth: int | None = None,
        times: int | None = None,
        every: int | None = None,
        p: float | None = None,
        seed: int | None = None,
    ) -> DiskRuleMaker:
        """Begin a rule about operations on files.

        Args:
            operation: "sync" or "write".
            path: see DiskCondition.
            nth, times, every, p, seed: see Choice.

        Raises:
            FaultError: there is no such operation, or numbers make no sense.
        """
        condition = DiskCondition(disk=operation) if path is None else DiskCondition(disk=operation, path=path)
        return DiskRuleMaker(self, condition, Choice(nth=nth, times=times, every=every, p=p, seed=seed))

    def add(
        self,
        condition: RequestCondition | DiskCondition,
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

    def check(self, condition: RequestCondition | DiskCondition, effect: Effect) -> None:
        """Refuse an effect that makes no sense for what a rule is about.

        Raises:
            FaultError: it makes none.
        """
        needs_disk = isinstance(condition, DiskCondition) or (type(effect) is Pause and effect.stage == effects.COMMIT)
        if needs_disk and self.disk is None:
            raise FaultError("the files of this broker take no fault rules")
        if isinstance(condition, DiskCondition):
            if not isinstance(effect, Delay | Pause | DiskError | Crash):
                raise FaultError(f"{effect.key} is no effect on a file; there are crash, delay, error, pause")
            if type(effect) is Crash and self.disk is not None and not self.disk.can_crash:
                raise FaultError("a crash ends the process: only a broker that runs in a process of its own takes it")
        elif isinstance(effect, DiskError | Crash):
            raise FaultError(f"{effect.key} is an effect on a file, not on a request")
        elif type(effect) is CorruptCrc and not condition.keys <= FETCHES:
            raise FaultError(f"corrupt_crc is about Fetch and ShareFetch, not {condition.api}")

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
        if self.disk is not None:
            self.disk.follow(self.rules)
        self._notify(self)

    def release(self, number: int) -> bool:
        """Let go what a rule holds; it holds what comes later. Returns whether it held anything.

        Raises:
            FaultError: there is none of this number.
        """
        self.rule(number)
        has_held = self.disk is not None and self.disk.release(number)
        return self.held.release(number, self._clock_ms()) or has_held

    def held_by(self, number: int) -> int:
        """How many answers, queues and operations on files a rule holds."""
        return self.held.count(number) + (0 if self.disk is None else self.disk.count(number))

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


class RuleMaker:
    """A rule about requests that lacks its effect; each method makes it, and says with which effect."""

    def __init__(self, faults: RuleKeeper, condition: RequestCondition | DiskCondition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def _with(self, effect: Effect) -> Rule:
        return self._faults.add(self._condition, self._choice, effect)

    def error(self, code: str, when: When = effects.BEFORE) -> Rule:
        return self._with(effects.Error(code, when))

    def delay(self, seconds: float) -> Rule:
        return self._with(Delay(seconds))

    def drop(self) -> Rule:
        return self._with(effects.Drop())

    def disconnect(self, when: When = effects.AFTER) -> Rule:
        return self._with(effects.Disconnect(when))

    def partial_write(self, size_bytes: int) -> Rule:
        return self._with(effects.PartialWrite(size_bytes))

    def corrupt_crc(self) -> Rule:
        return self._with(CorruptCrc())

    def throttle(self, throttle_ms: int) -> Rule:
        return self._with(effects.Throttle(throttle_ms))

    def pause(self, stage: str = effects.QUEUE) -> Rule:
        return self._with(Pause(stage))

    def call(self, function: Callable[[Subject], Any]) -> Rule:
        """Ask a function what becomes of the request, on the event loop, before it is handled.

        Args:
            function: given the request (see Subject). Returns None to have it handled, an effect (see
                `pipeline_broker.faults.effects`), or the response: a message of the API. It must not block; when it
                raises, the request is answered with UNKNOWN_SERVER_ERROR.
        """
        return self._with(effects.Call(function))


class DiskRuleMaker:
    """The same of a rule about files."""

    def __init__(self, faults: RuleKeeper, condition: DiskCondition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def error(self, name: str = "EIO") -> Rule:
        return self._faults.add(self._condition, self._choice, DiskError(name))

    def delay(self, seconds: float) -> Rule:
        return self._faults.add(self._condition, self._choice, Delay(seconds))

    def pause(self) -> Rule:
        """Hold the operation until the rule is released."""
        return self._faults.add(self._condition, self._choice, Pause(effects.COMMIT))

    def crash(self) -> Rule:
        return self._faults.add(self._condition, self._choice, Crash())
