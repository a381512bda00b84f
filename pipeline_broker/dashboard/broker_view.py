"""The broker's startup options, connections and current queues as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

import attrs

from pipeline_broker.base.steps import Steps, first_few
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.held_by_clients import held_by_clients
from pipeline_broker.dashboard.origins import address_of, cut, cut_name, some_of
from pipeline_broker.telemetry.server_shapes import TurnsOf
from pipeline_broker.wire.registry import api_name

__all__ = ["BrokerIdentity", "ConnectionShape", "ServerShape", "connections", "identity_of", "standing"]

CONNECTIONS_SHOWN_MAX = 500
QUEUES_SHOWN_MAX = 64
TURNS_SHOWN_MAX = 20
# Written logs, and fetched logs, that are examined for the topics of a connection.
LOGS_EXAMINED_MAX = 64


class ConnectionShape(Protocol):
    """The part of `stages.connection.Connection` that this module reads."""

    index: int
    id: str
    peer: str
    listener: str
    session: Any

    def statistics(self) -> Any: ...


class ServerShape(Protocol):
    """The part of `stages.socket_server.SocketServer` that this module reads."""

    mode: Any
    committer: Any

    @property
    def processors(self) -> Any: ...

    def statistics(self) -> Any: ...


@attrs.frozen(kw_only=True)
class BrokerIdentity:
    """Start options of a broker, which do not change while it runs.

    Attributes:
        mode: "classic" or "pipelined".
        flush: "always" or "os".
        data: the data directory.
        commit_delay_ms: an injected delay of every commit.
    """

    mode: str
    flush: str
    data: str
    commit_delay_ms: float


def identity_of(server: ServerShape, broker: Broker) -> BrokerIdentity:
    return BrokerIdentity(
        mode=server.mode.name,
        flush=broker.logs.journal.flush,
        data=broker.config.properties.get("log.dirs", ""),
        commit_delay_ms=server.committer.delay_ns / 1_000_000,
    )


def _all_connections(server: ServerShape) -> Iterable[ConnectionShape]:
    for processor in server.processors:
        yield from processor.connections


def connections(server: ServerShape, broker: Broker) -> Steps[dict[str, Any]]:
    """Return the open connections, memory held for clients, and the longest turns of the event loop, in steps.

    The connections are their number, and the first CONNECTIONS_SHOWN_MAX in order of arrival.
    """
    found = server.statistics()
    held = held_by_clients(broker, found)
    every = list(_all_connections(server))
    rows = []
    for each in (yield from first_few(every, CONNECTIONS_SHOWN_MAX, lambda connection: connection.index)):
        rows.append(_connection(each, broker))
        yield
    return {
        "count": len(every),
        "connections": rows,
        "held": [{**attrs.asdict(each), "name": each.name.replace("_", " ")} for each in held],
        "turns": [_turns(each) for each in found.turns[:TURNS_SHOWN_MAX]],
    }


def _turns(turns: TurnsOf) -> dict[str, Any]:
    return {
        "turn": api_name(turns.name),
        "longest_us": round(turns.longest_seconds * 1e6),
        "long_count": turns.long_count,
    }


def _topics_of(session: Any, broker: Broker) -> Iterator[str]:
    templates = getattr(session, "produce_templates", None)
    written = () if templates is None else templates.logs(LOGS_EXAMINED_MAX)
    for log in chain(written, islice(broker.fetches.watched_by(session), LOGS_EXAMINED_MAX)):
        topic = getattr(log, "topic", None)  # fetches can also wait for objects without a topic
        if topic is not None:
            yield topic


def _connection(connection: ConnectionShape, broker: Broker) -> dict[str, Any]:
    statistics, session = connection.statistics(), connection.session
    return {
        "connection": connection.index,
        "from": address_of(connection),
        "client": cut(getattr(session, "client_id", None) or ""),
        "topics": some_of(_topics_of(session, broker)),
        "listener": connection.listener,
        "security": getattr(session, "security_protocol", ""),
        "principal": cut_name(str(getattr(session, "principal", ""))),
        "software": cut(f"{getattr(session, 'software_name', '')} {getattr(session, 'software_version', '')}".strip()),
        "in_flight": statistics.in_flight,
        "received": statistics.received,
        "answered": statistics.released,
        "unsent_bytes": statistics.unsent_bytes,
        "mutes": [reason.lower().replace("_", " ") for reason in statistics.mute_reasons],
    }


def standing(server: ServerShape) -> dict[str, Any]:
    """Return the number of connections, now and since startup, and the current queues, handlers and commits."""
    found = server.statistics()
    return {
        "connections": sum(processor.connections for processor in found.processors),
        "connections_total": sum(processor.connections_total for processor in found.processors),
        "queues": [
            {"queue": queue.index, "depth": queue.depth, "waiting_connections": queue.waiting_for_room}
            for queue in found.queues[:QUEUES_SHOWN_MAX]
        ],
        "handlers": found.handlers.handlers,
        "commits_waiting": found.committer.waiting,
        "commits_in_flight": found.committer.in_flight,
    }
