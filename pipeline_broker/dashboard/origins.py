"""Who sent a request and what it names, in texts of bounded length.

Rules of this file: no Trio; names come from clients, so they are cut, and of many a few are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from pipeline_broker.telemetry.recent_requests import RequestNames, client_id_of

__all__ = ["Origin", "address_of", "cut", "cut_name", "origin_of", "some_of"]

NAME_CHARACTERS_MAX = 64
NAMES_SHOWN_MAX = 3
FULL_NAME_CHARACTERS_MAX = 1024
"""Of a name that a page may ask for again, such as a group's: longer ones, of up to 32 KB, are shown in part only."""
_REMOTE_PORT = re.compile(r":(\d+)-\d+-\d+")


class _Connection(Protocol):
    """What is read of `stages.connection.Connection`."""

    id: str
    peer: str


class Origin(NamedTuple):
    """Who sent a request, and how to learn what it names."""

    client_id: str
    address: str
    names: Callable[[], RequestNames]


def origin_of(request: Any, names_of: Callable[[Any], Callable[[], RequestNames]]) -> Origin:
    """The origin of a request that has ended; it costs the event loop a copy of its bytes, if these are few."""
    return Origin(client_id_of(request.frame), address_of(request.connection), names_of(request))


def address_of(connection: _Connection) -> str:
    """Address and port of a client: its connection's id ends in them, as Kafka's does; without a socket no port."""
    found = _REMOTE_PORT.search(connection.id)
    if found is None:
        return connection.peer
    return f"[{connection.peer}]:{found[1]}" if ":" in connection.peer else f"{connection.peer}:{found[1]}"


def cut(name: str) -> str:
    """A name, or its beginning."""
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"


def cut_name(name: str) -> str:
    """A name that a page may ask for again, or its beginning."""
    return name if len(name) <= FULL_NAME_CHARACTERS_MAX else f"{name[: FULL_NAME_CHARACTERS_MAX - 1]}…"


def some_of(names: Iterable[str]) -> list[str]:
    """The first names in order, each once, and how many there are beside them."""
    found = sorted(set(names))
    more = len(found) - NAMES_SHOWN_MAX
    return [*map(cut, found[:NAMES_SHOWN_MAX]), *([f"and {more} more"] if more > 0 else [])]
