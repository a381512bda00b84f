"""Lookup of the quota of a client: the most specific one applies, alone.

    level  quota set for                        measured together
    1      user, client id                      the client id of the user
    2      user, default client id              the client id of the user
    3      user                                 the user
    4      default user, client id              the client id of the user
    5      default user, default client id      the client id of the user
    6      default user                         the user
    7      client id                            the client id, of all users
    8      default client id                    the client id, of all users

The levels are Kafka's, in its order. A default limits each user or client id separately, not all of them together. A
client without an id has the empty one, for which only defaults can be set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pipeline_broker.quotas.entities import CLIENT_ID, USER, Entity

__all__ = ["Limit", "Limits", "Measured"]


class Measured(NamedTuple):
    """The user and client id that share a meter; None for a part that the quota does not depend on."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    """The rate that a quota allows, and the users and client ids that share it.

    Attributes:
        per_second: bytes, percent of one thread, or changed partitions, depending on the kind of quota.
    """

    measured: Measured
    per_second: float


Find: TypeAlias = Callable[[str, str], Entity]


class _Level(NamedTuple):
    """The entity to look up, and whether meters are separate by user and by client id."""

    entity_of: Find
    by_user: bool
    by_client_id: bool


# In Kafka's order of precedence.
LEVELS = (
    _Level(lambda user, client_id: ((CLIENT_ID, client_id), (USER, user)), by_user=True, by_client_id=True),
    _Level(lambda user, _: ((CLIENT_ID, None), (USER, user)), by_user=True, by_client_id=True),
    _Level(lambda user, _: ((USER, user),), by_user=True, by_client_id=False),
    _Level(lambda _, client_id: ((CLIENT_ID, client_id), (USER, None)), by_user=True, by_client_id=True),
    _Level(lambda *_: ((CLIENT_ID, None), (USER, None)), by_user=True, by_client_id=True),
    _Level(lambda *_: ((USER, None),), by_user=True, by_client_id=False),
    _Level(lambda _, client_id: ((CLIENT_ID, client_id),), by_user=False, by_client_id=True),
    _Level(lambda *_: ((CLIENT_ID, None),), by_user=False, by_client_id=True),
)


class Limits:
    """The quotas of one kind. An instance without quotas is false."""

    __slots__ = ("_levels", "_quotas")

    def __init__(self, quotas: Mapping[Entity, float]) -> None:
        self._quotas = dict(quotas)
        # Only levels with a quota are looked up for each request.
        shapes = set(map(_shape, quotas))
        self._levels = tuple(level for level in LEVELS if _shape(level.entity_of("user", "client")) in shapes)

    def __bool__(self) -> bool:
        return bool(self._levels)

    def find(self, user: str, client_id: str) -> Limit | None:
        for entity_of, by_user, by_client_id in self._levels:
            per_second = self._quotas.get(entity_of(user, client_id))
            if per_second is not None:
                return Limit(Measured(user if by_user else None, client_id if by_client_id else None), per_second)
        return None


def _shape(entity: Entity) -> tuple[tuple[str, bool], ...]:
    return tuple((kind, name is None) for kind, name in entity)
