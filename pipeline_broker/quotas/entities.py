"""Entities of quotas (users, client ids, addresses), the keys that each may have, and Kafka's validation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pipeline_broker.base.addresses import normal_address
from pipeline_broker.base.error_code import ErrorCode

__all__ = [
    "CLIENT_ID",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "IP",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "USER",
    "Entity",
    "QuotaError",
    "altered",
    "check_entity",
    "entity_of",
    "normal_ip",
]

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, sorted by type. The name None is the default: it applies to names without their own quota."""

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

LONG_MAX = 2.0**63
INT_MAX = 2.0**31 - 1
WHOLE_TOLERANCE = 1e-6

CLIENT_KEYS: Mapping[str, float | None] = {
    PRODUCER_BYTE_RATE: LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Keys for users and client ids, with the largest value of whole numbers; None allows any number."""
IP_KEYS: Mapping[str, float | None] = {CONNECTION_CREATION_RATE: INT_MAX}
LOCALHOST = "localhost"


class QuotaError(Exception):
    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return an entity from its parts; of two parts of one type, the later one counts."""
    return tuple(sorted(dict(parts).items()))


def check_entity(entity: Entity) -> Mapping[str, float | None]:
    """Return the keys that an entity may have, with their largest values; None allows any number.

    Raises:
        QuotaError: the entity is empty, has an unknown type or an empty name, combines an address with other types, or
            its address is malformed.
    """
    types = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in {USER, CLIENT_ID, IP}:
            raise QuotaError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaError(f"Empty {kind} not supported")
    if not types:
        raise QuotaError("Invalid empty client quota entity")
    if IP not in types:
        return CLIENT_KEYS
    if len(types) > 1:
        raise QuotaError("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    name = dict(entity)[IP]
    if name is not None and normal_ip(name) is None:
        raise QuotaError(f"{name} is not a valid IP or resolvable host.")
    return IP_KEYS


def normal_ip(name: str) -> str | None:
    """Return an address in the form in which connections show it; None for other names.

    The name `localhost` counts as 127.0.0.1.
    """
    # Host names are not resolved, unlike in Kafka: waiting for a name server would block the event loop.
    return "127.0.0.1" if name == LOCALHOST else normal_address(name)


def altered(
    entity: Entity, before: Mapping[str, float], operations: Iterable[tuple[str, float | None]]
) -> dict[str, float]:
    """Return the quotas of an entity after operations.

    Args:
        before: its present quotas.
        operations: pairs of key and value; the value None removes the key.

    Raises:
        QuotaError: the entity is invalid, or an operation sets a key or a value that the entity may not have.
    """
    keys = check_entity(entity)
    after = dict(before)
    for key, value in operations:
        if value is None:
            after.pop(key, None)
        else:
            _check_value(keys, key, value)
            after[key] = value
    return after


def _check_value(keys: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in keys:
        raise QuotaError(f"Invalid configuration key {key}")
    if not value > 0:
        raise QuotaError(f"Quota {key} must be greater than 0")
    if math.isinf(value):
        raise QuotaError(f"Quota {key} must be a finite number")
    largest = keys[key]
    if largest is None:
        return
    if value > largest:
        raise QuotaError(f"Proposed value for {key} is too large for {'an INT' if largest == INT_MAX else 'a LONG'}.")
    if abs(value % 1.0) > WHOLE_TOLERANCE:
        raise QuotaError(f"{key} cannot be a fractional value.")
