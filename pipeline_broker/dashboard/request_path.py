"""Event streams of the live request paths of this broker and of the one with the second dashboard."""

from __future__ import annotations

import functools
import http
from collections.abc import Callable, Mapping
from typing import Any

import trio

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.dashboard import broker_view
from pipeline_broker.dashboard.beside import Beside, pass_on
from pipeline_broker.dashboard.history import History, counted
from pipeline_broker.dashboard.pipeline_view import PipelineView, request_events
from pipeline_broker.dashboard.viewers import BEAT_SECONDS, TooManyViewersError, Viewers, limited_stream
from pipeline_broker.dashboard.watched_pipeline import WatchedPipeline
from pipeline_broker.telemetry.recent_requests import RequestNames
from pipeline_broker.traces.stage_durations import PARTS
from pipeline_broker.web.messages import Answer, EventStream, SendEvent, event, event_steps, refusal
from pipeline_broker.web.turns import Steps
from stages.mute import MuteReason
from stages.socket_server import SocketServer
from stages.timeline import Timeline, now_ns

__all__ = ["RequestPath"]

BESIDE_VIEWERS_MAX = 8
# Above this many requests per second, only those of the first PART_SECONDS of each second are observed. Stamps of all
# would cost a twelfth of the throughput.
WATCHED_WHOLE_MAX = 2000.0
PART_SECONDS = 0.1
FULL = "the request path has its maximum number of viewers; close one of them"

API_NAMES = {int(key): served.name for key, served in SERVED.items()}
MUTE_REASONS = {int(reason): reason.name.lower().replace("_", " ") for reason in MuteReason}


class RequestPath:
    """The live request path of a broker.

    The server reports only while there are viewers. Counters that the server keeps anyway go to the history at every
    beat (see `Viewers`).

    Args:
        server: the server to observe.
        about: start options of its broker.
        beside: the dashboard of a second broker, if any.
        observe: starts reporting to a timeline, or stops it with None.
        is_alone: returns whether no other observer has a timeline. Only then does observing fewer requests save time.
        history: receives the counters at every beat.
        names_of: returns a function that reads the names in a completed request.
    """

    def __init__(
        self,
        server: SocketServer,
        about: broker_view.BrokerIdentity,
        beside: Beside | None,
        observe: Callable[[Timeline | None], None],
        is_alone: Callable[[], bool],
        history: History,
        names_of: Callable[[Any], Callable[[], RequestNames]],
    ) -> None:
        self._history, self._names_of = history, names_of
        self._server, self._observe, self._is_alone = server, observe, is_alone
        self._about = {"mode": about.mode, "flush": about.flush, "stages": PARTS}
        self._watched: WatchedPipeline | None = None
        self._view = PipelineView(API_NAMES, MUTE_REASONS)
        self._beside = beside
        self._limited = limited_stream(BESIDE_VIEWERS_MAX, FULL)
        self.viewers = Viewers(self._begin_watching, self._end_watching, self._render, self._rest, self._note)

    async def watch(self, kind: str) -> EventStream:
        """Return a stream of the events of a kind, `pipeline` or `requests`.

        If there are too many viewers, the stream ends at once with an `end` event.
        """

        async def run(send: SendEvent) -> None:
            try:
                async with self.viewers.watching(kind) as events:
                    if kind == "requests" and self._watched is not None:
                        self._watched.keeps_origins = True
                    if kind == "pipeline":
                        await send(event(self._history.path(trio.current_time()), "history"))
                    async for each in events:
                        await send(each)
            except TooManyViewersError:
                await send(event({"reason": FULL}, "end"))

        return EventStream(run)

    async def watch_beside(self) -> Answer | EventStream:
        if self._beside is None:
            return refusal(
                http.HTTPStatus.NOT_FOUND, "no second dashboard is configured; name one with --dashboard-beside"
            )
        return self._limited(functools.partial(pass_on, self._beside))

    def _note(self) -> None:
        self._history.add_counted(trio.current_time(), counted(self._server.statistics()))

    def _begin_watching(self) -> None:
        self._watched = WatchedPipeline(API_NAMES, now_ns(), self._names_of)
        self._view = PipelineView(API_NAMES, MUTE_REASONS)
        self._observe(self._watched)

    def _end_watching(self) -> None:
        self._watched = None
        self._observe(None)

    def _rest(self) -> None:
        if self._watched is not None and self._is_alone():
            self._watched.rest(now_ns())

    def _render(self, kinds: frozenset[str]) -> Steps[Mapping[str, bytes]]:
        assert self._watched is not None, "a viewer exists"
        interval = self._watched.take(now_ns())
        self._watched.keeps_origins = "requests" in kinds
        is_busy = interval.requests_per_second > WATCHED_WHOLE_MAX
        self.viewers.watching_seconds = PART_SECONDS if is_busy else BEAT_SECONDS
        shown: dict[str, Any] = yield from self._view.add(interval)
        events = {}
        if "pipeline" in kinds:
            standing = broker_view.standing(self._server)
            content = {"broker": self._about, "standing": standing, "beat": self._history.latest, **shown}
            events["pipeline"] = yield from event_steps(content, "pipeline")
        if "requests" in kinds:
            content = {
                "requests": (yield from request_events(interval, API_NAMES)),
                "count": sum(api.count for api in interval.apis),
                "watched": round(interval.watched, 2),
                "stages": PARTS,
            }
            events["requests"] = yield from event_steps(content, "requests")
        return events
