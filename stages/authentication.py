"""The conversation that a connection must have before its requests are admitted.

Rules of this room: types only; it imports nothing of ours but the request's. A server without authentication has no
authenticator and pays one comparison a request. An authenticator is asked synchronously, for one frame at a time, in
order, and only when the connection has nothing in flight: so a change of who the client is never overtakes a request.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

from stages.request import Buffer

__all__ = ["Authenticator", "Conversation", "Reply"]


class Conversation(enum.Enum):
    """Where the conversation stands after a frame."""

    CONTINUES = enum.auto()
    SUCCEEDED = enum.auto()
    """The frames that follow are requests."""
    FAILED = enum.auto()
    """The reply leaves after the listener's delay, then the connection is closed; nothing more is read."""


class Reply(NamedTuple):
    """The answer to one frame of the conversation.

    Attributes:
        conversation: where it stands now.
        parts: the response without its length; none for an end without a word.
    """

    conversation: Conversation
    parts: tuple[Buffer, ...] = ()


class Authenticator(Protocol):
    """Who the client of one connection is.

    Attributes:
        frame_bytes_max: largest frame while the conversation lasts.
    """

    frame_bytes_max: int

    def receive(self, frame: Buffer) -> Reply:
        """Answer a frame of the conversation; it never raises for what a client sent."""

    def begins(self, frame: Buffer) -> bool:
        """Whether this frame, on an authenticated connection, begins the conversation again; asked once a frame."""

    def has_expired(self) -> bool:
        """Whether what was proved is no longer valid: only the beginning of a new conversation is taken then."""
