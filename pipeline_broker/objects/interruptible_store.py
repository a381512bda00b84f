"""An object store whose callers need not wait for it any more when the process ends.

Rules of this file: a client of a cloud waits up to half a minute for a request that nothing answers, and cannot be
stopped meanwhile. So each request is carried out in a thread of this file, and its caller waits for that, or for
`interrupt`. What was under way then may still be done. The threads are daemons, as many as there were requests at once,
and end with that, or with the store.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline_broker.objects.store import Interrupted, ObjectStore, Unsure
from pipeline_broker.objects.store_around import Operation, StoreAround, StoreRequest

__all__ = ["InterruptibleStore"]

CONDITIONAL = frozenset({Operation.CREATE, Operation.REPLACE})
"""Whether one of these was done can be told by what is there; the others may simply be asked again."""

_Answer = TypeVar("_Answer")


class _Waiting:
    """What one caller waits for."""

    def __init__(self, send: Callable[[], Any]) -> None:
        self.send = send
        self.ended = threading.Event()
        self.answer: Any = None
        self.error: BaseException | None = None
        self.is_answered = False

    def carry_out(self) -> None:
        try:
            self.answer = self.send()
        except BaseException as error:  # noqa: BLE001 - it is its caller's
            self.error = error
        self.is_answered = True
        self.ended.set()


class InterruptibleStore(StoreAround):
    """See ObjectStore.

    Args:
        store: sends.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self._is_interrupted = False
        self._under_way: set[_Waiting] = set()
        self._threads = 0
        self._requests: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        weakref.finalize(self, self._requests.put, None)

    def interrupt(self) -> None:
        """Have all that wait, and all that ask from here on, be told that nothing is known."""
        with self._lock:
            self._is_interrupted = True
            under_way = tuple(self._under_way)
        for request in under_way:
            request.ended.set()
        self._requests.put(None)

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        waiting = _Waiting(send)
        with self._lock:
            if self._is_interrupted:
                raise Interrupted("the broker ends, and asks the store no more")
            self._under_way.add(waiting)
            if len(self._under_way) > self._threads:
                self._threads += 1
                threading.Thread(target=_run, args=(self._requests,), name="object-store", daemon=True).start()
        self._requests.put(waiting)
        waiting.ended.wait()
        with self._lock:
            self._under_way.discard(waiting)
        if not waiting.is_answered:
            unknown = Unsure if request.operation in CONDITIONAL else Interrupted
            raise unknown("the broker ended before the store answered")
        if waiting.error is not None:
            raise waiting.error
        answer: _Answer = waiting.answer
        return answer


def _run(requests: "queue.SimpleQueue[_Waiting | None]") -> None:
    while (request := requests.get()) is not None:
        request.carry_out()
        del request  # it refers to the store, whose end ends this
    requests.put(None)  # for the next thread
