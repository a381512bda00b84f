"""SCRAM users as records of the metadata partition, and the decoys that stand for unknown users.

    key   = int16 type, then                            value = int16 version 0, then
    5 SCRAM user    JSON [user name, mechanism]         JSON {"salt", "stored_key", "server_key": base64,
                                                              "iterations": n}
    5 decoy         JSON ["", ""]                       JSON {"key": base64}

The key types continue those of `state/metadata_records.py`. A tombstone removes a credential.
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

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
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

if TYPE_CHECKING:
    from pipeline_broker.security.delegation_tokens import DelegationTokens

__all__ = ["Deletion", "Refusal", "ScramUsers", "Upsertion", "read_credential"]

_DECOY_KEY_BYTES = 32

_BY_NUMBER = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}
# (user name, mechanism name).
_Name = tuple[str, str]
_DECOY: _Name = ("", "")


@attrs.frozen
class Deletion:
    user: str
    mechanism: int


@attrs.frozen(repr=False)
class Upsertion:
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@attrs.frozen
class Refusal:
    """The error for a user. No credential of the user is altered."""

    code: ErrorCode
    text: str


DUPLICATE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
EMPTY_NAME = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN_MECHANISM = Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
TOO_FEW = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
TOO_MANY = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
NO_PASSWORD = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
UNKNOWN_CREDENTIAL = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class ScramUsers(ReplayedWrites):
    """The credentials of all users.

    An unknown user gets a decoy: a salt derived from its name and a secret key, and the iterations of most users. So it
    looks the same each time, and like any other user. The key is stored with the first user.

    Decisions build on pending changes; clients are authenticated against durable credentials.

    Args:
        tokens: the delegation tokens, which log in by SCRAM; None if the broker has none.
    """

    def __init__(self, tokens: DelegationTokens | None = None) -> None:
        self.tokens = tokens
        self._credentials: dict[_Name, ScramCredential] = {}
        self._pending: Decisions[_Name, ScramCredential | None] = Decisions()
        self._decoy_key = secrets.token_bytes(_DECOY_KEY_BYTES)
        self._decoy_written = False
        self._shapes: dict[str, Counter[tuple[int, int]]] = {}  # of the users of each mechanism

    # Queries

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return the credential of a user; for an unknown user one that no client can prove."""
        # The decoy is computed for every user, so that known and unknown ones take the same time.
        salt, iterations = self.parameters(mechanism, user)
        keys = self._derived("keys", mechanism, user, 2 * mechanism.hash_size)
        decoy = ScramCredential(salt, keys[: mechanism.hash_size], keys[mechanism.hash_size :], iterations)
        return self._credentials.get((user, mechanism.name), decoy)

    def parameters(self, mechanism: ScramMechanism, user: str) -> tuple[bytes, int]:
        """Return the salt and the iterations of a user without a record."""
        shapes = self._shapes.get(mechanism.name)
        # Most users have this shape, so an unknown one does not stand out.
        salt_bytes, iterations = shapes.most_common(1)[0][0] if shapes else (SALT_BYTES, ITERATIONS_MIN)
        return self._derived("salt", mechanism, user, salt_bytes), iterations

    def users(self) -> list[str]:
        return sorted({user for user, _ in self._credentials})

    def iterations(self, user: str) -> list[tuple[ScramMechanism, int]]:
        """Return the mechanisms of a user with their iterations; empty for an unknown user."""
        found = ((mechanism, self._credentials.get((user, mechanism.name))) for mechanism in _BY_NUMBER.values())
        return [(mechanism, credential.iterations) for mechanism, credential in found if credential is not None]

    # Changes

    def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
    ) -> tuple[dict[str, Refusal | None], Write | None]:
        """Decide a request that alters credentials.

        Returns the refusal of each user, None for an accepted change, and the write of all accepted changes. The write
        is None if no change is accepted.
        """
        answers: dict[str, Refusal | None] = {}
        accepted: dict[str, Deletion | Upsertion] = {}
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        for change in changes:
            # As in Kafka, a user may occur only once in a request, even with different mechanisms.
            if change.user in accepted:
                answers[change.user] = DUPLICATE
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
            return EMPTY_NAME
        mechanism = _BY_NUMBER.get(change.mechanism)
        if mechanism is None:
            return UNKNOWN_MECHANISM
        if isinstance(change, Deletion):
            name = (change.user, mechanism.name)
            return None if self._pending.latest(name, self._credentials.get(name)) else UNKNOWN_CREDENTIAL
        if change.iterations < ITERATIONS_MIN:
            return TOO_FEW
        if change.iterations > ITERATIONS_MAX:
            return TOO_MANY
        return None if change.salted_password else NO_PASSWORD

    def _records(self, changes: Sequence[Deletion | Upsertion]) -> Iterable[StateRecord]:
        # Not at startup, so that a cluster without users has no records of users.
        if not self._decoy_written and any(isinstance(change, Upsertion) for change in changes):
            self._decoy_written = True
            yield StateRecord(_key(_DECOY), record_value(json.dumps({"key": _to_text(self._decoy_key)})))
        for change in changes:
            mechanism = _BY_NUMBER[change.mechanism]
            name = (change.user, mechanism.name)
            if isinstance(change, Deletion):
                self._pending.add(name, None)
                yield StateRecord(_key(name), None)
            else:
                credential = ScramCredential.of(mechanism, change.salt, change.iterations, change.salted_password)
                self._pending.add(name, credential)
                yield StateRecord(_key(name), _value(credential))

    def replay(self, key: bytes, value: bytes | None) -> None:
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
        self._pending.settle(name)

    def _derived(self, label: str, mechanism: ScramMechanism, user: str, size_bytes: int) -> bytes:
        # JSON separates the parts unambiguously.
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
    """Return the name and the credential of a record: bytes for the key of the decoys, None for a tombstone.

    Raises:
        CorruptStateRecordError: the record cannot be read. The error contains nothing of its value.
    """
    with reading("SCRAM record"):
        user, mechanism = json_of(subject_of(key))
        if not isinstance(user, str) or not isinstance(mechanism, str):
            raise TypeError("a user or a mechanism is not a string")
        name = (user, mechanism)
        if name == _DECOY:
            return name, base64.b64decode(object_of(value)["key"])
        if value is None:
            return name, None
        if mechanism not in SCRAM_MECHANISMS:
            raise ValueError("the mechanism is unknown")
        body = object_of(value)
        salt, stored_key, server_key = (base64.b64decode(body[part]) for part in ("salt", "stored_key", "server_key"))
        iterations = integer_of(body["iterations"], 1, ITERATIONS_MAX)
    return name, ScramCredential(salt, stored_key, server_key, iterations)


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
