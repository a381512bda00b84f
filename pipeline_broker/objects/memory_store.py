"""An object store in the memory of this process, for brokers without persistence, and for tests."""

import bisect
import threading
from collections.abc import Sequence

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.store import (
    DELETE_MAX,
    LIST_MAX,
    Changed,
    Exists,
    Listed,
    Missing,
    Part,
    checked_name,
    checked_prefix,
)

__all__ = ["MemoryStore"]


class MemoryStore:
    """A store that always answers: it never raises `Unavailable` or `Unsure`.

    One lock guards everything, so the store as a whole is linearizable. Contents are copied on write and never changed,
    so reads return them without a copy.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, str]] = {}  # content and tag
        self._names: list[str] = []  # in order
        self._writes = 0

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        content = b"".join(parts)
        with self._lock:
            if name in self._objects:
                raise Exists(name)
            return self._put(name, content)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        content = b"".join(parts)
        with self._lock:
            if self._objects.get(name, (b"", None))[1] != tag:
                raise Changed(name)
            return self._put(name, content)

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        content, tag = self._find(name)
        start = min(start, len(content))
        return Part(content[start : start + size_bytes], start, len(content), tag)

    def read_end(self, name: str, size_bytes: int) -> Part:
        content, tag = self._find(name)
        start = max(0, len(content) - size_bytes)
        return Part(content[start:], start, len(content), tag)

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        checked_prefix(prefix)
        with self._lock:
            # Names below a prefix are neighbours in `_names`. So one slice holds the page.
            first = max(bisect.bisect_left(self._names, prefix), bisect.bisect_right(self._names, after))
            page = [name for name in self._names[first : first + LIST_MAX] if name.startswith(prefix)]
            return [Listed(name, len(self._objects[name][0])) for name in page]

    def delete(self, names: Sequence[str]) -> None:
        assert len(names) <= DELETE_MAX
        with self._lock:
            for name in names:
                if self._objects.pop(name, None) is not None:
                    del self._names[bisect.bisect_left(self._names, name)]

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        with self._lock:
            self._put(name, content)

    def copy(self, source: str, name: str) -> None:
        content, _ = self._find(source)
        with self._lock:
            self._put(name, content)

    def _put(self, name: str, content: bytes) -> str:
        if name not in self._objects:
            bisect.insort(self._names, checked_name(name))
        self._writes += 1
        # A number per write, so that no tag repeats even if a content does.
        tag = str(self._writes)
        self._objects[name] = (content, tag)
        return tag

    def _find(self, name: str) -> tuple[bytes, str]:
        with self._lock:
            try:
                return self._objects[name]
            except KeyError:
                raise Missing(name) from None
