"""Commands about the fault rules of a running broker, from the admin socket and the dashboard.

Arguments are untrusted JSON. Results are the JSON that `pipeline-broker faults` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import parse_arguments

if TYPE_CHECKING:
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.rule import Origin, Rule

__all__ = ["ACTIONS", "RuledBroker", "carry_out", "describe_rule"]


class RuledBroker(Protocol):
    @property
    def faults(self) -> Faults: ...

    @property
    def has_faults(self) -> bool: ...


def describe_rule(rule: Rule, holds: int) -> dict[str, Any]:
    """Return a rule as JSON; `holds` is the number of requests or operations that the rule holds."""
    return {
        "number": rule.number,
        "rule": str(rule),
        "matched": rule.matched,
        "hits": rule.hits,
        "holds": holds,
        "deterministic": rule.choice.is_deterministic,
        "origin": rule.origin,
    }


def carry_out(broker: RuledBroker, action: str, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    """Carry out one of ACTIONS and return its result.

    Args:
        arguments: the action's arguments by name, not validated.
        origin: the source of the command.

    Raises:
        FaultError: an argument or the rule is invalid, or a rule, group or member does not exist.
    """
    do, names = ACTIONS[action]
    for name in arguments:
        if name not in names:
            raise FaultError(f"{action} has no argument {name!r}")
    return do(broker, arguments, origin)


def _number(arguments: Mapping[str, object]) -> int:
    number = arguments.get("number")
    if type(number) is not int:
        raise FaultError("give the number of one rule; `faults list` shows the numbers")
    return number


def _group(arguments: Mapping[str, object]) -> str:
    group = arguments.get("group")
    if not isinstance(group, str):
        raise FaultError("give one group")
    return group


def _add(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    given = arguments.get("arguments")
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise FaultError("arguments must be a list of NAME=VALUE texts")
    return describe_rule(broker.faults.add(*parse_arguments(given), origin), 0)


def _list(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del arguments, origin
    faults = broker.faults if broker.has_faults else None
    return {
        "rules": [] if faults is None else [describe_rule(rule, faults.held_by(rule.number)) for rule in faults.rules]
    }


def _remove(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del origin
    broker.faults.remove(_number(arguments))
    return {}


def _clear(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del arguments, origin
    return {"removed": broker.faults.clear() if broker.has_faults else 0}


def _release(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del origin
    return {"released": broker.faults.release(_number(arguments))}


def _expire(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del origin
    member = arguments.get("member")
    if member is not None and not isinstance(member, str):
        raise FaultError("give a group, or a group and one of its members")
    broker.faults.expire_member(_group(arguments), member)
    return {}


def _rebalance(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del origin
    broker.faults.force_rebalance(_group(arguments))
    return {}


Act = Callable[[RuledBroker, Mapping[str, object], "Origin"], dict[str, Any]]

ACTIONS: Mapping[str, tuple[Act, tuple[str, ...]]] = {
    "add": (_add, ("arguments",)),
    "list": (_list, ()),
    "remove": (_remove, ("number",)),
    "clear": (_clear, ()),
    "release": (_release, ("number",)),
    "expire": (_expire, ("group", "member")),
    "rebalance": (_rebalance, ("group",)),
}
"""All commands, with the names of their arguments."""
