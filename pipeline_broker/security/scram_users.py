"""SCRAM users, as records of the metadata partition, and what an unknown user looks like.

    key   = int16 type, then                            value = int16 version 0, then
    5 SCRAM user    JSON [user name, mechanism]         JSON {"salt", "stored_key", "server_key": base64,
                                                              "iterations": n}
    5 decoy         JSON ["", ""]                       JSON {"key": base64}

Rules of this file: see `state/metadata_records.py`, whose key types these continue; a value of null means that the
credential is gone. A user that does not exist is shown a salt, made of its name and a key that is kept with the first
user, and the iterations that most users have, so that it looks the same each time and like any other. Decisions are
taken on what is on its way, users are known by what is durable. The answers to a change are Kafka's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)
from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.metadata_records import (
    RecordType,
    integer_of,
    json_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.security.delegation_tokens import DelegationTokens

__all__ = ["Deletion", "Refusal", "ScramUsers", "Upsertion", "read_credential"]

_DECOY_KEY_BYTES = 32
_SALT_BYTES = 26
"""Bytes of the salt that Kafka's own tools choose."""

_BY_NUMBER = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}
_Name = tuple[str, str]
"""A user and one mechanism."""
_DECOY: _Name = ("", "")


@attrs.frozen
class Deletion:
    """A credential that shall be gone; `mechanism` is the number in the request."""

    user: str
    mechanism: int


@attrs.frozen(repr=False)
class Upsertion:
    """A credential that shall be set."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@attrs.frozen
class Refusal:
    """Why nothing of one user is altered."""

    code: ErrorCode
    text: str


TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
NAMELESS = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN_MECHANISM = Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
TOO_FEW = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
TOO_MANY = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
NO_PASSWORD = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
NOBODY = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class ScramUsers(ReplayedWrites):
    """The credentials of all users.

    Args:
        tokens: those who come with a delegation token; None where there are none.
    """

    def __init__(self, tokens: DelegationTokens | None = None) -> None:
        self.tokens = tokens
        self._credentials: dict[_Name, ScramCredential] = {}
        self._coming: Decisions[_Name, ScramCredential | None] = Decisions()
        self._decoy_key = secrets.token_bytes(_DECOY_KEY_BYTES)
        self._decoy_written = False
        self._shapes: dict[str, Counter[tuple[int, int]]] = {}  # of the users of each mechanism

    # What mechanisms and handlers ask

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The credential of a user; of an unknown one, a credential that nobody can prove.

        The decoy is made in any case: a known user costs as much.
        """
        salt, iterations = self.parameters(mechanism, user)
        keys = self._derived("keys", mechanism, user, 2 * mechanism.hash_size)
        decoy = ScramCredential(salt, keys[: mechanism.hash_size], keys[mechanism.hash_size :], iterations)
        return self._credentials.get((user, mechanism.name), decoy)

    def parameters(self, mechanism: ScramMechanism, user: str) -> tuple[bytes, int]:
        """The salt and the iterations of a user who has no record."""
        shapes = self._shapes.get(mechanism.name)
        salt_bytes, iterations = shapes.most_common(1)[0][0] if shapes else (_SALT_BYTES, ITERATIONS_MIN)
        return self._derived("salt", mechanism, user, salt_bytes), iterations

    def users(self) -> list[str]:
        """All users, by name."""
        return sorted({user for user, _ in self._credentials})

    def iterations(self, user: str) -> list[tuple[ScramMechanism, int]]:
        """The mechanisms of a user, each with its iterations; none for an unknown user."""
        found = ((mechanism, self._credentials.get((user, mechanism.name))) for mechanism in _BY_NUMBER.values())
        return [(mechanism, credential.iterations) for mechanism, credential in found if credential is not None]

    # Changes

    def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
    ) -> tuple[dict[str, Refusal | None], Write | None]:
        """Decide what becomes of each user: refused, or as asked for when the write is durable."""
        answers: dict[str, Refusal | None] = {}
        accepted: dict[str, Deletion | Upsertion] = {}
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        for change in changes:
            if change.user in accepted:
                answers[change.user] = TWICE
                del accepted[change.user]
            elif change.user not in answers:
                answers[change.user] = self._refusal(change)
                if answers[change.user] is None:
                    accepted[change.user] = change
        if not accepted:
            return answers, None
        return answers, Write("", tuple(self._records(list(accepted.values()))))

    def _refusal(self, change: Deletion | Upsertion) -> Refusal | None:
        if not change.user:
            return NAMELESS
        mechanism = _BY_NUMBER.get(change.mechanism)
        if mechanism is None:
            return UNKNOWN_MECHANISM
        if isinstance(change, Deletion):
            name = (change.user, mechanism.name)
            return None if self._coming.latest(name, self._credentials.get(name)) else NOBODY
        if change.iterations < ITERATIONS_MIN:
            return TOO_FEW
        if change.iterations > ITERATIONS_MAX:
            return TOO_MANY
        return None if change.salted_password else NO_PASSWORD

    def _records(self, changes: Sequence[Deletion | Upsertion]) -> Iterable[StateRecord]:
        if not self._decoy_written and any(isinstance(change, Upsertion) for change in changes):
            self._decoy_written = True
            yield StateRecord(_key(_DECOY), record_value(json.dumps({"key": _to_text(self._decoy_key)})))
        for change in changes:
            mechanism = _BY_NUMBER[change.mechanism]
            name = (change.user, mechanism.name)
            if isinstance(change, Deletion):
                self._coming.add(name, None)
                yield StateRecord(_key(name), None)
            else:
                credential = ScramCredential.of(mechanism, change.salt, change.iterations, change.salted_password)
                self._coming.add(name, credential)
                yield StateRecord(_key(name), _value(credential))

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptStateRecordError: it cannot be read; the error shows nothing of its value.
        """
        if record_type(key) != RecordType.SCRAM_USER:
            return
        name, credential = read_credential(key, value)
        if isinstance(credential, bytes):
            self._decoy_key, self._decoy_written = credential, True
        else:
            self._show(name, credential)

    def _show(self, name: _Name, credential: ScramCredential | None) -> None:
        before = self._credentials.pop(name, None)
        shapes = self._shapes.setdefault(name[1], Counter())
        if before is not None:
            shapes[before.shape] -= 1
            if not shapes[before.shape]:
                del shapes[before.shape]
        if credential is not None:
            self._credentials[name] = credential
            shapes[credential.shape] += 1
        self._coming.settle(name)

    def _derived(self, label: str, mechanism: ScramMechanism, user: str, size_bytes: int) -> bytes:
        text = json.dumps([label, mechanism.name, user]).encode()
        return hashlib.shake_256(self._decoy_key + text).digest(size_bytes)


def _key(name: _Name) -> bytes:
    return record_key(RecordType.SCRAM_USER, json.dumps(list(name)))


def _value(credential: ScramCredential) -> bytes:
    body = {
        "salt": _to_text(credential.salt),
        "stored_key": _to_text(credential.stored_key),
        "server_key": _to_text(credential.server_key),
        "iterations": credential.iterations,
    }
    return record_value(json.dumps(body, sort_keys=True))


def read_credential(key: bytes, value: bytes | None) -> tuple[_Name, ScramCredential | bytes | None]:
    """Read whose credential a record holds, and the credential: bytes for the key of those that nobody has.

    Raises:
        CorruptStateRecordError: it cannot be read; the error shows nothing of its value.
    """
    with reading("SCRAM record"):
        user, mechanism = json_of(subject_of(key))
        if not isinstance(user, str) or not isinstance(mechanism, str):
            raise TypeError("a user or a mechanism that is no text")
        name = (user, mechanism)
        if name == _DECOY:
            return name, base64.b64decode(object_of(value)["key"])
        if value is None:
            return name, None
        if mechanism not in SCRAM_MECHANISMS:
            raise ValueError("a mechanism that is not known")
        body = object_of(value)
        salt, stored_key, server_key = (base64.b64decode(body[part]) for part in ("salt", "stored_key", "server_key"))
        iterations = integer_of(body["iterations"], 1, ITERATIONS_MAX)
    return name, ScramCredential(salt, stored_key, server_key, iterations)


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
