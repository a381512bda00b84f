"""The gate that passes a connection's authentication frames to its authenticator."""

from __future__ import annotations

from typing import Protocol

import trio

from stages.authentication import Authenticator, Conversation, Reply
from stages.connection_limits import ConnectionLimits
from stages.frames import FrameReader
from stages.mute import MuteReason
from stages.muting import Muting
from stages.network_counters import NetworkCounters
from stages.request import Buffer, Part

__all__ = ["AuthenticationGate", "GuardedConnection"]


class GuardedConnection(Protocol):
    muting: Muting
    closed: bool

    @property
    def limits(self) -> ConnectionLimits: ...

    async def wait_quiet(self) -> None:
        """Wait until no request is in flight and all responses have left, or the connection is closed."""

    def send_reply(self, parts: tuple[Part, ...], *, is_last: bool) -> None:
        """Send a frame that answers no request, or nothing if `parts` is empty. Close afterwards if `is_last`."""

    def stop_reading(self) -> None:
        """Answer the requests in flight, then close."""


class AuthenticationGate:
    """A gate that holds authentication frames until their connection is quiet.

    Before the first success every frame goes to the authenticator, and no frame may exceed its limit. Afterwards only a
    frame that starts a new conversation does. A quiet connection has no requests in flight and no unsent bytes. So
    earlier requests are answered under the old identity, and later ones run under the new one. Nothing is read while a
    frame is held.

    Attributes:
        frame: the held frame, or None.
    """

    __slots__ = ("_authenticator", "_connection", "_counters", "_is_open", "_is_renewal", "_reader", "frame")

    def __init__(
        self,
        connection: GuardedConnection,
        authenticator: Authenticator,
        reader: FrameReader,
        counters: NetworkCounters,
    ) -> None:
        self.frame: Buffer | None = None
        self._connection = connection
        self._authenticator = authenticator
        self._reader = reader
        self._counters = counters
        self._is_open = False
        self._is_renewal = False
        reader.frame_bytes_max = authenticator.frame_bytes_max

    def takes(self, frame: Buffer) -> bool:
        """Return True if `frame` is not a request: it is held for the authenticator, or its connection closes."""
        if self._is_open:
            if not self._authenticator.begins(frame):
                if not self._authenticator.has_expired():
                    return False
                self._counters.authentication_expired += 1
                self._connection.stop_reading()
                return True
            # From here every frame belongs to the new conversation, under its limit.
            self._is_open = False
            self._is_renewal = True
            self._reader.frame_bytes_max = self._authenticator.frame_bytes_max
        self.frame = frame
        self._connection.muting.begin(MuteReason.REAUTHENTICATION)
        return True

    async def converse(self) -> None:
        """Give the held frame to the authenticator once the connection is quiet, and send the reply.

        The reply to a failed authentication is delayed, and the connection closes after it.
        """
        connection, frame = self._connection, self.frame
        assert frame is not None
        # Requests of the old identity must be answered before the authenticator may change it.
        await connection.wait_quiet()
        if connection.closed:
            return
        reply = self._authenticator.receive(frame)
        self.frame = None
        self._count(reply)
        if reply.conversation is Conversation.FAILED:
            # Delays guessing. Only this connection waits: its reader runs this code.
            await trio.sleep(connection.limits.failed_authentication_delay_seconds)
        elif reply.conversation is Conversation.SUCCEEDED:
            self._is_open = True
            self._reader.frame_bytes_max = connection.limits.frame_bytes_max
        is_last = reply.conversation is Conversation.FAILED
        connection.send_reply(reply.parts, is_last=is_last)
        if not is_last:  # after a failure the mute stays, so later bytes are never read
            connection.muting.end(MuteReason.REAUTHENTICATION)

    def _count(self, reply: Reply) -> None:
        counters = self._counters
        match reply.conversation, self._is_renewal:
            case Conversation.SUCCEEDED, False:
                counters.authenticated += 1
            case Conversation.SUCCEEDED, True:
                counters.reauthenticated += 1
            case Conversation.FAILED, False:
                counters.authentication_failed += 1
            case Conversation.FAILED, True:
                counters.reauthentication_failed += 1
