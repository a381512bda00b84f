"""The bounds of one connection.

Rules of this room: it imports nothing of ours and decides nothing; the connection enforces each bound in one place.
"""

import attrs

__all__ = ["ConnectionLimits"]


@attrs.frozen
class ConnectionLimits:
    """Bounds of one connection.

    Attributes:
        frame_bytes_max: largest frame (`socket.request.max.bytes`).
        in_flight_max: unanswered requests at which it is muted.
        unsent_bytes_max: bytes of responses that the client does not read, at which it is muted.
        idle_seconds_max: idle expiry (`connections.max.idle.ms`); infinity for never.
        slot_seconds_max: how long the oldest slot may stay open before the connection is closed: the watchdog against
            a completion that was lost. It must be longer than anything an application parks.
        failed_authentication_delay_seconds: how long the reply to a failed authentication is held back
            (`connection.failed.authentication.delay.ms`), so that guessing is slow.
    """

    frame_bytes_max: int = 100 * 1024 * 1024
    in_flight_max: int = 64
    unsent_bytes_max: int = 8 * 1024 * 1024
    idle_seconds_max: float = 600.0
    slot_seconds_max: float = 3600.0
    failed_authentication_delay_seconds: float = 0.1
