"""A store that is as far away as a bucket is: for experiments with one in memory or in a directory."""

import time
from collections.abc import Callable
from typing import TypeVar

from pipeline_broker.objects.store import ObjectStore
from pipeline_broker.objects.store_around import StoreAround, StoreRequest

__all__ = ["DelayedStore"]

_Answer = TypeVar("_Answer")


class DelayedStore(StoreAround):
    """See ObjectStore; each request takes so much longer, however many are under way.

    Args:
        store: answers.
        seconds: a request waits before it is sent.
        wait: waits so many seconds.
    """

    def __init__(self, store: ObjectStore, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        super().__init__(store)
        self._seconds, self._wait = seconds, wait

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        del request
        self._wait(self._seconds)
        return send()
