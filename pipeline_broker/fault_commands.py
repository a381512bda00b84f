"""What a running broker is told about fault rules through its admin socket.

Rules of this file: each command is one call of `broker.faults` on the event loop; what is wrong is CommandFailedError
with its line. Answers are what `pipeline-broker faults` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.admin import CommandFailedError

if TYPE_CHECKING:
    from pipeline_broker.admin import Command
    from pipeline_broker.broker import Broker
    from pipeline_broker.faults.rule import Rule

__all__ = ["fault_commands"]


def _told(broker: Broker, rule: Rule) -> dict[str, Any]:
    """A rule as it is listed."""
    return {
        "number": rule.number,
        "rule": str(rule),
        "matched": rule.matched,
        "hits": rule.hits,
        "holds": broker.faults.held_by(rule.number),
        "deterministic": rule.choice.is_deterministic,
    }


def fault_commands(broker: Broker) -> dict[str, Command]:
    """The commands, by name, for `serve_admin`."""

    def command(work: Callable[..., Mapping[str, Any]]) -> Command:
        async def run(**arguments: Any) -> Mapping[str, Any]:
            from pipeline_broker.faults.names import FaultError  # noqa: PLC0415 - for those who have rules

            await trio.lowlevel.checkpoint()
            try:
                return work(broker, **arguments)
            except FaultError as error:
                raise CommandFailedError(str(error)) from None

        return run

    return {f"faults {name}": command(work) for name, work in WORKS.items()}


def _add(broker: Broker, arguments: list[str]) -> Mapping[str, Any]:
    from pipeline_broker.faults.rule_text import parse_arguments  # noqa: PLC0415 - for those who make rules

    return _told(broker, broker.faults.add(*parse_arguments(arguments)))


def _list(broker: Broker) -> Mapping[str, Any]:
    return {"rules": [_told(broker, rule) for rule in broker.faults.rules] if broker.has_faults else []}


def _remove(broker: Broker, number: int) -> Mapping[str, Any]:
    broker.faults.remove(number)
    return {}


def _clear(broker: Broker) -> Mapping[str, Any]:
    return {"removed": broker.faults.clear() if broker.has_faults else 0}


def _release(broker: Broker, number: int) -> Mapping[str, Any]:
    return {"released": broker.faults.release(number)}


def _expire(broker: Broker, group: str, member: str | None = None) -> Mapping[str, Any]:
    broker.faults.expire_member(group, member)
    return {}


def _rebalance(broker: Broker, group: str) -> Mapping[str, Any]:
    broker.faults.force_rebalance(group)
    return {}


WORKS: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "add": _add,
    "list": _list,
    "remove": _remove,
    "clear": _clear,
    "release": _release,
    "expire": _expire,
    "rebalance": _rebalance,
}
"""What can be asked for, by the action of `pipeline-broker faults`."""
