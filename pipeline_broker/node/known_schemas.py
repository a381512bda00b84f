"""The schemas that the validation of records knows: those of the broker's own registry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import trio

from pipeline_broker.log.errors import LogError

if TYPE_CHECKING:
    from pipeline_broker.base.schema_id import MessagePath
    from pipeline_broker.schema_registry.state import RegistryState
    from pipeline_broker.schema_registry.values import Schema

__all__ = ["KnownSchemas"]

logger = logging.getLogger(__name__)

NAMED_SCHEMAS_MAX = 100
"""Schemas whose record names are kept."""


class Registry(Protocol):
    # A `node.schema_registry.SchemaRegistry`.

    @property
    def state(self) -> RegistryState: ...
    @property
    def is_current(self) -> bool: ...
    async def catch_up(self) -> None: ...
    async def record_names(self, schema: Schema) -> Mapping[MessagePath, str] | None: ...


class KnownSchemas:
    """A view of a registry that implements `broker.registered_schemas.RegisteredSchemas`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # One of both for each connection at most.
        self._waiting: list[Callable[[], None]] = []
        self._unnamed: list[tuple[int, Callable[[], None]]] = []
        self._wanted = trio.lowlevel.ParkingLot()
        self._ids: dict[str, frozenset[int]] = {}  # of known subjects
        self._ids_of: tuple[object, int] = (None, 0)  # the state and its revision
        self._names: dict[int, tuple[Schema, Mapping[MessagePath, str]]] = {}  # oldest first

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

    def record_names(self, schema_id: int) -> Mapping[MessagePath, str] | None:
        schema = self._registry.state.schema(schema_id)
        if schema is None:
            return {}
        of, names = self._names.get(schema_id, (None, None))
        return names if of is schema else None

    def read_record_names(self, schema_id: int, then: Callable[[], None]) -> None:
        self._unnamed.append((schema_id, then))
        self._wanted.unpark_all()

    async def run(self) -> None:
        """Read the registry's topic and the names of records for requests that wait, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._catch_up)
            while True:
                while not self._unnamed:
                    await self._wanted.park()
                unnamed, self._unnamed = self._unnamed, []
                for schema_id, go_on in unnamed:
                    # All at once: one slow schema must not delay the others.
                    nursery.start_soon(self._read_names, schema_id, go_on)

    async def _read_names(self, schema_id: int, go_on: Callable[[], None]) -> None:
        schema = self._registry.state.schema(schema_id)
        if schema is not None and self.record_names(schema_id) is None:
            names = await self._registry.record_names(schema)
            if names is not None:
                self._names.pop(schema_id, None)
                self._names[schema_id] = schema, names
                if len(self._names) > NAMED_SCHEMAS_MAX:
                    del self._names[next(iter(self._names))]
        go_on()

    async def _catch_up(self) -> None:
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
