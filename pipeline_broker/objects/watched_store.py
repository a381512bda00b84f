"""A store whose requests are told to an observer when they have ended.

Rules of this file: it changes nothing. An observer is called by the thread that has asked, and must be quick and for
any thread.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, TypeVar

from pipeline_broker.objects.store import (
    UPLOAD_PART_BYTES,
    Changed,
    Exists,
    Missing,
    ObjectStore,
    Part,
    Unavailable,
    Unsure,
)
from pipeline_broker.objects.store_around import Operation, StoreAround, StoreRequest

__all__ = ["EndedRequest", "Outcome", "WatchedStore"]

_Answer = TypeVar("_Answer")


class Outcome(StrEnum):
    """What became of a request: done, or the error of `store.py`; `failed` is any other."""

    DONE = "done"
    EXISTS = "exists"
    CHANGED = "changed"
    MISSING = "missing"
    UNAVAILABLE = "unavailable"
    UNSURE = "unsure"
    FAILED = "failed"

    @property
    def is_answer(self) -> bool:
        """Whether the store has said how things are."""
        return self in _ANSWERS


_ANSWERS = frozenset({Outcome.DONE, Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING})
_OUTCOMES: dict[type[BaseException], Outcome] = {
    Exists: Outcome.EXISTS,
    Changed: Outcome.CHANGED,
    Missing: Outcome.MISSING,
    Unavailable: Outcome.UNAVAILABLE,
    Unsure: Outcome.UNSURE,
}


class EndedRequest(NamedTuple):
    """A request with what became of it.

    Attributes:
        operation, name, sent_bytes: see StoreRequest.
        received_bytes: of an object's content.
        began_ns, ended_ns: on the machine's monotonic clock.
        reason: the text of an error; else empty.
    """

    operation: Operation
    name: str
    sent_bytes: int
    received_bytes: int
    began_ns: int
    ended_ns: int
    outcome: Outcome
    reason: str = ""

    @property
    def requests(self) -> int:
        """How many requests a bill has for it; an upload in parts has one before these and one behind."""
        if self.operation is Operation.UPLOAD and self.sent_bytes > UPLOAD_PART_BYTES:
            return 2 + -(-self.sent_bytes // UPLOAD_PART_BYTES)
        return 1


class WatchedStore(StoreAround):
    """See ObjectStore, and the rules of the file.

    Args:
        store: does it.
        ended: called with each request.
    """

    def __init__(self, store: ObjectStore, ended: Callable[[EndedRequest], None]) -> None:
        super().__init__(store)
        self._ended = ended

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        began_ns = time.monotonic_ns()
        try:
            answer = send()
        except BaseException as error:
            outcome = _OUTCOMES.get(type(error), Outcome.FAILED)
            self._ended(EndedRequest(*request, 0, began_ns, time.monotonic_ns(), outcome, str(error)))
            raise
        received = len(answer.data) if isinstance(answer, Part) else 0
        self._ended(EndedRequest(*request, received, began_ns, time.monotonic_ns(), Outcome.DONE))
        return answer
