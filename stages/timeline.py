"""The interface of observers, with the stamps of requests (`stages.stamps`).

This module is not compiled, because observers inherit from it.
"""

from typing import Any

from stages.stamps import NO_STAMP, STAMPS, Stamps, now_ns

__all__ = ["NO_STAMP", "STAMPS", "Stamps", "Timeline", "now_ns"]


class Timeline:
    """An observer of the server that ignores everything; subclasses override the events they need.

    The server calls its methods on the event loop, so they must not block.

    Attributes:
        samples_queues: whether the server should call `queue_sampled`.
    """

    samples_queues = False

    @property
    def times_requests(self) -> bool:
        """True if new requests should be stamped, and reported when they end.

        The server reads this each time it has received bytes.
        """
        return True

    def request_ended(self, request: Any) -> None:
        """Record that the last byte of a response was sent, or that its slot was released without bytes."""

    def request_dropped(self, request: Any) -> None:
        """Record that a request gets no response, because its connection is closed or closing."""

    def commit_ended(self, commit: Any) -> None:
        """Record that the entries of a commit are durable and their slots completed."""

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """Record that a reason not to read a connection was removed, or that the connection was closed.

        Args:
            reason: value of a `stages.mute.MuteReason`.
        """

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """Record the number of waiting requests (`depth`) at the start of a handler's turn."""
