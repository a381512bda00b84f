"""An object store whose callers need not wait for it any more when the process ends.

Rules of this file: a client of a cloud waits up to half a minute for a request that nothing answers, and cannot be
stopped meanwhile. So each request is carried out in a thread of this file, and its caller waits for that, or for
`interrupt`. What was under way then may still be done. The threads are daemons, as many as there were requests at once,
and end with that, or with the store.
"""

import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.objects.store import Listed, ObjectStore, ObjectStoreError, Part, Unavailable, Unsure

__all__ = ["InterruptibleStore"]

_Answer = TypeVar("_Answer")


class _Request:
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


class InterruptibleStore:
    """See ObjectStore.

    Args:
        store: sends.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._is_interrupted = False
        self._under_way: set[_Request] = set()
        self._threads = 0
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        weakref.finalize(self, self._requests.put, None)

    def interrupt(self) -> None:
        """Have all that wait, and all that ask from here on, be told that nothing is known."""
        with self._lock:
            self._is_interrupted = True
            under_way = tuple(self._under_way)
        for request in under_way:
            request.ended.set()
        self._requests.put(None)

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        return self._ask(lambda: self._store.create(name, parts), Unsure)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        return self._ask(lambda: self._store.replace(name, parts, tag), Unsure)

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        return self._ask(lambda: self._store.read(name, start, size_bytes), Unavailable)

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._ask(lambda: self._store.read_end(name, size_bytes), Unavailable)

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        return self._ask(lambda: self._store.list(prefix, after), Unavailable)

    def delete(self, names: Sequence[str]) -> None:
        self._ask(lambda: self._store.delete(names), Unavailable)

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        self._ask(lambda: self._store.upload(name, parts), Unavailable)

    def _ask(self, send: Callable[[], _Answer], unknown: type[ObjectStoreError]) -> _Answer:
        request = _Request(send)
        with self._lock:
            if self._is_interrupted:
                raise Unavailable("the broker ends, and asks the store no more")
            self._under_way.add(request)
            if len(self._under_way) > self._threads:
                self._threads += 1
                threading.Thread(target=_run, args=(self._requests,), name="object-store", daemon=True).start()
        self._requests.put(request)
        request.ended.wait()
        with self._lock:
            self._under_way.discard(request)
        if not request.is_answered:
            raise unknown("the broker ended before the store answered")
        if request.error is not None:
            raise request.error
        answer: _Answer = request.answer
        return answer


def _run(requests: "queue.SimpleQueue[_Request | None]") -> None:
    while (request := requests.get()) is not None:
        request.carry_out()
        del request  # it refers to the store, whose end ends this
    requests.put(None)  # for the next thread
