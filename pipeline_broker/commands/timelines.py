"""`pipeline-broker timelines`: publish the timelines of requests of a running broker, over its admin socket.

Every failure is one line and exit code 2, also if no broker runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.node.admin_socket import NoBrokerError, ask
from pipeline_broker.node.operator_commands import CommandFailedError

__all__ = ["timelines"]

EXIT_USAGE = 2


@click.command(cls=DocumentedCommand)
@click.argument("action", type=click.Choice(["on", "off", "status"]))
@click.option("--data", type=click.Path(path_type=Path), default="./data", show_default=True, help="Data directory.")
@click.option("--json", "as_json", is_flag=True, help="Print the broker's answer as one JSON object.")
def timelines(action: str, data: Path, *, as_json: bool) -> None:
    """Start or stop publishing the timelines of requests of a running broker to __request_timelines.

    on        publish the timelines of new requests
    off       publish the waiting timelines, and stop; returns when they are durable
    status    show whether timelines are published, and how many
    """
    try:
        answer = ask(data, f"timelines {action}")
    except (NoBrokerError, CommandFailedError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    click.echo(json.dumps(answer) if as_json else _line(answer))


def _line(answer: Mapping[str, Any]) -> str:
    if answer["session"] is None:
        return "off"
    said = f"{'on' if answer['on'] else 'off'}: session {answer['session']}, {answer['rows']:,} timelines published"
    return f"{said} in {answer['records']:,} records, {answer['waiting']:,} waiting, {answer['lost']:,} lost"
