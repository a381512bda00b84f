"""The interface of authenticators, which talk to the client of a connection before its requests are admitted."""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

from stages.request import Buffer, Part

__all__ = ["Authenticator", "Conversation", "Reply"]


class Conversation(enum.Enum):
    """State of a conversation after one of its frames."""

    CONTINUES = enum.auto()
    SUCCEEDED = enum.auto()
    """The next frames are requests."""
    FAILED = enum.auto()
    """The reply leaves after the listener's delay, then the connection is closed. Nothing more is read."""


class Reply(NamedTuple):
    """The response to one frame of the conversation.

    Attributes:
        conversation: state of the conversation.
        parts: the response without its length; empty to send nothing.
    """

    conversation: Conversation
    parts: tuple[Part, ...] = ()


class Authenticator(Protocol):
    """An authenticator of one connection's client.

    It is called synchronously, for one frame at a time, in order, and only while the connection has no requests in
    flight. So no request runs under two identities.

    Attributes:
        frame_bytes_max: size of the largest frame during the conversation.
    """

    frame_bytes_max: int

    def receive(self, frame: Buffer) -> Reply:
        """Return the reply to a frame of the conversation; invalid frames must not raise."""

    def begins(self, frame: Buffer) -> bool:
        """Return whether a frame of an authenticated connection starts a new conversation; called once per frame."""

    def has_expired(self) -> bool:
        """Return whether the authentication has expired, so that only a new conversation is accepted."""
