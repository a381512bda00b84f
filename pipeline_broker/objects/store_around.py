"""A wrapper around an object store, the base of stores that delay, count or interrupt requests."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.store import Listed, ObjectStore, Part

__all__ = ["Operation", "StoreAround", "StoreRequest"]

_Answer = TypeVar("_Answer")


class Operation(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    UPLOAD = "upload"
    COPY = "copy"
    READ = "read"
    READ_END = "read_end"
    LIST = "list"
    DELETE = "delete"


class StoreRequest(NamedTuple):
    """One request to a store.

    Attributes:
        name: the name of the object, the first name of a `delete`, or the prefix of a `list`.
        sent_bytes: the size of the content that is written.
    """

    operation: Operation
    name: str
    sent_bytes: int = 0


class StoreAround:
    """A store that passes each request through `ask`, the one method that subclasses override."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        """Send a request at most once, in the caller's thread, and return the answer.

        Args:
            send: sends the request to the wrapped store and returns the answer.

        Raises:
            ObjectStoreError: the request failed, or may have been sent without a known answer.
        """
        del request
        return send()

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        request = StoreRequest(Operation.CREATE, name, sum(map(len, parts)))
        return self.ask(request, lambda: self._store.create(name, parts))

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        request = StoreRequest(Operation.REPLACE, name, sum(map(len, parts)))
        return self.ask(request, lambda: self._store.replace(name, parts, tag))

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        return self.ask(StoreRequest(Operation.READ, name), lambda: self._store.read(name, start, size_bytes))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self.ask(StoreRequest(Operation.READ_END, name), lambda: self._store.read_end(name, size_bytes))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        return self.ask(StoreRequest(Operation.LIST, prefix), lambda: self._store.list(prefix, after))

    def delete(self, names: Sequence[str]) -> None:
        request = StoreRequest(Operation.DELETE, names[0] if names else "")
        self.ask(request, lambda: self._store.delete(names))

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        request = StoreRequest(Operation.UPLOAD, name, sum(map(len, parts)))
        self.ask(request, lambda: self._store.upload(name, parts))

    def copy(self, source: str, name: str) -> None:
        self.ask(StoreRequest(Operation.COPY, name), lambda: self._store.copy(source, name))
