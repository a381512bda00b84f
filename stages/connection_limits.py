"""The bounds of one connection."""

import attrs

__all__ = ["ConnectionLimits"]


@attrs.frozen
class ConnectionLimits:
    """Bounds of one connection.

    Attributes:
        frame_bytes_max: size of the largest frame (`socket.request.max.bytes`).
        in_flight_max: unanswered requests at which the connection is muted.
        unsent_bytes_max: bytes of unread responses at which the connection is muted.
        idle_seconds_max: time after which an idle connection is closed (`connections.max.idle.ms`); may be infinite.
        slot_seconds_max: time after which a connection is closed if its oldest slot is still open, as after a lost
            completion. It must exceed the time for which an application parks requests.
        failed_authentication_delay_seconds: delay of the reply to a failed authentication
            (`connection.failed.authentication.delay.ms`), which slows down guessing.
    """

    frame_bytes_max: int = 100 * 1024 * 1024
    in_flight_max: int = 64
    unsent_bytes_max: int = 8 * 1024 * 1024
    idle_seconds_max: float = 600.0
    slot_seconds_max: float = 3600.0
    failed_authentication_delay_seconds: float = 0.1
