"""Delegation tokens (KIP-48, KIP-373), as records of the metadata partition: secrets that stand for their owners.

    key   = int16 type, then                            value = int16 version 0, then
    10 token        token id in UTF-8                   JSON {"owner", "requester": [type, name], "renewers": [[..]],
                                                              "issued_ms", "expires_ms", "ends_ms"}

Rules of this file: see `state/metadata_records.py`, whose key types these continue; a value of null means that the
token is gone. The secret of a token is a MAC of its id under `delegation.token.secret.key`, so no record holds it, and
with another key all tokens are void. A token is renewed and ended by who knows its secret and is its owner or renewer.
Times are milliseconds since 1970. Decisions are taken on what is on its way; a token opens doors once it is durable.
Codes are Kafka's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, salted_password
from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.metadata_records import (
    INT64_MAX,
    RecordType,
    integer_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    text_subject_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write
from pipeline_broker.wire.error import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig

__all__ = [
    "RENEWERS_MAX",
    "TOKENS_MAX",
    "DelegationToken",
    "DelegationTokens",
    "TokenError",
    "TokenLogin",
    "read_token",
]

_MAC = "sha512"
TOKENS_MAX = 1_000
"""Tokens that one principal may have requested and that have not expired; Kafka has no bound."""
RENEWERS_MAX = 100
"""Of one token."""


class TokenError(KafkaError):
    """Why something about a token is refused."""


@attrs.frozen
class DelegationToken:
    """One token, without its secret.

    Attributes:
        token_id: its name; what a client gives as its user.
        owner: who it stands for.
        requester: who asked for it.
        renewers: who else may renew and end it.
        issued_ms, expires_ms: from when to when it counts unless it is renewed.
        ends_ms: how far it can be renewed.
    """

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """Whether somebody may see it in any case."""
        return principal in {self.owner, self.requester, *self.renewers}

    def may_be_renewed_by(self, principal: KafkaPrincipal) -> bool:
        """Whether somebody may renew or end it."""
        return principal in {self.owner, *self.renewers}

    def has_expired(self, now_ms: int) -> bool:
        """Whether it counts no longer."""
        return now_ms > min(self.expires_ms, self.ends_ms)


@attrs.frozen(repr=False)
class TokenLogin:
    """What a client that comes with a token must prove, and who it then is."""

    credential: ScramCredential
    owner: KafkaPrincipal
    expires_ms: int


class DelegationTokens(ReplayedWrites):
    """All tokens.

    Args:
        config: has the key, and how long tokens last.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._key = (config.delegation_token_secret_key or "").encode()
        self._lasts_ms = config.delegation_token_expiry_time_ms
        self._lasts_ms_max = config.delegation_token_max_lifetime_ms
        self._tokens: dict[str, DelegationToken] = {}
        self._coming: Decisions[str, DelegationToken | None] = Decisions()
        self._ids: dict[bytes, str] = {}
        """By secret, which is how clients name a token."""
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        """By id and mechanism."""

    @property
    def is_enabled(self) -> bool:
        """Whether there can be tokens."""
        return bool(self._key)

    # What mechanisms and handlers ask

    def secret(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), _MAC)

    def login(self, mechanism: ScramMechanism, token_id: str, now_ms: int) -> TokenLogin | None:
        """What opens the door of a token's owner; None where there is no such token, or no longer."""
        token = self._tokens.get(token_id)
        if not self.is_enabled or token is None or token.has_expired(now_ms):
            return None
        credentials = self._credentials.setdefault(token_id, {})
        credential = credentials.get(mechanism.name)
        if credential is None:
            secret = self.secret(token_id)
            salt = hashlib.sha256(secret + mechanism.name.encode()).digest()
            password = salted_password(mechanism, base64.b64encode(secret).decode(), salt, ITERATIONS_MIN)
            credential = credentials[mechanism.name] = ScramCredential.of(mechanism, salt, ITERATIONS_MIN, password)
        return TokenLogin(credential, token.owner, token.expires_ms)

    def visible(
        self,
        asking: KafkaPrincipal,
        owners: Sequence[KafkaPrincipal] | None,
        may_describe: Callable[[DelegationToken], bool],
    ) -> list[DelegationToken]:
        """The tokens that somebody may see.

        Args:
            asking: who wants to.
            owners: of whom they shall be; None for anybody's.
            may_describe: whether a token that is not its own may be seen too.
        """
        wanted = (
            token for token in self._tokens.values() if owners is None or any(token.is_of(each) for each in owners)
        )
        return [token for token in wanted if token.is_of(asking) or may_describe(token)]

    # Changes

    def create(
        self,
        token_id: str,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Iterable[KafkaPrincipal],
        lifetime_ms: int,
        now_ms: int,
    ) -> tuple[DelegationToken, Write]:
        """Decide a new token; a lifetime that is not positive is the longest.

        Raises:
            TokenError: there can be no tokens, or the requester has too many.
        """
        self._check_enabled()
        renewers = tuple(renewers)
        requested = (token for token in self._latest() if token.requester == requester)
        if len(renewers) > RENEWERS_MAX or sum(not token.has_expired(now_ms) for token in requested) >= TOKENS_MAX:
            raise TokenError(ErrorCode.POLICY_VIOLATION)
        longest_ms = self._lasts_ms_max if lifetime_ms <= 0 else min(self._lasts_ms_max, lifetime_ms)
        ends_ms = now_ms + longest_ms
        expires_ms = min(ends_ms, now_ms + self._lasts_ms)
        token = DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, ends_ms)
        self._ids[self.secret(token_id)] = token_id
        return token, self._change(token_id, token)

    def renew(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> tuple[int, Write]:
        """Decide that a token lasts longer; when it expires then. A period that is not positive is the usual one.

        Raises:
            TokenError: it cannot be renewed, or not by this principal.
        """
        token = self._named(secret)
        if token.has_expired(now_ms):  # Kafka tells that to everybody, but of `expire` to those who may
            raise TokenError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_may_renew(token, principal)
        lasts_ms = self._lasts_ms if period_ms <= 0 else min(self._lasts_ms, period_ms)
        return self._expires(token, min(token.ends_ms, now_ms + lasts_ms))

    def expire(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> tuple[int, Write]:
        """Decide when a token expires; with a negative period it is gone at once.

        Raises:
            TokenError: see `renew`.
        """
        token = self._named(secret)
        _check_may_renew(token, principal)
        if period_ms < 0:
            return now_ms, self._change(token.token_id, None)
        if token.has_expired(now_ms):
            raise TokenError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return self._expires(token, min(token.ends_ms, now_ms + period_ms))

    def sweep(self, now_ms: int) -> Write | None:
        """Decide that tokens that have expired are gone; None where there are none."""
        gone = [token.token_id for token in self._latest() if token.has_expired(now_ms)]
        if not gone:
            return None
        for token_id in gone:
            self._coming.add(token_id, None)
        return Write("", tuple(_record(token_id, None) for token_id in gone))

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise TokenError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _latest(self) -> list[DelegationToken]:
        """The tokens as they will be when all that is on its way is durable."""
        return [token for token in self._coming.all_latest(self._tokens).values() if token is not None]

    def _named(self, secret: bytes) -> DelegationToken:
        self._check_enabled()
        token_id = self._ids.get(secret, "")
        token = self._coming.latest(token_id, self._tokens.get(token_id))
        if token is None:
            raise TokenError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def _expires(self, token: DelegationToken, expires_ms: int) -> tuple[int, Write]:
        return expires_ms, self._change(token.token_id, attrs.evolve(token, expires_ms=expires_ms))

    def _change(self, token_id: str, token: DelegationToken | None) -> Write:
        self._coming.add(token_id, token)
        return Write("", (_record(token_id, token),))

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptStateRecordError: it cannot be read.
        """
        if record_type(key) != RecordType.DELEGATION_TOKEN:
            return
        token_id, token = read_token(key, value)
        if token is None:
            self._tokens.pop(token_id, None)
            self._ids.pop(self.secret(token_id), None)
            self._credentials.pop(token_id, None)
        else:
            self._tokens[token_id] = token
            self._ids[self.secret(token_id)] = token_id
        self._coming.settle(token_id)


def _check_may_renew(token: DelegationToken, principal: KafkaPrincipal) -> None:
    if not token.may_be_renewed_by(principal):
        raise TokenError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _record(token_id: str, token: DelegationToken | None) -> StateRecord:
    key = record_key(RecordType.DELEGATION_TOKEN, token_id)
    if token is None:
        return StateRecord(key, None)
    body = {
        "owner": _pair(token.owner),
        "requester": _pair(token.requester),
        "renewers": [_pair(each) for each in token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "ends_ms": token.ends_ms,
    }
    return StateRecord(key, record_value(json.dumps(body, sort_keys=True)))


def read_token(key: bytes, value: bytes | None) -> tuple[str, DelegationToken | None]:
    """Read the id of a token, and the token; raises CorruptStateRecordError."""
    token_id = text_subject_of(key)
    if value is None:
        return token_id, None
    with reading("delegation token"):
        body = object_of(value)
        owner, requester = (_principal(body[name]) for name in ("owner", "requester"))
        renewers = tuple(map(_principal, body["renewers"]))
        times = (integer_of(body[name], 0, INT64_MAX) for name in ("issued_ms", "expires_ms", "ends_ms"))
        return token_id, DelegationToken(token_id, owner, requester, renewers, *times)


def _principal(pair: list[Any]) -> KafkaPrincipal:
    kind, name = pair
    if not isinstance(kind, str) or not isinstance(name, str):
        raise TypeError("a principal that is no text")
    return KafkaPrincipal(kind, name)


def _pair(principal: KafkaPrincipal) -> list[str]:
    return [principal.type, principal.name]
