"""The requests of one connection that were read and could not be started: when they are, and when it is read on.

Rules of this room: they wait for an unfinished request of their connection, or until its client has taken responses
(`stages.unsent_responses`). They are started one at a time, in their order, by a handler of their queue, and before
what was read after them.
"""

from __future__ import annotations

from collections.abc import Callable

from stages.admission import Admission
from stages.connection_resources import ConnectionResources
from stages.mute import MuteReason
from stages.muting import Muting
from stages.request import Request
from stages.unsent_responses import UnsentResponses

__all__ = ["DeferredRequests"]


class DeferredRequests:
    """See the rules of the room.

    Args:
        unsent: keeps the requests.
        muting: the mute of their connection.
        admission: knows the queue of their connection.
        resources: what the connections of its processor share.
    """

    __slots__ = ("_admission", "_muting", "_resources", "_unsent")

    def __init__(
        self, unsent: UnsentResponses, muting: Muting, admission: Admission, resources: ConnectionResources
    ) -> None:
        self._unsent = unsent
        self._muting = muting
        self._admission = admission
        self._resources = resources

    @property
    def _may_start(self) -> bool:
        return self._unsent.has_room(self._resources.limits.unsent_bytes_max)

    def end_work(self, abandon: Callable[[], None]) -> None:
        self._unsent.end_work(abandon)
        self._mute_without_room()
        self.begin_if_possible()

    def _mute_without_room(self) -> None:
        """Have the flush that makes room start what waits, unless the end of an unfinished request does."""
        if self._unsent.is_full and not self._unsent.unfinished and not self._may_start:
            self._muting.begin(MuteReason.UNSENT_BYTES)

    def begin_if_possible(self) -> None:
        """Have a handler start what waits, unless one is about to."""
        if self._unsent.is_full and not self._unsent.is_called and self._may_start:
            self._begin()

    def _begin(self) -> None:
        first = self._unsent.first_waiting
        if first is None:
            self._unsent.emptied()
            self._muting.end(MuteReason.UNSENT_BYTES)
        else:
            self._unsent.is_called = True
            self._admission.queue.put_callback(first, None)

    def take(self) -> Request | None:
        """The next request that waited; None when it must wait longer, or there is none."""
        unsent = self._unsent
        unsent.is_called = False
        if unsent.first_waiting is None:
            return None
        if not self._may_start:
            self._mute_without_room()
            return None
        request = unsent.take()
        self._begin()
        return request
