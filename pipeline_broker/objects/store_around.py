"""A store of objects around another one, that does something to each request.

Rules of this file: a request is sent to the inner store at most once, as `store.ObjectStore` says; what is done to it
beside that is in `ask`, the one method that a class of its own overrides.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.objects.store import Listed, ObjectStore, Part

__all__ = ["Operation", "StoreAround", "StoreRequest"]

_Answer = TypeVar("_Answer")


class Operation(StrEnum):
    """What a store is asked for: the methods of `ObjectStore`."""

    CREATE = "create"
    REPLACE = "replace"
    UPLOAD = "upload"
    READ = "read"
    READ_END = "read_end"
    LIST = "list"
    DELETE = "delete"


class StoreRequest(NamedTuple):
    """One request to a store.

    Attributes:
        name: of the object, the first one of several; of `list` the prefix.
        sent_bytes: of the content that is written.
    """

    operation: Operation
    name: str
    sent_bytes: int = 0


class StoreAround:
    """See ObjectStore, and the rules of the file.

    Args:
        store: the inner one.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        """Send a request, or not; called in the caller's thread.

        Args:
            request: what it is.
            send: to the inner store.
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
