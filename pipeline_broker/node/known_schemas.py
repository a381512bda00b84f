"""The schemas that the validation of records knows: those of the broker's own registry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import trio

from pipeline_broker.log.errors import LogError

if TYPE_CHECKING:
    from pipeline_broker.schema_registry.state import RegistryState

__all__ = ["KnownSchemas"]

logger = logging.getLogger(__name__)


class Registry(Protocol):
    # A `node.schema_registry.SchemaRegistry`.

    @property
    def state(self) -> RegistryState: ...
    @property
    def is_current(self) -> bool: ...
    async def catch_up(self) -> None: ...


class KnownSchemas:
    """A view of a registry that implements `broker.registered_schemas.RegisteredSchemas`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._waiting: list[Callable[[], None]] = []  # one for each connection at most
        self._wanted = trio.lowlevel.ParkingLot()
        self._ids: dict[str, frozenset[int]] = {}  # of known subjects
        self._ids_of: tuple[object, int] = (None, 0)  # the state and its revision

    @property
    def is_current(self) -> bool:
        return self._registry.is_current

    def catch_up(self, then: Callable[[], None]) -> None:
        self._waiting.append(then)
        self._wanted.unpark_all()

    def ids(self, subject: str) -> frozenset[int]:
        state = self._registry.state
        if self._ids_of != (state, state.revision):
            self._ids_of = state, state.revision
            self._ids.clear()
        found = self._ids.get(subject)
        if found is None:
            versions = state.versions(state.alias_target(subject), with_deleted=True)
            found = frozenset(version.schema_id for version in versions)
            if found:
                self._ids[subject] = found
        return found

    async def run(self) -> None:
        """Read the registry's topic for records that wait, until cancelled."""
        while True:
            while not self._waiting:
                await self._wanted.park()
            waiting, self._waiting = self._waiting, []
            try:
                await self._registry.catch_up()
            except (OSError, LogError) as error:
                logger.warning("records are validated with the schemas that were read before: %s", error)
            for go_on in waiting:
                go_on()
