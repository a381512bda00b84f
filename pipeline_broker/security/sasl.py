"""The common part of the server side of all SASL mechanisms."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from pipeline_broker.security.principal import KafkaPrincipal

__all__ = ["TOKEN_BYTES_MAX", "AuthenticationFailedError", "SaslServer", "Step"]

TOKEN_BYTES_MAX = 64 * 1024
"""Largest token of a mechanism. Names take at most half of it, signed tokens of identity providers a few kilobytes."""


class AuthenticationFailedError(Exception):
    """A failed authentication of a client.

    Args:
        reason: for the log.
        client_text: Kafka's text for the client; None for a text that only names the mechanism.
    """

    def __init__(self, reason: str, client_text: str | None = None) -> None:
        super().__init__(reason)
        self.client_text = client_text


class Step(enum.Enum):
    """The next expected token of a conversation, or its outcome."""

    FIRST = enum.auto()
    FINAL = enum.auto()
    # The client received the reason and must acknowledge it.
    REFUSED = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class SaslServer(ABC):
    """The broker's side of one SASL conversation: a token in, a token out.

    A subclass defines `table` and `answer`. Any error ends the conversation. An error never tells the client whether a
    user exists, and contains no secret.

    Attributes:
        name: the user name that the client claims. Until `is_complete` it is only for the log.
        expires_ms: expiry of the client's proof, milliseconds since the epoch; None if it does not expire.
        owner: the principal for which a delegation token acts; None for `name`.
        is_token: whether the client used a delegation token.
    """

    # Allowed next steps. A failure is allowed in every step.
    table: ClassVar[Mapping[Step, frozenset[Step]]]

    def __init__(self) -> None:
        self.name = ""
        self.expires_ms: int | None = None
        self.owner: KafkaPrincipal | None = None
        self.is_token = False
        self._step = Step.FIRST

    @property
    def is_complete(self) -> bool:
        return self._step is Step.COMPLETE

    def receive(self, token: bytes) -> bytes:
        """Process the client's next token and return the answer.

        Raises:
            AuthenticationFailedError: the token is wrong, longer than TOKEN_BYTES_MAX, or sent after the conversation
                has ended. No further token is accepted.
        """
        # If anything below raises, the conversation has failed.
        step, self._step = self._step, Step.FAILED
        if step not in self.table:
            raise AuthenticationFailedError(f"the client sent a token after the end of the conversation ({step.name})")
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationFailedError(f"the token has {len(token)} bytes; at most {TOKEN_BYTES_MAX} are allowed")
        following, answer = self.answer(step, token)
        assert following in self.table[step], (step, following)
        self._step = following
        return answer

    @abstractmethod
    def answer(self, step: Step, token: bytes) -> tuple[Step, bytes]:
        """Return the next step and the answer to a token.

        Raises:
            AuthenticationFailedError: the token is malformed, or does not authenticate the client.
        """
