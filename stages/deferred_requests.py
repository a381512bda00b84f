"""Deferred requests: requests that were read but must wait for earlier ones of their connection."""

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
    """The deferred requests of one connection, and the mute that they cause.

    They wait for an unfinished request, or until the client has read responses (`stages.unsent_responses`). A handler
    of their queue starts them one at a time, in order, and before requests that were read after them.

    Args:
        unsent: keeps the requests.
        muting: mute of their connection.
        admission: knows the queue of their connection.
        resources: resources of the connection's processor.
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
        """Mute the connection if only a flush can start the deferred requests, not the end of an unfinished one."""
        if self._unsent.is_full and not self._unsent.unfinished and not self._may_start:
            self._muting.begin(MuteReason.UNSENT_BYTES)

    def begin_if_possible(self) -> None:
        """Make a handler start the deferred requests, unless one is already scheduled for that."""
        if self._unsent.is_full and not self._unsent.is_scheduled and self._may_start:
            self._begin()

    def _begin(self) -> None:
        first = self._unsent.first_waiting
        if first is None:
            self._unsent.emptied()
            self._muting.end(MuteReason.UNSENT_BYTES)
        else:
            # By a callback on the queue, so that a handler starts it in a turn like any other request.
            self._unsent.is_scheduled = True
            self._admission.queue.put_callback(first, None)

    def take(self) -> Request | None:
        """Return the next deferred request, or None if it must wait longer or none is left."""
        unsent = self._unsent
        unsent.is_scheduled = False
        if unsent.first_waiting is None:
            return None
        # The client, or others under the common bound, may have used up the room since the handler was scheduled.
        if not self._may_start:
            self._mute_without_room()
            return None
        request = unsent.take()
        self._begin()
        return request
