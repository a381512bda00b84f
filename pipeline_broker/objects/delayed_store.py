"""An object store with added latency, to measure with a local store as if it were a remote bucket."""

import time
from collections.abc import Callable
from typing import TypeVar

from pipeline_broker.objects.store import ObjectStore
from pipeline_broker.objects.store_around import StoreAround, StoreRequest

__all__ = ["DelayedStore"]

_Answer = TypeVar("_Answer")


class DelayedStore(StoreAround):
    """A store that delays every request. Concurrent requests are delayed independently.

    Args:
        seconds: the delay before each request.
        wait: blocks for the given number of seconds.
    """

    def __init__(self, store: ObjectStore, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        super().__init__(store)
        self._seconds, self._wait = seconds, wait

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        del request
        self._wait(self._seconds)
        return send()
