"""Subscriptions by regular expression: which topics match, and when that is looked at again.

A new expression is resolved in the request that brings it, and all of a group are when topics came meanwhile, but not
within a second of the last time. Kafka does both in a thread of its own, so a member hears of what matched with one of
its next heartbeats; here with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pipeline_broker.state.groups.consumer.messages import GroupError
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject
from pipeline_broker.state.patterns import InvalidPatternError, compiled
from pipeline_broker.wire.error import ErrorCode

__all__ = ["change_regex", "check_regex", "refresh_regexes"]

REFRESH_INTERVAL_MS_MIN = 1_000
"""Kafka's is ten seconds; looking takes milliseconds here."""
REFRESH_INTERVAL_MS_MAX = 600_000
"""After which rights may have changed what a group may see."""


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
    matched: frozenset[str] = frozenset()
    if before and not group.regex_members(before):
        resolved = group.regexes.get(before)
        if resolved is not None:
            matched = resolved.topics
            step.emit(Subject.REGEX, before, None)
    if after and after not in group.regexes:
        _resolve(step, [after], may_describe)
    return bool(matched or before or (after and group.regexes[after].topics))


def refresh_regexes(step: Step, may_describe: Callable[[str], bool]) -> bool:
    """Look again at what matches, if topics came or long after the last time; whether anything else matches now."""
    group = step.group
    stale = []
    for regex in group.subscribed_regexes:
        resolved = group.regexes.get(regex)
        if resolved is None:
            stale.append(regex)
            continue
        age_ms = step.now_ms - resolved.timestamp_ms
        is_new = resolved.version < step.topics_version and age_ms >= REFRESH_INTERVAL_MS_MIN
        if is_new or age_ms > REFRESH_INTERVAL_MS_MAX:
            stale.append(regex)
    return _resolve(step, stale, may_describe)


def _resolve(step: Step, regexes: Collection[str], may_describe: Callable[[str], bool]) -> bool:
    if not regexes:
        return False
    group, changed = step.group, False
    names = [topic.name for topic in step.topics.all()]
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
    """The names that an expression of the group matches: none where it is no expression, as a record may hold one.

    Who subscribes by such a one is refused by `check_regex`; the others of the group go on.
    """
    try:
        pattern = compiled(regex)
    except InvalidPatternError:
        return []
    return [name for name in names if pattern.matches(name)]
