"""The memory and state that clients make a broker hold, with the limits, for the metrics and the dashboard."""

from __future__ import annotations

from typing import Protocol

import attrs

from pipeline_broker.broker.broker import Broker

__all__ = ["HeldState", "held_by_clients"]


@attrs.frozen
class HeldState:
    """One kind of state that clients make the broker hold.

    Attributes:
        name: name in the metrics.
        unit: unit of `held` and `limit`.
        held: amount at present.
        limit: maximum amount.
        setting: property that sets the limit.
    """

    name: str
    unit: str
    held: int
    limit: int
    setting: str


class BoundedBytes(Protocol):
    """The part of the statistics of partial frames and unsent responses that is read here."""

    @property
    def bytes_held(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...


class BoundedByServer(Protocol):
    """The part of `stages.server_statistics.SocketServerStatistics` that is read here."""

    @property
    def partial_frames(self) -> BoundedBytes: ...

    @property
    def unsent_responses(self) -> BoundedBytes: ...


def held_by_clients(broker: Broker, server: BoundedByServer) -> list[HeldState]:
    """Return every kind of state that has a limit over all clients."""
    partial_frames, unsent = server.partial_frames, server.unsent_responses
    config, sessions, share_sessions = broker.config, broker.fetch_sessions, broker.share.sessions
    transactions = broker.transactions.usage
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
            0 if transactions is None else transactions.open_partitions,
            config.pipeline_transaction_partitions,
            "pipeline.transaction.partitions",
        ),
        HeldState(
            "transactional_ids",
            "ids",
            0 if transactions is None else transactions.ids,
            config.pipeline_transactional_ids,
            "pipeline.transactional.ids",
        ),
    ]
