"""What the server reports to those who observe it, and with it the stamps of requests (`stages.stamps`).

Rules of this room: of ours it imports the stamps only; it is not compiled, because observers inherit from it.
"""

from typing import Any

from stages.stamps import NO_STAMP, STAMPS, Stamps, now_ns

__all__ = ["NO_STAMP", "STAMPS", "Stamps", "Timeline", "now_ns"]


class Timeline:
    """Where the server reports what happened, when it is observed at all; called on the event loop, must not block.

    This one makes nothing of it; an observer overrides what it wants to hear of.

    Attributes:
        samples_queues: whether `queue_sampled` is to be called.
    """

    samples_queues = False

    @property
    def times_requests(self) -> bool:
        """Whether requests that are received now are stamped, and reported when they end.

        It is looked at whenever something was received.
        """
        return True

    def request_ended(self, request: Any) -> None:
        """The last byte of the response was sent, or the slot was released without bytes."""

    def request_dropped(self, request: Any) -> None:
        """The connection closed before the response was sent."""

    def commit_ended(self, commit: Any) -> None:
        """The entries of a commit are durable and their slots completed."""

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """A reason not to read a connection is gone."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """A handler began a turn with so many requests waiting in its queue."""
