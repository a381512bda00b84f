"""`pipeline-broker faults`: add, list and remove fault rules of a running broker, over its admin socket.

Every failure is one line and exit code 2, also if no broker runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import parse_arguments
from pipeline_broker.node.admin_socket import NoBrokerError, ask
from pipeline_broker.node.operator_commands import CommandFailedError

__all__ = ["faults"]

EXIT_USAGE = 2


def _one_number(arguments: tuple[str, ...]) -> dict[str, Any]:
    if len(arguments) != 1 or not arguments[0].isdecimal():
        raise FaultError("give the number of one rule; `faults list` shows the numbers")
    return {"number": int(arguments[0])}


def _no_arguments(arguments: tuple[str, ...]) -> dict[str, Any]:
    if arguments:
        raise FaultError(f"unexpected argument {arguments[0]!r}. Leave it out")
    return {}


def _rule(arguments: tuple[str, ...]) -> dict[str, Any]:
    parse_arguments(arguments)
    return {"arguments": list(arguments)}


def _group(arguments: tuple[str, ...]) -> dict[str, Any]:
    if len(arguments) != 1:
        raise FaultError(f"{len(arguments)} groups are given. Give one group")
    return {"group": arguments[0]}


def _member(arguments: tuple[str, ...]) -> dict[str, Any]:
    if len(arguments) not in {1, 2}:
        raise FaultError("give a group, or a group and one of its members")
    return dict(zip(("group", "member"), arguments, strict=False))


ACTIONS: Mapping[str, Callable[[tuple[str, ...]], dict[str, Any]]] = {
    "add": _rule,
    "list": _no_arguments,
    "remove": _one_number,
    "clear": _no_arguments,
    "release": _one_number,
    "expire": _member,
    "rebalance": _group,
}
"""The actions, with functions that parse their arguments and raise FaultError."""


@click.command(cls=DocumentedCommand)
@click.argument("action", type=click.Choice(list(ACTIONS)))
@click.argument("arguments", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path), default="./data", show_default=True, help="Data directory.")
@click.option("--json", "as_json", is_flag=True, help="Print the broker's answer as one JSON object.")
def faults(action: str, arguments: tuple[str, ...], data: Path, *, as_json: bool) -> None:
    """Add, list and remove fault rules of a running broker.

    Actions:
      add NAME=VALUE...         add a rule, such as: add api=Produce topic=t nth=2 error=NOT_LEADER_OR_FOLLOWER
      list                      list the rules with their hits
      remove NUMBER, clear      remove one rule, or all
      release NUMBER            release the requests and other operations that a rule holds
      expire GROUP [MEMBER]     expire the session of a member, or of all members
      rebalance GROUP           make classic members rejoin, or bump the epoch of another group
    """
    try:
        answer = ask(data, f"faults {action}", **ACTIONS[action](arguments))
    except (FaultError, NoBrokerError, CommandFailedError) as error:
        _fail(str(error))
    click.echo(json.dumps(answer) if as_json else _format_answer(action, answer))


def _format_answer(action: str, answer: Mapping[str, Any]) -> str:
    if action == "add":
        return _line(answer)
    if action == "list":
        return "\n".join(map(_line, answer["rules"])) or "no fault rules"
    if action == "clear":
        return f"{answer['removed']} removed"
    if action == "release":
        return "released" if answer["released"] else "it held nothing"
    return "done"


def _line(rule: Mapping[str, Any]) -> str:
    text = f"{rule['number']}  {rule['rule']}  ({rule['hits']} of {rule['matched']} struck"
    text += f", {rule['holds']} held" if rule["holds"] else ""
    return text + (")" if rule["deterministic"] else "; not deterministic)")


def _fail(line: str) -> NoReturn:
    click.echo(f"Error: {line}", err=True)
    sys.exit(EXIT_USAGE)
