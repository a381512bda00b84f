"""What a running broker is told about fault rules through its admin socket.

Rules of this file: each command is carried out on the event loop by `faults/commands.py`, which is loaded for those who
have rules; what is wrong is CommandFailedError with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.node.admin_socket import CommandFailedError

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.node.admin_socket import Command

__all__ = ["fault_commands"]

ACTIONS = ("add", "list", "remove", "clear", "release", "expire", "rebalance")
"""Those of `faults/commands.py`."""


def fault_commands(broker: Broker) -> dict[str, Command]:
    """The commands, by name, for `serve_admin`."""

    def command(action: str) -> Command:
        async def run(**arguments: Any) -> Mapping[str, Any]:
            from pipeline_broker.faults.commands import carry_out  # noqa: PLC0415 - for those who have rules
            from pipeline_broker.faults.names import FaultError  # noqa: PLC0415 - see above

            await trio.lowlevel.checkpoint()
            try:
                return carry_out(broker, action, arguments, "command line")
            except FaultError as error:
                raise CommandFailedError(str(error)) from None

        return run

    return {f"faults {action}": command(action) for action in ACTIONS}
