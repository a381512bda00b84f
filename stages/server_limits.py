"""The bounds of a server."""

import attrs

from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.partial_frames import PARTIAL_BYTES_MAX
from stages.request_channel import BYTES_MAX, REQUESTS_MAX
from stages.unsent_responses import UNSENT_BYTES_MAX

__all__ = ["ServerLimits"]

DRAIN_SECONDS = 7.0
"""Time to answer requests in flight when the server, a listener or a processor ends. A server that must end within 10 s
has 3 s left for its other work."""


@attrs.frozen
class ServerLimits:
    """Bounds of a server.

    Attributes:
        connection: bounds of each connection; the mode overrides its `in_flight_max`.
        requests_max: capacity of all request queues together.
        bytes_max: bytes of all unanswered requests.
        partial_bytes_max: bytes of all arriving large frames but the oldest.
        total_unsent_bytes_max: bytes of all responses that clients have not read.
        processors: processors of each listener without a number of its own (`num.network.threads`).
        drain_seconds: time to answer requests in flight when the server, a listener or a processor ends.
        quotas: numbers and rates of connections.
    """

    connection: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    requests_max: int = REQUESTS_MAX
    bytes_max: int = BYTES_MAX
    partial_bytes_max: int = PARTIAL_BYTES_MAX
    total_unsent_bytes_max: int = UNSENT_BYTES_MAX
    processors: int = 3
    drain_seconds: float = DRAIN_SECONDS
    quotas: ConnectionQuotaLimits = attrs.field(factory=ConnectionQuotaLimits)
