"""What the connections of one processor have done so far, as plain integers.

Rules of this room: it imports nothing of ours; an integer is added to where the thing happens, once per read, per send
or per connection, and nobody computes anything before somebody asks.
"""

from __future__ import annotations

import attrs

__all__ = ["NetworkCounters"]


@attrs.define
class NetworkCounters:
    """Sums since the processor began.

    Attributes:
        created: connections that were begun.
        closed: of these, how many are closed, for whatever reason.
        expired: how many of the closed were idle for too long, or kept a slot open for too long.
        authenticated: first conversations that succeeded.
        authentication_failed: first conversations that failed, and handshakes of TLS.
        reauthenticated: later conversations that succeeded.
        reauthentication_failed: later conversations that failed.
        authentication_expired: connections that were closed because they did not authenticate again in time.
        bytes_in: bytes that were received.
        bytes_out: bytes that the transports took.
        requests_in: frames that became requests.
        responses_out: responses that were released, those without bytes included.
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
        """Add the sums of another processor."""
        for field in attrs.fields(NetworkCounters):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def copy(self) -> NetworkCounters:
        """The sums as they stand."""
        return attrs.evolve(self)
