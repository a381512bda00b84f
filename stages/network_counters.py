"""Counters of the network activity of one processor."""

from __future__ import annotations

import attrs

__all__ = ["NetworkCounters"]


@attrs.define
class NetworkCounters:
    """Sums since the start of a processor.

    Attributes:
        created: connections started.
        closed: connections closed for any reason.
        expired: connections closed because they were idle or kept a slot open for too long.
        authenticated: first authentications that succeeded.
        authentication_failed: first authentications and TLS handshakes that failed.
        reauthenticated: later authentications that succeeded.
        reauthentication_failed: later authentications that failed.
        authentication_expired: connections closed because they did not authenticate again in time.
        bytes_in: bytes received.
        bytes_out: bytes that the transports took.
        requests_in: frames that became requests.
        responses_out: released slots, including those without bytes.
    """

    created: int = 0
    closed: int = 0
    expired: int = 0
    authenticated: int = 0
    authentication_failed: int = 0
    reauthenticated: int = 0
    reauthentication_failed: int = 0
    authentication_expired: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    requests_in: int = 0
    responses_out: int = 0

    def add(self, other: NetworkCounters) -> None:
        for field in attrs.fields(NetworkCounters):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def copy(self) -> NetworkCounters:
        return attrs.evolve(self)
