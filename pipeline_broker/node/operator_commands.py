"""Operator commands of a running broker: the form of a command, and the answer to one, whichever transport carried it.

A command is a JSON object with the name as `command` and the arguments by name. Its answer is a JSON object, which has
only the field `error` if the broker refused the command.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import trio

from pipeline_broker.base.first_cause import first_cause

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.rule import Origin

__all__ = ["COMMAND_BYTES_MAX", "Command", "CommandAnswer", "CommandFailedError", "answer_of", "fault_commands"]

logger = logging.getLogger(__name__)

COMMAND_BYTES_MAX = 64 * 1024
NAME_SHOWN_MAX = 100
# The actions of `faults/commands.py`, which is imported on first use.
FAULT_ACTIONS = ("add", "list", "remove", "clear", "release", "expire", "rebalance")

Command: TypeAlias = Callable[..., Awaitable[Mapping[str, Any]]]


class CommandFailedError(Exception):
    """The broker refused the command or could not complete it. The text is one line."""


class CommandAnswer(NamedTuple):
    # One line of JSON.
    text: bytes
    is_refusal: bool = False


async def answer_of(text: bytes, commands: Mapping[str, Command], fatal: tuple[type[Exception], ...]) -> CommandAnswer:
    """Run a command and return its answer.

    Args:
        text: the command as JSON, not validated.
        commands: by name, called with the arguments that the client sends.
        fatal: errors of a command that end the broker; they are raised. Others are logged and reported to the client.
    """
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return _refusal("the command is not JSON")
    name = arguments.pop("command", None) if isinstance(arguments, dict) else None
    if not isinstance(name, str):
        return _refusal('a command is a JSON object such as {"command": "faults list"}')
    command = commands.get(name)
    if command is None:
        return _refusal(f"unknown command {name[:NAME_SHOWN_MAX]!r}; use one of {', '.join(commands)}")
    try:
        inspect.signature(command).bind(**arguments)
    except TypeError as error:
        return _refusal(f"{name}: {str(error)[:NAME_SHOWN_MAX]}")
    try:
        return CommandAnswer(json.dumps(await command(**arguments)).encode())
    except CommandFailedError as error:
        return _refusal(str(error))
    except Exception as error:
        cause = first_cause(error)
        if isinstance(cause, fatal):
            raise
        logger.exception("the command %s failed unexpectedly; the broker continues", name)
        words = " ".join(f"{type(cause).__name__}: {cause}".split())
        return _refusal(f"{name} failed unexpectedly: {words}. The broker continues; see its log")


def _refusal(error: str) -> CommandAnswer:
    return CommandAnswer(json.dumps({"error": error}).encode(), is_refusal=True)


def fault_commands(broker: Broker, origin: Origin = "command line") -> dict[str, Command]:
    def command(action: str) -> Command:
        async def run(**arguments: Any) -> Mapping[str, Any]:
            from pipeline_broker.faults.commands import carry_out  # noqa: PLC0415 - on first use
            from pipeline_broker.faults.names import FaultError  # noqa: PLC0415 - as above

            await trio.lowlevel.checkpoint()
            try:
                return carry_out(broker, action, arguments, origin)
            except FaultError as error:
                raise CommandFailedError(str(error)) from None

        return run

    return {f"faults {action}": command(action) for action in FAULT_ACTIONS}
