"""An object store that applies fault rules to another one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pipeline_broker.objects.store import ObjectStore
from pipeline_broker.objects.store_around import StoreAround, StoreRequest

if TYPE_CHECKING:
    from pipeline_broker.faults.store_faults import StoreFaults

__all__ = ["FaultyStore"]

_Answer = TypeVar("_Answer")


class FaultyStore(StoreAround):
    """A wrapper of a store that applies fault rules; without them, a request costs one flag test."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._is_active = False

    @functools.cached_property
    def rules(self) -> StoreFaults:
        from pipeline_broker.faults.store_faults import StoreFaults  # noqa: PLC0415 - imported with the first rule

        return StoreFaults(self._set_active)

    def _set_active(self, is_active: bool) -> None:
        self._is_active = is_active

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        return self.rules.ask(request, send) if self._is_active else send()
