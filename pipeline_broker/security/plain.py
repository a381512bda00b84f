"""The server side of SASL/PLAIN (RFC 4616): a user name and a password in one token.

token = [authorization id] NUL user name NUL password
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import ClassVar

from pipeline_broker.security.sasl import AuthenticationFailedError, SaslServer, Step

__all__ = ["PLAIN", "PlainServer", "PlainUsers"]

PLAIN = "PLAIN"
PARTS = 3


class PlainUsers:
    """The users of one listener. It keeps only HMACs of their passwords, under a key of this process."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {name: self._digest(password) for name, password in passwords.items()}
        self._decoy = self._digest(secrets.token_hex())

    def accepts(self, name: str, password: str) -> bool:
        # An unknown user is compared with a random password, and digests have one length. So the time reveals neither
        # whether the user exists nor anything about a password.
        expected = self._digests.get(name, self._decoy)
        return hmac.compare_digest(expected, self._digest(password))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(errors="surrogatepass"), hashlib.sha256)


class PlainServer(SaslServer):
    table: ClassVar[Mapping[Step, frozenset[Step]]] = {Step.FIRST: frozenset({Step.COMPLETE})}

    def __init__(self, users: PlainUsers) -> None:
        super().__init__()
        self._users = users

    def answer(self, step: Step, token: bytes) -> tuple[Step, bytes]:  # noqa: ARG002 - the mechanism has one step
        parts = token.split(b"\0", PARTS)
        if len(parts) != PARTS:
            raise _failure(f"Invalid SASL/PLAIN response: expected {PARTS} tokens, got {len(parts)}")
        try:
            authorization_id, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise _failure("Authentication failed: Invalid username or password") from None
        self.name = name
        if not name:
            raise _failure("Authentication failed: username not specified")
        if not password:
            raise _failure("Authentication failed: password not specified")
        if not self._users.accepts(name, password):
            raise _failure("Authentication failed: Invalid username or password")
        # Only after the password, so that the answer does not reveal whether the user exists (CVE-2017-12610 in Kafka).
        if authorization_id not in {"", name}:
            raise _failure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Step.COMPLETE, b""


def _failure(text: str) -> AuthenticationFailedError:
    return AuthenticationFailedError(text, text)
