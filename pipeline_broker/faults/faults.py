"""The fault rules of a broker."""

from __future__ import annotations

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
from pipeline_broker.faults.rule_makers import RuleFactory
from pipeline_broker.wire.registry import ApiKey

if TYPE_CHECKING:
    from pipeline_broker.faults.disk import DiskFaults
    from pipeline_broker.faults.rule import Origin
    from pipeline_broker.faults.store_faults import StoreFaults
    from pipeline_broker.faults.subject import Subject

__all__ = ["Faults", "GroupControls"]

logger = logging.getLogger(__name__)

# Each request is compared with each rule.
RULES_MAX = 1000
FETCHES = frozenset({int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)})


class GroupControls(Protocol):
    def expire_member(self, group_id: str, member_id: str | None, now_ms: int) -> bool:
        """End the session of a member, or of all members if `member_id` is None.

        Returns whether the group exists and has the member.
        """

    def force_rebalance(self, group_id: str, now_ms: int) -> bool:
        """Make the members of a classic group rejoin, or bump the epoch of a consumer or share group.

        Returns whether the group exists and has members.
        """


class Faults(RuleFactory):
    """All fault rules of one broker, used on its event loop.

    Rules are tried in the order in which they were added, and each counts its own matches. Delays add up. An effect
    that answers or ends a request decides, and later rules affect only its response.

    Args:
        clock_ms: wall clock.
        wake_timer: called when `next_deadline_ms` becomes earlier.
        disk: the rules about files; None if the broker's files do not support rules.
        changed: called with this object after rules were added or removed.
        store: the rules about the object store; None without a store.

    Attributes:
        rules: in the order in which they were added.
        keys: API keys of the requests that rules are about; other requests need not be judged.
        held: responses and queues that rules hold.
        next_number: the number of the next rule.
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
        self.next_number = 1

    def add(
        self,
        condition: Condition,
        choice: Choice,
        effect: Effect,
        origin: Origin = "Python",
    ) -> Rule:
        """Add and log a rule. The rule applies from the next request or operation.

        Raises:
            FaultError: the effect does not apply to the condition, this broker does not support it, or it has too many
                rules.
        """
        rule = self.include(Rule(self.next_number, condition, choice, effect, origin))
        self.note_added(rule)
        return rule

    @staticmethod
    def note_added(rule: Rule) -> None:
        logger.warning("fault rule %d is active: %s", rule.number, rule)

    def include(self, rule: Rule) -> Rule:
        """Add a rule, which the brokers of an embedded cluster may share: its counts are of all of them.

        Args:
            rule: its number is `next_number` or a later one.

        Raises:
            FaultError: as from `add`.
        """
        if len(self.rules) >= RULES_MAX:
            raise FaultError(f"the broker has {RULES_MAX} fault rules, its maximum; remove some")
        self.check(rule.condition, rule.effect)
        self.next_number = rule.number + 1
        self.rules.append(rule)
        self._rules_changed()
        return rule

    def check(self, condition: Condition, effect: Effect) -> None:
        """Reject an effect that does not apply to a condition.

        Raises:
            FaultError: the effect does not apply, or this broker does not support it.
        """
        if isinstance(condition, StoreCondition):
            self._check_store(effect)
            return
        needs_disk = isinstance(condition, DiskCondition) or (type(effect) is Pause and effect.stage == effects.COMMIT)
        if needs_disk and self.disk is None:
            raise FaultError(
                "a rule about files needs a data directory, and this broker has none. Start a broker with one"
            )
        if isinstance(effect, StoreError | Unsure | Outage):
            raise FaultError(
                f"{effect} is an effect on an object store, not on a request or a file. Use it in a store rule"
            )
        if isinstance(condition, DiskCondition):
            if not isinstance(effect, Delay | Pause | DiskError | Crash):
                raise FaultError(f"{effect.key} is not an effect on a file; use crash, delay, error or pause")
            if type(effect) is Crash and self.disk is not None and not self.disk.can_crash:
                raise FaultError(
                    "a crash ends the process, so it needs a broker with its own process. Start one with"
                    " `pipeline-broker serve`"
                )
        elif isinstance(effect, DiskError | Crash):
            raise FaultError(f"{effect.key} is an effect on a file, not on a request. Use it in a disk rule")
        elif type(effect) is CorruptCrc and not condition.keys <= FETCHES:
            raise FaultError(f"corrupt_crc applies to Fetch and ShareFetch, not {condition.api}")

    def _check_store(self, effect: Effect) -> None:
        if self.store is None:
            raise FaultError(
                "a store rule needs an object store, and this broker has none. Start the broker with --store"
            )
        if not isinstance(effect, Delay | Pause | StoreError | Unsure | Outage):
            raise FaultError(f"{effect.key} is not an effect on a store; use delay, error, outage, pause or unsure")

    # Managing rules

    @property
    def is_active(self) -> bool:
        return bool(self.rules)

    @property
    def judges_requests(self) -> bool:
        return bool(self.keys)

    def rule(self, number: int) -> Rule:
        """Return a rule by its number.

        Raises:
            FaultError: no rule has this number.
        """
        for rule in self.rules:
            if rule.number == number:
                return rule
        numbers = ", ".join(str(rule.number) for rule in self.rules) or "none"
        raise FaultError(f"fault rule {number} does not exist; existing rules: {numbers}")

    def remove(self, number: int) -> None:
        """Remove a rule, and let held requests continue.

        Raises:
            FaultError: no rule has this number.
        """
        self._remove([self.rule(number)])

    def clear(self) -> int:
        """Remove all rules, let held requests continue, and return the number of removed rules."""
        removed = list(self.rules)
        self._remove(removed)
        return len(removed)

    def _remove(self, removed: list[Rule]) -> None:
        for rule in removed:
            if not rule.is_removed:  # by another broker of the cluster
                logger.warning("fault rule %d was removed after %d hits", rule.number, rule.hits)
            rule.is_removed = True
        self.rules = [rule for rule in self.rules if rule not in removed]
        self._rules_changed()
        now_ms = self._clock_ms()
        for rule in removed:
            self.held.rule_removed(rule.number, now_ms)

    def _rules_changed(self) -> None:
        conditions = [rule.condition for rule in self.rules]
        self.keys = frozenset().union(*(each.keys for each in conditions if isinstance(each, RequestCondition)))
        for of_threads in self._of_threads:
            of_threads.follow(self.rules)
        self._notify(self)

    def release(self, number: int) -> bool:
        """Let requests and operations that a rule holds continue; return whether the rule held any.

        The rule stays and holds later ones.

        Raises:
            FaultError: no rule has this number.
        """
        self.rule(number)
        released = [each.release(number) for each in self._of_threads]
        return self.held.release(number, self._clock_ms()) or any(released)

    def held_by(self, number: int) -> int:
        """Return the number of responses, queues, file operations and store requests that a rule holds."""
        return self.held.count(number) + sum(each.count(number) for each in self._of_threads)

    @property
    def _of_threads(self) -> list[DiskFaults | StoreFaults]:
        return [each for each in (self.disk, self.store) if each is not None]

    def end(self) -> None:
        """Remove all rules at the end of the broker, and let everything held continue."""
        if self.is_active:
            self.clear()
        self.held.end()

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next delayed response; None if no response is only delayed."""
        return self.held.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        self.held.advance(now_ms)

    # Groups

    def expire_member(self, group: str, member: str | None = None) -> None:
        """End the session of a member, or of all members if `member` is None.

        Raises:
            FaultError: the group or the member does not exist.
        """
        if not self._groups.expire_member(group, member, self._clock_ms()):
            raise FaultError(
                f"the group {group!r} " + ("does not exist" if member is None else f"has no member {member!r}")
            )

    def force_rebalance(self, group: str) -> None:
        """Make the members of a classic group rejoin, or bump the epoch of a consumer or share group.

        Raises:
            FaultError: the group does not exist or has no members.
        """
        if not self._groups.force_rebalance(group, self._clock_ms()):
            raise FaultError(f"the group {group!r} does not exist or has no members")

    # Requests

    def judge(self, subject: Subject) -> list[Rule]:
        """Count a request, and return the rules that strike it.

        CorruptCrc rules are returned uncounted. Whether they strike depends on the response: the caller then calls
        `Rule.strikes`.
        """
        struck = []
        for rule in self.rules:
            condition = rule.condition
            is_meant = isinstance(condition, RequestCondition) and condition.matches(subject)
            if is_meant and (type(rule.effect) is CorruptCrc or rule.strikes()):
                struck.append(rule)
        return struck
