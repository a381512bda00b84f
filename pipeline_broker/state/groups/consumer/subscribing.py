"""Subscriptions by regular expression: which topics match, and when that is looked at again.

A new expression is resolved in the request that brings it. All of a group are when topics came meanwhile, but not
within a second of the last time, and of many with many topics only some in one heartbeat, because all clients wait
meanwhile. Kafka does both in a thread of its own, so a member hears of what matched with one of its next heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pipeline_broker.base.patterns import InvalidPatternError, compiled
from pipeline_broker.state.groups.consumer.messages import GroupError
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject
from pipeline_broker.wire.error import ErrorCode

__all__ = ["change_regex", "check_regex", "refresh_regexes"]

REFRESH_INTERVAL_MS_MIN = 1_000
"""Kafka's is ten seconds; looking takes milliseconds here."""
REFRESH_INTERVAL_MS_MAX = 600_000
"""After which rights may have changed what a group may see."""
NAMES_MATCHED_MAX = 4_000
"""Names of topics that a heartbeat matches when it looks again, about microseconds; but always one expression."""
UNRESOLVED_MS = -1


def check_regex(regex: str | None) -> None:
    """Refuse an expression that is none, also where the group has it: it may come from a record of another origin."""
    if not regex:
        return
    try:
        compiled(regex)
    except InvalidPatternError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def change_regex(step: Step, before: str, after: str, may_describe: Callable[[str], bool]) -> bool:
    """Follow a member that subscribes to another expression now; whether that may change who gets what."""
    if before == after:
        return False
    group = step.group
    if before and not group.regex_members(before) and before in group.regexes:
        step.emit(Subject.REGEX, before, None)
    if after and after not in group.regexes:
        _resolve(step, [after], _names(step), may_describe)
    return bool(before or group.regexes[after].topics)


def refresh_regexes(step: Step, may_describe: Callable[[str], bool]) -> bool:
    """Look again at what matches, if topics came or long after the last time; whether anything else matches now.

    What was looked at longest ago comes first; what is left is looked at with the group's next heartbeats.
    """
    group = step.group
    stale: list[tuple[int, str]] = []
    for regex in group.subscribed_regexes:
        resolved = group.regexes.get(regex)
        if resolved is None:
            stale.append((UNRESOLVED_MS, regex))
            continue
        age_ms = step.now_ms - resolved.timestamp_ms
        is_new = resolved.version < step.topics_version and age_ms >= REFRESH_INTERVAL_MS_MIN
        if is_new or age_ms > REFRESH_INTERVAL_MS_MAX:
            stale.append((resolved.timestamp_ms, regex))
    if not stale:
        return False
    names = _names(step)
    count = max(1, NAMES_MATCHED_MAX // max(1, len(names)))
    return _resolve(step, [regex for _, regex in sorted(stale)[:count]], names, may_describe)


def _names(step: Step) -> list[str]:
    return [topic.name for topic in step.topics.all()]


def _resolve(step: Step, regexes: Iterable[str], names: Collection[str], may_describe: Callable[[str], bool]) -> bool:
    group, changed = step.group, False
    allowed: dict[str, bool] = {}
    for regex in regexes:
        topics = set()
        for name in _matching(regex, names):
            if name not in allowed:
                allowed[name] = may_describe(name)
            if allowed[name]:
                topics.add(name)
        before = group.regexes.get(regex)
        changed = changed or frozenset(topics) != (before.topics if before is not None else frozenset())
        step.emit(Subject.REGEX, regex, ResolvedRegex(frozenset(topics), step.topics_version, step.now_ms))
    return changed


def _matching(regex: str, names: Iterable[str]) -> list[str]:
    """Return the names that an expression of the group matches: none if it is invalid, as in a record, or too slow.

    `check_regex` refuses the member that subscribes by an invalid one; the other members continue.
    """
    try:
        return compiled(regex).matching(names)
    except InvalidPatternError:
        return []
