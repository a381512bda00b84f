"""The broker's fault rules and the requests that they hold, as JSON."""

from __future__ import annotations

import errno
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.commands import describe_rule
from pipeline_broker.faults.effects import STAGES, Delay, Drop, Pause
from pipeline_broker.faults.names import COORDINATORS
from pipeline_broker.faults.rule import OPERATIONS, DiskCondition
from pipeline_broker.wire.registry import API_KEYS, ApiKey

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.held import HeldAnswer
    from pipeline_broker.faults.rule import Rule

__all__ = ["choices", "faults"]

RULES_SHOWN_MAX = 200
HELD_SHOWN_MAX = 20  # of one rule
TEXT_MAX = 1_000
KEY_BYTES = 2  # a frame begins with the API key (see `RequestHeader`)


def faults(broker: Broker, now_ns: int) -> dict[str, Any]:
    """Return the rules with their counts and held requests, without creating the broker's `Faults`.

    Args:
        now_ns: the time on the clock of `stages.timeline`.
    """
    files = broker.ports.fault_files
    shown = {
        "takes_files": files is not None,
        "can_crash": files is not None and files.can_crash,
        "count": 0,
        "held": 0,
        "rules": [],
    }
    if not broker.has_faults:
        return shown
    found = broker.faults
    by_rule: defaultdict[int, list[HeldAnswer]] = defaultdict(list)
    for answer in found.held.answers:
        for number in answer.delays | answer.pauses:
            by_rule[number].append(answer)
    queues = Counter(found.held.queues)
    now_ms = broker.ports.clock_ms()
    rows = []
    for rule in found.rules[:RULES_SHOWN_MAX]:
        answers = [_held(answer, now_ns, now_ms) for answer in by_rule[rule.number][:HELD_SHOWN_MAX]]
        rows.append(_rule(found, rule, len(by_rule[rule.number]), queues[rule.number]) | {"requests": answers})
    return shown | {"count": len(found.rules), "held": len(found.held), "rules": rows}


def _rule(found: Faults, rule: Rule, answers: int, queues: int) -> dict[str, Any]:
    files = 0 if found.disk is None else found.disk.count(rule.number)
    is_of_files = isinstance(rule.condition, DiskCondition)
    return describe_rule(rule, answers + queues + files) | {
        "rule": str(rule)[:TEXT_MAX],
        "about": str(rule.condition)[:TEXT_MAX],
        "chosen": rule.chosen,
        "effect": str(rule.effect)[:TEXT_MAX],
        "queues": queues,
        "files": files,
        "holds_commits": found.disk is not None and found.disk.holds_commits(rule.number),
        "can_hold": isinstance(rule.effect, Pause | Drop) or (is_of_files and isinstance(rule.effect, Delay)),
    }


def _held(answer: HeldAnswer, now_ns: int, now_ms: int) -> dict[str, Any]:
    request = answer.request
    key = int.from_bytes(request.frame[:KEY_BYTES], "big")
    return {
        "connection": request.connection.index,
        "peer": request.connection.peer,
        "api": API_KEYS[ApiKey(key)].name,
        "since_ms": max(0, now_ns - request.received_ns) // 1_000_000,
        "due_in_ms": None if answer.pauses else max(0, answer.due_ms - now_ms),
    }


def choices() -> dict[str, list[str]]:
    return {
        "apis": sorted([*(api.name for api in API_KEYS.values() if api.versions), *COORDINATORS]),
        "errors": sorted(code.name for code in ErrorCode if code is not ErrorCode.NONE),
        "operations": list(OPERATIONS),
        "system_errors": sorted(errno.errorcode.values()),
        "stages": list(STAGES),
    }
