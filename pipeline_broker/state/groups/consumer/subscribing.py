"""Subscriptions by regular expression: resolving them to topics, and refreshing the result.

The request that brings a new expression resolves it at once. In Kafka, a separate thread does, and the member gets its
topics with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.patterns import InvalidPatternError, compiled
from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.state.groups.consumer.messages import Matches
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject
from pipeline_broker.state.groups.modern.group_error import GroupError

__all__ = ["change_regex", "check_regex", "find_matches", "refresh_regexes"]

# Kafka waits ten seconds. A refresh takes only milliseconds here.
REFRESH_INTERVAL_MS_MIN = 1_000
# Refresh even without new topics: ACLs may have changed the topics that a group may see.
REFRESH_INTERVAL_MS_MAX = 600_000
# Topic names that one heartbeat may match, at about a microsecond each; at least one expression is refreshed. Matching
# all expressions of a group at once would block the event loop.
NAMES_MATCHED_MAX = 4_000
UNRESOLVED_MS = -1


def check_regex(regex: str | None) -> None:
    # Also check an expression that the group already has: it may come from a record that another broker wrote.
    if not regex:
        return
    try:
        compiled(regex)
    except InvalidPatternError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def find_matches(regex: str, names: Sequence[str], topics_version: int) -> Steps[Matches]:
    found: list[str] = []
    try:
        for start in range(0, len(names), THINGS_PER_STEP):
            found += compiled(regex).matching(names[start : start + THINGS_PER_STEP])
            yield
    except InvalidPatternError:  # as in `_matching`: an expression that is too slow matches nothing
        found.clear()
    return Matches(tuple(found), topics_version)


def change_regex(
    step: Step, before: str, after: str, may_describe: Callable[[str], bool], matches: Matches | None = None
) -> bool:
    """Drop the topics of a member's former expression if no member has it any more, and resolve the new one.

    Call it after the member was updated. An empty text stands for a missing expression.

    Args:
        matches: of `after`, if they were found before.

    Returns:
        whether assignments may change.
    """
    if before == after:
        return False
    group = step.group
    if before and not group.regex_members(before) and before in group.regexes:
        step.emit(Subject.REGEX, before, None)
    if after and after not in group.regexes:
        _resolve(step, {after: matches or _match(step, after, _names(step))}, may_describe)
    return bool(before or group.regexes[after].topics)


def refresh_regexes(step: Step, may_describe: Callable[[str], bool]) -> bool:
    """Resolve expressions again if topics have changed or the result is too old; return whether any result changed.

    The oldest results are refreshed first. The next heartbeats of the group refresh the others.
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
    return _resolve(step, {regex: _match(step, regex, names) for _, regex in sorted(stale)[:count]}, may_describe)


def _names(step: Step) -> list[str]:
    return [topic.name for topic in step.topics.all()]


def _match(step: Step, regex: str, names: Iterable[str]) -> Matches:
    return Matches(tuple(_matching(regex, names)), step.topics_version)


def _resolve(step: Step, found: Mapping[str, Matches], may_describe: Callable[[str], bool]) -> bool:
    group, changed = step.group, False
    # Authorize each topic once, although several expressions may match it.
    allowed: dict[str, bool] = {}
    for regex, matches in found.items():
        topics = set()
        for name in matches.names:
            if name not in allowed:
                allowed[name] = may_describe(name)
            if allowed[name]:
                topics.add(name)
        before = group.regexes.get(regex)
        changed = changed or frozenset(topics) != (before.topics if before is not None else frozenset())
        step.emit(Subject.REGEX, regex, ResolvedRegex(frozenset(topics), matches.topics_version, step.now_ms))
    return changed


def _matching(regex: str, names: Iterable[str]) -> list[str]:
    """Return the names that an expression of the group matches: none if it is invalid or too slow.

    `check_regex` refuses a member with an invalid expression. A replayed one must not disturb the other members.
    """
    try:
        return compiled(regex).matching(names)
    except InvalidPatternError:
        return []
