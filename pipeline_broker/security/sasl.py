"""What every SASL mechanism is to whoever carries its tokens.

Rules of this file: a server is one conversation, sans-IO: a token in, a token out, and one error for whatever is wrong.
Where it may go from where it stands is a table of the mechanism; after a failure it goes nowhere. What an error tells
the client never depends on whether a user exists, and never holds a secret.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from pipeline_broker.security.principal import KafkaPrincipal

__all__ = ["TOKEN_BYTES_MAX", "AuthenticationFailedError", "SaslServer", "Step"]

TOKEN_BYTES_MAX = 64 * 1024
"""Largest token of a mechanism; names are at most half of it, signed tokens of identity providers some kilobytes."""


class AuthenticationFailedError(Exception):
    """The client has not proved who it is.

    Attributes:
        client_text: what it is told; None for the text that says nothing but the mechanism.
    """

    def __init__(self, reason: str, client_text: str | None = None) -> None:
        super().__init__(reason)
        self.client_text = client_text


class Step(enum.Enum):
    """Which token is expected next, or how the conversation ended."""

    FIRST = enum.auto()
    FINAL = enum.auto()
    REFUSED = enum.auto()
    """The client has been told why and acknowledges it."""
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class SaslServer(ABC):
    """The broker's side of one conversation.

    Attributes:
        name: who the client says that it is, which counts once `is_complete`; before, it is for the log.
        expires_ms: when the proof itself ends, milliseconds since the epoch; None if never.
        owner: who the client is, where it has proved something that stands for somebody else; None for `name`.
        is_token: whether that was a delegation token.
    """

    table: ClassVar[Mapping[Step, frozenset[Step]]]
    """Where a step may lead; a failure may follow any."""

    def __init__(self) -> None:
        self.name = ""
        self.expires_ms: int | None = None
        self.owner: KafkaPrincipal | None = None
        self.is_token = False
        self._step = Step.FIRST

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved who it is."""
        return self._step is Step.COMPLETE

    def receive(self, token: bytes) -> bytes:
        """Answer the next token of the client.

        Raises:
            AuthenticationFailedError: the conversation is over.
        """
        step, self._step = self._step, Step.FAILED
        if step not in self.table:
            raise AuthenticationFailedError(f"a token after the end of the conversation ({step.name})")
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationFailedError(f"a token of {len(token)} bytes")
        following, answer = self.answer(step, token)
        assert following in self.table[step], (step, following)
        self._step = following
        return answer

    @abstractmethod
    def answer(self, step: Step, token: bytes) -> tuple[Step, bytes]:
        """The next step and the answer to the token of this one; AuthenticationFailedError for a bad one."""
