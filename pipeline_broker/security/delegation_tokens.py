"""Delegation tokens (KIP-48, KIP-373): secrets that act for their owners, as records of the metadata partition.

    key   = int16 type, then                            value = int16 version 0, then
    10 token        token id in UTF-8                   JSON {"owner", "requester": [type, name], "renewers": [[..]],
                                                              "issued_ms", "expires_ms", "ends_ms"}

The key types continue those of `state/metadata_records.py`. A tombstone removes a token. Times are milliseconds since
1970.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.base.error_code import ErrorCode, KafkaError
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
"""Unexpired tokens that one principal may have requested. Kafka has no bound."""
RENEWERS_MAX = 100
"""Renewers of one token."""


class TokenError(KafkaError):
    pass


@attrs.frozen
class DelegationToken:
    """A token without its secret.

    Attributes:
        token_id: its public name, which a client sends as its user name.
        owner: the principal for which it acts.
        requester: the principal that requested it.
        renewers: further principals that may renew and expire it.
        issued_ms, expires_ms: its validity, unless it is renewed.
        ends_ms: the latest expiry that renewals can reach.
    """

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """Return whether a principal is the owner, the requester or a renewer, and so may always see the token."""
        return principal in {self.owner, self.requester, *self.renewers}

    def may_be_renewed_by(self, principal: KafkaPrincipal) -> bool:
        return principal in {self.owner, *self.renewers}

    def has_expired(self, now_ms: int) -> bool:
        return now_ms > min(self.expires_ms, self.ends_ms)


@attrs.frozen(repr=False)
class TokenLogin:
    """The credential that a client with a token must prove, and the principal that it then has."""

    credential: ScramCredential
    owner: KafkaPrincipal
    expires_ms: int


class DelegationTokens(ReplayedWrites):
    """All delegation tokens of a cluster.

    The secret of a token is an HMAC of its id under `delegation.token.secret.key`. So no record contains it, and a
    different key invalidates all tokens. Decisions build on pending changes; a client can only log in with a durable
    token.

    Args:
        config: provides the key and the lifetimes.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._key = (config.delegation_token_secret_key or "").encode()
        self._lasts_ms = config.delegation_token_expiry_time_ms
        self._lasts_ms_max = config.delegation_token_max_lifetime_ms
        self._tokens: dict[str, DelegationToken] = {}
        self._pending: Decisions[str, DelegationToken | None] = Decisions()
        self._ids: dict[bytes, str] = {}  # by secret, by which clients name a token
        self._credentials: dict[str, dict[str, ScramCredential]] = {}  # by id and mechanism

    @property
    def is_enabled(self) -> bool:
        """True if the broker has a key, without which no token can exist."""
        return bool(self._key)

    # Queries

    def secret(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), _MAC)

    def login(self, mechanism: ScramMechanism, token_id: str, now_ms: int) -> TokenLogin | None:
        """Return the login of a valid token; None if the token is unknown or expired, or tokens are disabled."""
        token = self._tokens.get(token_id)
        if not self.is_enabled or token is None or token.has_expired(now_ms):
            return None
        credentials = self._credentials.setdefault(token_id, {})
        # Cached: a login would otherwise compute ITERATIONS_MIN hashes on the event loop.
        credential = credentials.get(mechanism.name)
        if credential is None:
            secret = self.secret(token_id)
            # Derived from the secret, so that the salt is the same after a restart.
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
        """Return the durable tokens that a principal may see.

        Args:
            asking: the principal.
            owners: only return tokens that one of these principals owns, requested or may renew; None for all.
            may_describe: whether the principal may see a token of others.
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
        """Create a token; return it and the write to append.

        `lifetime_ms` is cut to the maximum; 0 or less means the maximum.

        Raises:
            TokenError: tokens are disabled, the token has more than RENEWERS_MAX renewers, or its requester already has
                TOKENS_MAX unexpired tokens.
        """
        self._check_enabled()
        renewers = tuple(renewers)
        # Pending tokens count, or a client that pipelines its requests would exceed the bound.
        requested = (token for token in self._latest() if token.requester == requester)
        if len(renewers) > RENEWERS_MAX or sum(not token.has_expired(now_ms) for token in requested) >= TOKENS_MAX:
            raise TokenError(ErrorCode.POLICY_VIOLATION)
        longest_ms = self._lasts_ms_max if lifetime_ms <= 0 else min(self._lasts_ms_max, lifetime_ms)
        ends_ms = now_ms + longest_ms
        expires_ms = min(ends_ms, now_ms + self._lasts_ms)
        token = DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, ends_ms)
        # Set before the token is durable, so that later requests can already renew it.
        self._ids[self.secret(token_id)] = token_id
        return token, self._change(token_id, token)

    def renew(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> tuple[int, Write]:
        """Decide a new expiry of a token, `period_ms` from now; return the expiry and the write to append.

        The period is cut to the configured one; 0 or less means the configured one. The expiry never exceeds `ends_ms`.

        Raises:
            TokenError: tokens are disabled, the token is unknown or expired, or the principal may not renew it.
        """
        token = self._named(secret)
        if token.has_expired(now_ms):  # Kafka checks this before the principal here, and after it in `expire`
            raise TokenError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_may_renew(token, principal)
        lasts_ms = self._lasts_ms if period_ms <= 0 else min(self._lasts_ms, period_ms)
        return self._expires(token, min(token.ends_ms, now_ms + lasts_ms))

    def expire(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> tuple[int, Write]:
        """Decide a new expiry of a token, `period_ms` from now; return the expiry and the write to append.

        A negative period deletes the token at once, even an expired one. The expiry never exceeds `ends_ms`.

        Raises:
            TokenError: as in `renew`, unless the period is negative and the token has only expired.
        """
        token = self._named(secret)
        _check_may_renew(token, principal)
        if period_ms < 0:
            return now_ms, self._change(token.token_id, None)
        if token.has_expired(now_ms):
            raise TokenError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return self._expires(token, min(token.ends_ms, now_ms + period_ms))

    def sweep(self, now_ms: int) -> Write | None:
        """Decide to delete expired tokens; return the write to append, or None if no token has expired."""
        expired = [token.token_id for token in self._latest() if token.has_expired(now_ms)]
        if not expired:
            return None
        for token_id in expired:
            self._pending.add(token_id, None)
        return Write("", tuple(_record(token_id, None) for token_id in expired))

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise TokenError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _latest(self) -> list[DelegationToken]:
        return [token for token in self._pending.all_latest(self._tokens).values() if token is not None]

    def _named(self, secret: bytes) -> DelegationToken:
        self._check_enabled()
        token_id = self._ids.get(secret, "")
        token = self._pending.latest(token_id, self._tokens.get(token_id))
        if token is None:
            raise TokenError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def _expires(self, token: DelegationToken, expires_ms: int) -> tuple[int, Write]:
        return expires_ms, self._change(token.token_id, attrs.evolve(token, expires_ms=expires_ms))

    def _change(self, token_id: str, token: DelegationToken | None) -> Write:
        self._pending.add(token_id, token)
        return Write("", (_record(token_id, token),))

    def replay(self, key: bytes, value: bytes | None) -> None:
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
        self._pending.settle(token_id)


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
    """Return the id and the token of a record, None for a tombstone.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
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
        raise TypeError("a principal is not a string")
    return KafkaPrincipal(kind, name)


def _pair(principal: KafkaPrincipal) -> list[str]:
    return [principal.type, principal.name]
