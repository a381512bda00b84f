"""The role of a process in a cluster: the controller, or a member that follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import trio

from pipeline_broker.broker.ports import ClusterPort
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.node.assembly import AssembledBroker
from pipeline_broker.node.listeners import BrokerListeners

if TYPE_CHECKING:
    from pipeline_broker.state.leadership.replication import Replication

__all__ = ["CONTROLLER_ID", "ClusterRole", "joined_metadata", "role_of"]

CONTROLLER_ID = 1
"""The broker of a machine that is the controller of its cluster."""


class ClusterRole(ClusterPort, Protocol):
    """The connections of a process to the other brokers of its machine."""

    async def join(self, listeners: Mapping[str, tuple[str, int]]) -> Iterable[tuple[bytes, bytes | None]]:
        """Join the cluster, and return the records that the broker needs before its own (C1).

        Args:
            listeners: advertised addresses of this broker, by the names of listeners.

        Raises:
            StartError: the controller is not reachable.
        """

    async def run(
        self, assembled: AssembledBroker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve the connections until cancelled. The broker must be recovered, and its server must run."""


def role_of(directory: Path | None, node_id: int, replication: Replication | None = None) -> ClusterRole | None:
    if directory is None:
        return None
    if node_id == CONTROLLER_ID:
        from pipeline_broker.node.controller import Controller  # noqa: PLC0415 - only in a cluster

        return Controller(directory, node_id, replication)
    from pipeline_broker.node.member import Member  # noqa: PLC0415 - as above

    return Member(directory, node_id, CONTROLLER_ID, replication)


async def joined_metadata(
    role: ClusterRole | None, listeners: BrokerListeners, config: BrokerConfig
) -> Iterable[tuple[bytes, bytes | None]]:
    if role is None:
        return ()
    return await role.join({name: it for name, it in listeners.advertised(config).items() if it is not None})
