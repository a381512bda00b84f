"""What a running broker is told about its fault rules, by whichever way: the admin socket, the dashboard.

Rules of this file: as of `names.py`. Arguments come from outside, as JSON; each command is one call of the broker's
faults, and what is wrong with it, its arguments included, is FaultError with its line. Answers are what
`pipeline-broker faults` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import parse_arguments

if TYPE_CHECKING:
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.rule import Origin, Rule

__all__ = ["ACTIONS", "RuledBroker", "carry_out", "told"]


class RuledBroker(Protocol):
    """A broker as far as its fault rules go."""

    @property
    def faults(self) -> Faults:
        """The rules; made when they are asked for first."""

    @property
    def has_faults(self) -> bool:
        """Whether somebody asked for them."""


def told(rule: Rule, holds: int) -> dict[str, Any]:
    """A rule as it is listed, with how many it holds."""
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
    """Do what one of ACTIONS says.

    Args:
        origin: where the command came from.

    Raises:
        FaultError: it cannot be done.
    """
    do, names = ACTIONS[action]
    for name in arguments:
        if name not in names:
            raise FaultError(f"{action} takes no {name!r}")
    return do(broker, arguments, origin)


def _number(arguments: Mapping[str, object]) -> int:
    number = arguments.get("number")
    if type(number) is not int:
        raise FaultError("give the number of one rule, as list shows it")
    return number


def _group(arguments: Mapping[str, object]) -> str:
    group = arguments.get("group")
    if not isinstance(group, str):
        raise FaultError("give one group")
    return group


def _add(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    given = arguments.get("arguments")
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise FaultError("a rule is a list of NAME=VALUE texts")
    return told(broker.faults.add(*parse_arguments(given), origin), 0)


def _list(broker: RuledBroker, arguments: Mapping[str, object], origin: Origin) -> dict[str, Any]:
    del arguments, origin
    faults = broker.faults if broker.has_faults else None
    return {"rules": [] if faults is None else [told(rule, faults.held_by(rule.number)) for rule in faults.rules]}


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
        raise FaultError("give a group, and perhaps one of its members")
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
"""What can be asked for, and with which arguments."""
