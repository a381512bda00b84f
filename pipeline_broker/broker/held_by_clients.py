"""What clients hold in the memory of a broker, and how much they may: one list for the metrics and the dashboard.

Rules of this file: it reads what the rooms count anyway, and makes nothing: a broker that never had a group has no
coordinator of groups, and this leaves it so.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pipeline_broker.broker.broker import Broker

__all__ = ["HeldState", "held_by_clients"]


@attrs.frozen
class HeldState:
    """One kind of state.

    Attributes:
        name: of the state, as metrics show it.
        unit: of `held` and `limit`.
        held: how much there is now.
        limit: how much there may be.
        setting: the property that sets the limit.
    """

    name: str
    unit: str
    held: int
    limit: int
    setting: str


class BoundedBytes(Protocol):
    """What is read of `stages.partial_frames.PartialFrameStatistics` and of those of unsent responses."""

    @property
    def bytes_held(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...


class BoundedByServer(Protocol):
    """What is read of `stages.server_statistics.SocketServerStatistics`."""

    @property
    def partial_frames(self) -> BoundedBytes: ...

    @property
    def unsent_responses(self) -> BoundedBytes: ...


def held_by_clients(broker: Broker, server: BoundedByServer) -> list[HeldState]:
    """Every kind of state that is bounded over all clients, as it stands."""
    partial_frames, unsent = server.partial_frames, server.unsent_responses
    config, sessions, share_sessions = broker.config, broker.fetch_sessions, broker.share.sessions
    groups_bytes = 0 if broker.groups.memory is None else broker.groups.memory.bytes_held
    session_setting = "pipeline.fetch.session.partitions"
    return [
        HeldState(
            "partial_requests",
            "bytes",
            partial_frames.bytes_held,
            partial_frames.bytes_max,
            "pipeline.partial.request.bytes",
        ),
        HeldState("unsent_responses", "bytes", unsent.bytes_held, unsent.bytes_max, "pipeline.unsent.response.bytes"),
        HeldState("groups", "bytes", groups_bytes, config.pipeline_group_bytes, "pipeline.group.bytes"),
        HeldState("edges", "bytes", broker.edges.size_bytes, broker.edges.bytes_max, "pipeline.edge.bytes"),
        HeldState("fetch_sessions", "partitions", sessions.partitions, sessions.partitions_max, session_setting),
        HeldState(
            "share_sessions",
            "partitions",
            0 if share_sessions is None else share_sessions.partitions,
            config.pipeline_fetch_session_partitions,
            session_setting,
        ),
        HeldState("topics", "partitions", broker.topics.partitions, config.pipeline_partitions, "pipeline.partitions"),
        HeldState(
            "open_transactions",
            "partitions",
            broker.transactions.open_partitions,
            config.pipeline_transaction_partitions,
            "pipeline.transaction.partitions",
        ),
        HeldState(
            "transactional_ids",
            "ids",
            broker.transactions.known,
            config.pipeline_transactional_ids,
            "pipeline.transactional.ids",
        ),
    ]
