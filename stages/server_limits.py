"""The bounds of a server.

Rules of this room: it decides nothing; each bound is enforced by the room that it is handed to.
"""

import attrs

from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.partial_frames import PARTIAL_BYTES_MAX
from stages.request_channel import BYTES_MAX, REQUESTS_MAX
from stages.unsent_responses import UNSENT_BYTES_MAX

__all__ = ["ServerLimits"]

DRAIN_SECONDS = 7.0
"""How long requests in flight may take to be answered when the server, a listener or a processor ends. A server that is
to end within 10 s has the rest for what it does before and after."""


@attrs.frozen
class ServerLimits:
    """Bounds of a server.

    Attributes:
        connection: bounds of each connection; its `in_flight_max` is the mode's.
        requests_max: capacity of the request queues together.
        bytes_max: bytes of all unanswered requests.
        partial_bytes_max: bytes of all large frames that are still arriving, but the eldest.
        total_unsent_bytes_max: bytes of all responses that clients have not taken.
        processors: processors of each listener that has no number of its own (`num.network.threads`).
        drain_seconds: see DRAIN_SECONDS.
        quotas: connection counts and rates.
    """

    connection: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    requests_max: int = REQUESTS_MAX
    bytes_max: int = BYTES_MAX
    partial_bytes_max: int = PARTIAL_BYTES_MAX
    total_unsent_bytes_max: int = UNSENT_BYTES_MAX
    processors: int = 3
    drain_seconds: float = DRAIN_SECONDS
    quotas: ConnectionQuotaLimits = attrs.field(factory=ConnectionQuotaLimits)
