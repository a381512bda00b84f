"""Who watches the request path, and the beat at which they are told.

Rules of this file: while nobody watches nothing is observed, and a beat costs the one task that takes note of what is
counted anyway. One snapshot a beat is made for all viewers of a kind; each has a short queue, and one whose queue is
full is dropped: it never makes another wait, and nothing is kept for it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import attrs
import trio

from pipeline_broker.web.messages import EventStream, RunEvents, SendEvent, event
from pipeline_broker.web.turns import Steps, in_turns

__all__ = ["BEAT_SECONDS", "TooManyViewersError", "Viewers", "limited_stream"]

logger = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
VIEWERS_MAX = 16
VIEWER_EVENTS_MAX = 4
"""Events that may wait for one viewer."""


class TooManyViewersError(Exception):
    """There are as many viewers as may be."""


@attrs.define(eq=False)
class _Viewer:
    kind: str
    events: trio.MemorySendChannel[bytes]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class Viewers:
    """See the rules of the file.

    Args:
        begin: called when the first viewer comes.
        end: called when the last one has left.
        render: the events of a beat by kind, made once for all, in steps; given the kinds that have viewers.
        rest: called after `watching_seconds` of a beat, if that is less than a beat, until whose end nobody looks.
        beat: called at every beat, before viewers are told, whether or not there are any.
    """

    def __init__(
        self,
        begin: Callable[[], None],
        end: Callable[[], None],
        render: Callable[[frozenset[str]], Steps[Mapping[str, bytes]]],
        rest: Callable[[], None] = lambda: None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._begin, self._end, self._render, self._rest, self._beat = begin, end, render, rest, beat
        self.watching_seconds = BEAT_SECONDS
        self._viewers: set[_Viewer] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._viewers)

    @contextlib.asynccontextmanager
    async def watching(self, kind: str) -> AsyncIterator[trio.MemoryReceiveChannel[bytes]]:
        """The events of a kind while the body runs; the body is cancelled when it is too slow.

        Raises:
            TooManyViewersError: see there.
        """
        if len(self._viewers) >= VIEWERS_MAX:
            raise TooManyViewersError
        sender, receiver = trio.open_memory_channel[bytes](VIEWER_EVENTS_MAX)
        viewer = _Viewer(kind, sender)
        if not self._viewers:
            self._begin()
        self._viewers.add(viewer)
        try:
            with viewer.scope:
                yield receiver
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._end()

    async def run(self) -> None:
        """Tell the viewers what happened, a beat after the other, until cancelled."""
        while True:
            began, watching_seconds = trio.current_time(), self.watching_seconds
            await trio.sleep(min(watching_seconds, BEAT_SECONDS))
            if watching_seconds < BEAT_SECONDS and self._viewers:
                self._rest()
            await trio.sleep_until(began + BEAT_SECONDS)
            await self._tell()

    async def _tell(self) -> None:
        viewers = tuple(self._viewers)
        try:
            self._beat()
            events = await in_turns(self._render(frozenset(viewer.kind for viewer in viewers))) if viewers else {}
        except Exception:
            logger.exception("the dashboard could not show the request path")
            return
        self._publish(viewers, events)

    def _publish(self, viewers: Iterable[_Viewer], events: Mapping[str, bytes]) -> None:
        for viewer in viewers:
            try:
                viewer.events.send_nowait(events[viewer.kind])
            except trio.WouldBlock:
                self.dropped += 1
                viewer.scope.cancel()
            except trio.BrokenResourceError:  # it is leaving
                viewer.scope.cancel()


def limited_stream(viewers_max: int, reason: str) -> Callable[[RunEvents], EventStream]:
    """What makes streams of events of which only so many run at a time; others end with the reason."""
    running = 0

    def make(run: RunEvents) -> EventStream:
        async def run_limited(send: SendEvent) -> None:
            nonlocal running
            if running >= viewers_max:
                await send(event({"reason": reason}, "end"))
                return
            running += 1
            try:
                await run(send)
            finally:
                running -= 1

        return EventStream(run_limited)

    return make
