"""Every way into a broker with its requests, from the tables that serve them."""

import re
from collections.abc import Iterable
from typing import Any

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.dashboard import routes
from pipeline_broker.node import metrics_endpoint, timelines, upkeep
from pipeline_broker.node.control_commands import ControlCommands
from pipeline_broker.node.operator_commands import fault_commands
from pipeline_broker.schema_registry.api import TABLE

__all__ = ["entry_points"]

ALTERNATIVES = "/api/(acls|users|quotas)"
CONTROL: Any = ControlCommands  # the class in place of an object: only the names of commands are of interest


def _dashboard() -> list[str]:
    """Return the addresses of the dashboard that change nothing; `*` stands for a part that varies."""
    patterns = {pattern.pattern for pattern, _ in routes.VARYING}
    paths = {re.sub(r"\(\[.*?\}\)", "*", pattern) for pattern in patterns} - {ALTERNATIVES}
    if unknown := [path for path in paths if "(" in path]:
        raise ValueError(f"a new kind of pattern: {unknown}")
    questions = [f"/api/{name}" for name in re.findall(r"\w+", ALTERNATIVES.partition("(")[2])]
    return [*routes.PAGES, "/topics/*", *routes.EXACT, *paths, *questions]


def _commands() -> Iterable[str]:
    nothing: Any = None  # only the names are of interest, so no object has to handle the commands
    kept = (fault_commands, upkeep.LogMaintenance.commands, timelines.Timelines.commands)
    return [name for commands in kept for name in commands(nothing)]


def entry_points() -> dict[str, list[str]]:
    """Return the requests of each entry point, sorted."""
    found = {
        "Kafka listeners": [served.name for served in SERVED.values()],
        "metrics": [metrics_endpoint.PATH],
        "dashboard": _dashboard(),
        "dashboard, changes": list(routes.CHANGES),
        "schema registry": ["/" + "/".join(parts) for parts in TABLE],
        "`admin.socket`": _commands(),
        "control": [*_commands(), *CONTROL.commands(CONTROL)],
        "`N.socket`": ["requests of brokers, and of clients that they forward", "members that join"],
    }
    return {name: sorted(set(requests)) for name, requests in found.items()}
