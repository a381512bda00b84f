r"""The server side of SASL/OAUTHBEARER (RFC 7628): the client sends a signed token of an identity provider.

    token = n,[a=authorization id],\x01auth=Bearer TOKEN\x01[key=value\x01]...\x01

A rejected token is answered with a JSON text. The client acknowledges it with one \x01, and only then receives the
failure. The text does not reveal the reason. Extensions must be well formed and are otherwise ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

import attrs

from pipeline_broker.security.sasl import AuthenticationFailedError, SaslServer, Step

__all__ = ["OAUTHBEARER", "BearerToken", "InvalidTokenError", "OAuthBearerServer"]

OAUTHBEARER = "OAUTHBEARER"
SEPARATOR = "\x01"
ACKNOWLEDGEMENT = b"\x01"
REFUSAL = '{"status":"invalid_token"}'
NAME = r"(?:[^\x00,=\x01]|=2C|=3D)+"
FIRST = re.compile(rf"n,(?:a=(?P<authorization_id>{NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01")
BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class InvalidTokenError(Exception):
    """An invalid token. The message is for the log and contains nothing of the token."""


@attrs.frozen
class BearerToken:
    """The user name and the expiry that a valid token proves.

    Attributes:
        expires_ms: milliseconds since the epoch.
    """

    name: str
    expires_ms: int


class OAuthBearerServer(SaslServer):
    """The broker's side of one OAUTHBEARER conversation.

    Args:
        validate: returns the contents of a token; raises InvalidTokenError if the token is invalid.
    """

    table: ClassVar[Mapping[Step, frozenset[Step]]] = {
        Step.FIRST: frozenset({Step.COMPLETE, Step.REFUSED}),
        Step.REFUSED: frozenset(),
    }

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        super().__init__()
        self._validate = validate
        self._reason = ""

    def answer(self, step: Step, token: bytes) -> tuple[Step, bytes]:
        # RFC 7628: after the error text the client sends one \x01, and then authentication fails.
        if step is Step.REFUSED:
            text = REFUSAL if token == ACKNOWLEDGEMENT else None
            raise AuthenticationFailedError(self._reason, text)
        authorization_id, bearer = _read(token)
        try:
            proof = self._validate(bearer)
        except InvalidTokenError as error:
            self._reason = str(error)
            return Step.REFUSED, REFUSAL.encode()
        if authorization_id not in {"", proof.name}:
            raise AuthenticationFailedError(
                "the authorization id differs from the name in the token",
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name",
            )
        self.name, self.expires_ms = proof.name, proof.expires_ms
        return Step.COMPLETE, b""


def _read(token: bytes) -> tuple[str, str]:
    try:
        match = FIRST.fullmatch(token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise AuthenticationFailedError("the first message is malformed, or uses channel binding")
    pairs = [pair.partition("=") for pair in match["pairs"].removesuffix(SEPARATOR).split(SEPARATOR)]
    found = [value for key, _, value in pairs if key == "auth"]
    bearer = BEARER.fullmatch(found[0]) if len(found) == 1 else None
    if bearer is None:
        raise AuthenticationFailedError("the first message does not contain exactly one bearer token")
    authorization_id = (match["authorization_id"] or "").replace("=2C", ",").replace("=3D", "=")
    return authorization_id, bearer["token"]
