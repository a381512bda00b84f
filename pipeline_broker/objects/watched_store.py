"""An object store that reports each finished request to an observer."""

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
    """The result of a request: done, the matching error of `store`, or `failed` for any other error."""

    DONE = "done"
    EXISTS = "exists"
    CHANGED = "changed"
    MISSING = "missing"
    UNAVAILABLE = "unavailable"
    UNSURE = "unsure"
    FAILED = "failed"

    @property
    def is_answer(self) -> bool:
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
    """A finished request.

    Attributes:
        operation, name, sent_bytes: see StoreRequest.
        received_bytes: size of the content that was read.
        began_ns, ended_ns: times on the machine's monotonic clock.
        reason: the text of the error; empty if it succeeded.
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
        """Number of requests that a provider bills.

        A multipart upload costs one per part, one to begin and one to complete it.
        """
        if self.operation is Operation.UPLOAD and self.sent_bytes > UPLOAD_PART_BYTES:
            return 2 + -(-self.sent_bytes // UPLOAD_PART_BYTES)
        return 1


class WatchedStore(StoreAround):
    """A store that reports its requests and changes nothing.

    Args:
        ended: called with each finished request, in the thread of its caller; must be fast and thread-safe.
    """

    def __init__(self, store: ObjectStore, ended: Callable[[EndedRequest], None]) -> None:
        super().__init__(store)
        self._ended = ended

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        began_ns = time.monotonic_ns()
        try:
            answer = send()
        except BaseException as error:
            # By exact type, so `Interrupted`, a subclass of `Unavailable`, counts as `failed`.
            outcome = _OUTCOMES.get(type(error), Outcome.FAILED)
            self._ended(EndedRequest(*request, 0, began_ns, time.monotonic_ns(), outcome, str(error)))
            raise
        received = len(answer.data) if isinstance(answer, Part) else 0
        self._ended(EndedRequest(*request, received, began_ns, time.monotonic_ns(), Outcome.DONE))
        return answer
