"""The server side of SASL/SCRAM (RFC 5802, RFC 7677): proof of a password that is never sent.

    client first   n,[a=authorization id],n=user name,r=nonce
    server first   r=nonce of both,s=salt,i=iterations
    client final   c=base64 of "n,[a=...],",r=nonce of both,p=proof
    server final   v=signature

Channel binding and mandatory extensions (`m=`) are not supported; other extensions are ignored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import attrs

from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.sasl import AuthenticationFailedError, SaslServer, Step

__all__ = [
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "SALT_BYTES",
    "SCRAM_MECHANISMS",
    "ScramCredential",
    "ScramMechanism",
    "ScramServer",
    "salted_password",
]

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
NONCE_BYTES = 18
SALT_BYTES = 26
"""Size of a new salt, as in Kafka's ScramFormatter."""

NAME = r"(?:[^\x00,=]|=2C|=3D)+"
NONCE = r"[\x21-\x2b\x2d-\x7e]+"
EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]*)*)"
CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{NAME}))?,)(?P<bare>n=(?P<name>{NAME}),r=(?P<nonce>{NONCE}){EXTENSIONS})"
)
CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{NONCE}){EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
# Announces a mandatory extension (RFC 5802). None is supported.
REFUSED_EXTENSION = re.compile(r",m=")
# Marks the user name as the id of a delegation token (KIP-48).
TOKEN_EXTENSION = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)


@attrs.frozen
class ScramMechanism:
    """One of Kafka's two SCRAM mechanisms.

    Attributes:
        number: its number in Kafka's requests.
    """

    name: str
    number: int
    hash_name: str

    @property
    def hash_size(self) -> int:
        return hashlib.new(self.hash_name).digest_size


SCRAM_MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}


@attrs.frozen(repr=False)
class ScramCredential:
    """The stored part of a password: enough to check a proof, too little to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @property
    def shape(self) -> tuple[int, int]:
        """The length of the salt and the iterations, which every client can see."""
        return len(self.salt), self.iterations

    @classmethod
    def of(cls, mechanism: ScramMechanism, salt: bytes, iterations: int, salted: bytes) -> ScramCredential:
        client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
        server_key = hmac.digest(salted, b"Server Key", mechanism.hash_name)
        return cls(salt, hashlib.new(mechanism.hash_name, client_key).digest(), server_key, iterations)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's Hi(), which a client sends instead of a new password."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


class TokenLogin(Protocol):
    @property
    def credential(self) -> ScramCredential: ...

    @property
    def owner(self) -> KafkaPrincipal: ...

    @property
    def expires_ms(self) -> int: ...


class ScramServer(SaslServer):
    """The broker's side of one SCRAM conversation.

    An unknown user has a credential that no client can prove (`scram_users`), so its conversation looks like any other.

    Args:
        mechanism: one of SCRAM_MECHANISMS.
        credential_of: returns the credential of a user name, known or not.
        login_of: returns the login of a delegation token; None for an unknown or expired one.
    """

    table: ClassVar[Mapping[Step, frozenset[Step]]] = {
        Step.FIRST: frozenset({Step.FINAL}),
        Step.FINAL: frozenset({Step.COMPLETE}),
    }

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential],
        login_of: Callable[[str], TokenLogin | None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._login_of = login_of

    def answer(self, step: Step, token: bytes) -> tuple[Step, bytes]:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailedError("the token is not UTF-8") from None
        if step is Step.FIRST:
            return Step.FINAL, self._first(text)
        return Step.COMPLETE, self._final(text)

    def _first(self, text: str) -> bytes:
        match = CLIENT_FIRST.fullmatch(text)
        if match is None or REFUSED_EXTENSION.search(match["extensions"]):
            raise AuthenticationFailedError("the first message is malformed, or uses channel binding")
        self.name = _unescape(match["name"])
        # Checked before the user is looked up, so that the answer does not reveal whether the user exists.
        if match["authorization_id"] is not None and _unescape(match["authorization_id"]) != self.name:
            refusal = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailedError(refusal, refusal)
        self._credential = self._credential_of(self.name)
        if TOKEN_EXTENSION.search(match["extensions"]):
            self._take_token()
        self._header = match["header"].encode()
        self._nonce = match["nonce"] + base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        salt = base64.b64encode(self._credential.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{match['bare']},{server_first},"
        return server_first.encode()

    def _take_token(self) -> None:
        # An unknown token is treated like an unknown user.
        login = self._login_of(self.name)
        self._credential = self._credential_of("") if login is None else login.credential
        self.is_token = True
        if login is not None:
            self.owner, self.expires_ms = login.owner, login.expires_ms

    def _final(self, text: str) -> bytes:
        match = CLIENT_FINAL.fullmatch(text)
        if match is None or REFUSED_EXTENSION.search(match["extensions"]):
            raise AuthenticationFailedError("the final message is malformed")
        # The whole nonce, not only its end: CVE-2024-56128 in Kafka.
        if not hmac.compare_digest(match["nonce"], self._nonce):
            if match["nonce"].endswith(self._nonce):  # confluentinc/librdkafka issue 4895
                refusal = "Authentication failed: librdkafka before 2.6.1 sends its nonce twice. Upgrade the client"
                raise AuthenticationFailedError(refusal, refusal)
            raise AuthenticationFailedError("the final message has another nonce")
        # The client repeats its first header, which reveals a changed authorization id or channel binding.
        if _from_base64(match["binding"]) != self._header:
            raise AuthenticationFailedError("the final message has another channel binding")
        hash_name, credential = self._mechanism.hash_name, self._credential
        message = (self._said + match["without_proof"]).encode()
        signature = hmac.digest(credential.stored_key, message, hash_name)
        proof = _from_base64(match["proof"])
        # `zip` below must not cut a short proof.
        if len(proof) != len(signature):
            raise AuthenticationFailedError("the proof has the wrong size")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), credential.stored_key):
            raise AuthenticationFailedError("the password is wrong, or the user is unknown")
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, message, hash_name))


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailedError("a value in the final message is not base64") from None
