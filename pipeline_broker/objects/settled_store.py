"""An object store that retries until it knows the result of each request.

The error of a write never decides. An answer may be lost after the store has applied the request, and an HTTP client or
a store may repeat a request by itself. Then `Exists` and `Changed` are about the caller's own object. So the store
reads the object, and compares its first `HEAD_BYTES` bytes and its size. Callers must make these bytes unique
among all writes of the name. They put a nonce of the process and a slot or a counter there.

    sent        answer                        the object then             result
    create      ok                                                        stored
    create      Unavailable                                               sent again
    create      Exists, Unsure                own                         stored
                                              missing                     sent again
                                              another                     Exists
    replace     ok                                                        stored
    replace     Unavailable                                               sent again
    replace     Changed, Unsure               own                         stored
                                              unchanged (the old tag)     sent again
                                              another, or missing         Changed
    all others  Unavailable                                               sent again

Sending again is safe: if an earlier copy is applied late, the condition of one of the copies fails. The pause between
two tries grows from 50 ms to 2 s. The caller's `Pause` decides when to give up.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.store import (
    Changed,
    Exists,
    Interrupted,
    Listed,
    Missing,
    ObjectStore,
    ObjectStoreError,
    Part,
    Unavailable,
    Unsure,
)

__all__ = ["HEAD_BYTES", "PAUSE_SECONDS_MIN", "Pause", "SettledStore", "pause_briefly", "pause_until"]

HEAD_BYTES = 64
"""Start of a content that must differ from every other content written under the name."""
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 2.0
BRIEF_SECONDS_MAX = 1.0

_Answer = TypeVar("_Answer")


class Pause(Protocol):
    def __call__(self, seconds: float, error: ObjectStoreError) -> None:
        """Wait for `seconds`, or raise `error`, the error of the last try, to give up. Called from any thread."""


def pause_until(stopping: threading.Event) -> Pause:
    """Return a pause that retries until the event is set; setting it also ends a wait."""

    def pause(seconds: float, error: ObjectStoreError) -> None:
        if stopping.wait(seconds):
            raise error

    return pause


def pause_briefly(seconds: float, error: ObjectStoreError) -> None:
    """Give up after six tries and about 1.5 s of pauses; for callers that can do without the answer.

    Raises:
        ObjectStoreError: the pauses are used up, or the broker is closing; the exception is `error`.
    """
    # A closing broker sends nothing more, so after `Interrupted` another try is useless.
    if seconds > BRIEF_SECONDS_MAX or isinstance(error, Interrupted):
        raise error
    time.sleep(seconds)


class SettledStore:
    """A store that raises `Unavailable` and `Unsure` only when `pause` gives up.

    `Exists` and `Changed` are then about another writer's object. The caller's own object, if another writer replaced
    or deleted it before it could be read, counts as never written.

    Args:
        pause: called between two tries.
    """

    def __init__(self, store: ObjectStore, pause: Pause) -> None:
        self._store = store
        self._pause = pause

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        backoff = _Backoff(self._pause)
        own = _OwnContent(parts)
        while True:
            try:
                return self._store.create(name, parts)
            except Unavailable as error:
                met: ObjectStoreError = error
            except (Exists, Unsure) as error:
                met = error
                # `Exists` may be the answer to a repeated copy of this request. Only the content tells.
                found = self._read_head(name)
                if found is not None:
                    if own.matches(found):
                        return found.tag
                    raise Exists(name) from None
            backoff.wait(met)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        backoff = _Backoff(self._pause)
        own = _OwnContent(parts)
        while True:
            try:
                return self._store.replace(name, parts, tag)
            except Unavailable as error:
                met: ObjectStoreError = error
            except (Changed, Unsure) as error:
                met = error
                found = self._read_head(name)
                if found is not None and own.matches(found):
                    return found.tag
                # With the old tag, no copy of the request has been applied yet: send it again.
                if found is None or found.tag != tag:
                    raise Changed(name) from None
            backoff.wait(met)

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        return self._retried(lambda: self._store.read(name, start, size_bytes))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._retried(lambda: self._store.read_end(name, size_bytes))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        return self._retried(lambda: self._store.list(prefix, after))

    def delete(self, names: Sequence[str]) -> None:
        self._retried(lambda: self._store.delete(names))

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        self._retried(lambda: self._store.upload(name, parts))

    def copy(self, source: str, name: str) -> None:
        self._retried(lambda: self._store.copy(source, name))

    def _read_head(self, name: str) -> Part | None:
        try:
            return self.read(name, 0, HEAD_BYTES)
        except Missing:
            return None

    def _retried(self, send: Callable[[], _Answer]) -> _Answer:
        backoff = _Backoff(self._pause)
        while True:
            try:
                return send()
            except Unavailable as error:
                backoff.wait(error)


class _OwnContent:
    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._size_bytes = sum(map(len, parts))
        head = b""
        # Copies only the head: contents may have megabytes.
        for part in parts:
            head += bytes(part[: HEAD_BYTES - len(head)])
            if len(head) == HEAD_BYTES:
                break
        self._head = head

    def matches(self, found: Part) -> bool:
        return found.size_bytes == self._size_bytes and found.data == self._head


class _Backoff:
    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._seconds = PAUSE_SECONDS_MIN

    def wait(self, error: ObjectStoreError) -> None:
        self._pause(self._seconds, error)
        self._seconds = min(2 * self._seconds, PAUSE_SECONDS_MAX)
