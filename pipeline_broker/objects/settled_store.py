"""An object store that knows what became of its writes, around one that may be unsure.

Rules of this file: it sends again until it knows. What a writing has met is never judged by its error, but by looking
at the object, because an answer may be lost after the store has done it, and a client or a store may repeat a request
by itself: then `Exists` and `Changed` are about the caller's own object. An object is the caller's own when it begins
with the same bytes and is as long. So these bytes must be unlike those of every other writing of the name: callers put
a nonce of their life and a place or a counter into the first `HEAD_BYTES`.

    sent        answer                        the object then             settled as
    create      ok                                                        stored
    create      Unavailable                                               sent again
    create      Exists, Unsure                own                         stored
                                              none                        sent again
                                              another                     Exists
    replace     ok                                                        stored
    replace     Unavailable                                               sent again
    replace     Changed, Unsure               own                         stored
                                              as before (the tag's)       sent again
                                              another, or none            Changed
    all others  Unavailable                                               sent again

Sending again is safe: an earlier copy that is applied late meets the condition of the later one, or the other way
round. Between two tries it waits from 50 ms to 2 s; how long in all, the caller's `pause` decides.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pipeline_broker.files.file_system import Buffer
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
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 2.0
BRIEF_SECONDS_MAX = 1.0

_Answer = TypeVar("_Answer")


class Pause(Protocol):
    """Waits between two tries, or gives up."""

    def __call__(self, seconds: float, error: ObjectStoreError) -> None:
        """Wait so long, or raise the error that the last try has met to give up; called from any thread."""


def pause_until(stopping: threading.Event) -> Pause:
    """Go on until the event is set, also in the middle of a wait."""

    def pause(seconds: float, error: ObjectStoreError) -> None:
        if stopping.wait(seconds):
            raise error

    return pause


def pause_briefly(seconds: float, error: ObjectStoreError) -> None:
    """Give up after five tries, which is when a second and a half was waited; for those who can do without.

    Where the broker ends they do without at once: a further try would not be sent.
    """
    if seconds > BRIEF_SECONDS_MAX or isinstance(error, Interrupted):
        raise error
    time.sleep(seconds)


class SettledStore:
    """See ObjectStore: `Unavailable` and `Unsure` are raised only when `pause` gives up.

    `Exists` and `Changed` then are about another's object. An own one that was replaced or deleted by another before it
    could be looked at counts as never written.

    Args:
        store: sends.
        pause: called between two tries.
    """

    def __init__(self, store: ObjectStore, pause: Pause) -> None:
        self._store = store
        self._pause = pause

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        tries = _Tries(self._pause)
        own = _Own(parts)
        while True:
            try:
                return self._store.create(name, parts)
            except Unavailable as error:
                met: ObjectStoreError = error
            except (Exists, Unsure) as error:
                met = error
                found = self._look(name)
                if found is not None:
                    if own.is_in(found):
                        return found.tag
                    raise Exists(name) from None
            tries.wait(met)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        tries = _Tries(self._pause)
        own = _Own(parts)
        while True:
            try:
                return self._store.replace(name, parts, tag)
            except Unavailable as error:
                met: ObjectStoreError = error
            except (Changed, Unsure) as error:
                met = error
                found = self._look(name)
                if found is not None and own.is_in(found):
                    return found.tag
                if found is None or found.tag != tag:
                    raise Changed(name) from None
            tries.wait(met)

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        return self._repeated(lambda: self._store.read(name, start, size_bytes))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._repeated(lambda: self._store.read_end(name, size_bytes))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        return self._repeated(lambda: self._store.list(prefix, after))

    def delete(self, names: Sequence[str]) -> None:
        self._repeated(lambda: self._store.delete(names))

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        self._repeated(lambda: self._store.upload(name, parts))

    def _look(self, name: str) -> Part | None:
        """The head of an object, None where there is none."""
        try:
            return self.read(name, 0, HEAD_BYTES)
        except Missing:
            return None

    def _repeated(self, send: Callable[[], _Answer]) -> _Answer:
        tries = _Tries(self._pause)
        while True:
            try:
                return send()
            except Unavailable as error:
                tries.wait(error)


class _Own:
    """How the caller's own object begins, and how long it is."""

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._size_bytes = sum(map(len, parts))
        head = b""
        for part in parts:
            head += bytes(part[: HEAD_BYTES - len(head)])
            if len(head) == HEAD_BYTES:
                break
        self._head = head

    def is_in(self, found: Part) -> bool:
        return found.size_bytes == self._size_bytes and found.data == self._head


class _Tries:
    """The waits of one call, each twice as long as the last."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._seconds = PAUSE_SECONDS_MIN

    def wait(self, error: ObjectStoreError) -> None:
        self._pause(self._seconds, error)
        self._seconds = min(2 * self._seconds, PAUSE_SECONDS_MAX)
