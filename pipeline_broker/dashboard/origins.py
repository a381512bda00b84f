"""The client and the names of a request, in bounded texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from pipeline_broker.telemetry.recent_requests import RequestNames, client_id_of

__all__ = ["Origin", "address_of", "cut", "cut_name", "origin_of", "some_of"]

NAME_CHARACTERS_MAX = 64
NAMES_SHOWN_MAX = 3
FULL_NAME_CHARACTERS_MAX = 1024
"""The longest name that a page can look up, such as a group's. Names have up to 32 KB; longer ones are cut."""
_REMOTE_PORT = re.compile(r":(\d+)-\d+-\d+")


class _Connection(Protocol):
    id: str
    peer: str


class Origin(NamedTuple):
    """The sender of a request, and a function that reads the names in it."""

    client_id: str
    address: str
    names: Callable[[], RequestNames]


def origin_of(request: Any, names_of: Callable[[Any], Callable[[], RequestNames]]) -> Origin:
    """Return the origin of a completed request. `names_of` returns the function that reads the names in it."""
    return Origin(client_id_of(request.frame), address_of(request.connection), names_of(request))


def address_of(connection: _Connection) -> str:
    """Return the address and port of a client, or its address alone if it has no socket."""
    # A connection id ends with the remote port, as in Kafka.
    found = _REMOTE_PORT.search(connection.id)
    if found is None:
        return connection.peer
    return f"[{connection.peer}]:{found[1]}" if ":" in connection.peer else f"{connection.peer}:{found[1]}"


def cut(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"


def cut_name(name: str) -> str:
    """Return a name that a page can look up, cut after FULL_NAME_CHARACTERS_MAX characters."""
    return name if len(name) <= FULL_NAME_CHARACTERS_MAX else f"{name[: FULL_NAME_CHARACTERS_MAX - 1]}…"


def some_of(names: Iterable[str]) -> list[str]:
    """Return the first NAMES_SHOWN_MAX names in order without duplicates, and `and N more` if there are more."""
    found = sorted(set(names))
    more = len(found) - NAMES_SHOWN_MAX
    return [*map(cut, found[:NAMES_SHOWN_MAX]), *([f"and {more} more"] if more > 0 else [])]
