"""An object store whose callers stop waiting for requests when the broker closes.

A cloud client waits up to half a minute for an answer and cannot be cancelled. So daemon threads of this module send
the requests, and callers wait for the answer or for `interrupt`.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline_broker.objects.store import Interrupted, ObjectStore, Unsure
from pipeline_broker.objects.store_around import Operation, StoreAround, StoreRequest

__all__ = ["InterruptibleStore"]

# An interrupted request of these leaves the caller unsure. All others may be repeated, whether they were done or not.
CONDITIONAL = frozenset({Operation.CREATE, Operation.REPLACE})

_Answer = TypeVar("_Answer")


class _PendingRequest:
    def __init__(self, send: Callable[[], Any]) -> None:
        self.send = send
        self.ended = threading.Event()
        self.answer: Any = None
        self.error: BaseException | None = None
        self.is_answered = False

    def run(self) -> None:
        try:
            self.answer = self.send()
        except BaseException as error:  # noqa: BLE001 - `ask` raises it in the caller's thread
            self.error = error
        self.is_answered = True
        self.ended.set()


class InterruptibleStore(StoreAround):
    """A store that can release its waiting callers. It uses at most one daemon thread per concurrent request."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self._is_interrupted = False
        self._in_flight: set[_PendingRequest] = set()
        self._threads = 0
        self._requests: queue.SimpleQueue[_PendingRequest | None] = queue.SimpleQueue()
        weakref.finalize(self, self._requests.put, None)

    def interrupt(self) -> None:
        """Release all waiting callers, and reject all later requests. A request that was sent may still be applied."""
        with self._lock:
            self._is_interrupted = True
            in_flight = tuple(self._in_flight)
        # `ended` without `is_answered` tells the caller that the result is unknown.
        for request in in_flight:
            request.ended.set()
        self._requests.put(None)

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        pending = _PendingRequest(send)
        with self._lock:
            if self._is_interrupted:
                raise Interrupted("the broker is closing and sends no more requests to the store")
            self._in_flight.add(pending)
            # A thread per concurrent request, so no request ever waits for the answer to another one.
            if len(self._in_flight) > self._threads:
                self._threads += 1
                threading.Thread(target=_run, args=(self._requests,), name="object-store", daemon=True).start()
        self._requests.put(pending)
        pending.ended.wait()
        with self._lock:
            self._in_flight.discard(pending)
        if not pending.is_answered:
            unknown = Unsure if request.operation in CONDITIONAL else Interrupted
            raise unknown("the broker closed before the store answered")
        if pending.error is not None:
            raise pending.error
        answer: _Answer = pending.answer
        return answer


def _run(requests: "queue.SimpleQueue[_PendingRequest | None]") -> None:
    while (request := requests.get()) is not None:
        request.run()
        # The request refers to the store. While the thread waits for the next one, a reference would keep the store
        # alive, and its finalizer would never end the threads.
        del request
    requests.put(None)  # one None ends all threads: each passes it on
