"""Shell completion of topic and group names.

The shell waits for the answer, so the timeout is short, and every error means no completions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.groups import list_groups
from pipeline_broker.client.topics import list_topics
from pipeline_broker.commands.cluster.bootstrap import bootstrap_of

__all__ = ["complete_groups", "complete_topics"]

TIMEOUT_S = 1.0


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    async def program(cluster: ClusterClient) -> list[str]:
        # Internal topics only after a leading underscore.
        return [
            topic.name for topic in await list_topics(cluster) if incomplete.startswith("_") or not topic.is_internal
        ]

    return _names(ctx, program, incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    async def program(cluster: ClusterClient) -> list[str]:
        return [group.group for group in await list_groups(cluster)]

    return _names(ctx, program, incomplete)


def _names(ctx: click.Context, program: Callable[[ClusterClient], Awaitable[list[str]]], incomplete: str) -> list[str]:
    given: dict[str, Any] = ctx.params
    try:
        properties = tuple(given.get("properties") or ())
        bootstrap = bootstrap_of(given.get("bootstrap_server"), given.get("command_config"), properties, TIMEOUT_S)
        names = bootstrap.run(program)
    except Exception:  # noqa: BLE001 - an error message would garble the user's command line
        return []
    return [name for name in names if name.startswith(incomplete)]
