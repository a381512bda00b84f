"""The viewers of the request path, and the beat that sends them events every BEAT_SECONDS."""

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
"""Viewers who follow the request path at a time."""
VIEWER_EVENTS_MAX = 4


class TooManyViewersError(Exception):
    pass


@attrs.define(eq=False)
class _Viewer:
    kind: str
    events: trio.MemorySendChannel[bytes]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class Viewers:
    """The viewers of live views, who all receive the same events once per beat.

    Without viewers nothing is observed. Each viewer has a short queue; one whose queue is full is dropped, so it never
    delays the others.

    Args:
        begin: called when the first viewer arrives.
        end: called when the last viewer leaves.
        render: returns the events of a beat by kind, in steps. It receives the kinds that have viewers.
        rest: called once `watching_seconds` of a beat have passed, if that is less than the beat.
        beat: called at every beat before events are sent, even without viewers.
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
        """Register a viewer while the body runs, and yield its events.

        The body is cancelled if the viewer is too slow.

        Raises:
            TooManyViewersError: VIEWERS_MAX viewers are registered.
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
            # A full queue: the browser is too slow. It reconnects by itself.
            except trio.WouldBlock:
                self.dropped += 1
                viewer.scope.cancel()
            except trio.BrokenResourceError:  # the viewer is closing
                viewer.scope.cancel()


def limited_stream(viewers_max: int, reason: str) -> Callable[[RunEvents], EventStream]:
    """Return a factory of event streams that runs at most `viewers_max` at a time.

    Further streams end at once with an `end` event that has the reason.
    """
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
