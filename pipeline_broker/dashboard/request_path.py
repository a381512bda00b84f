"""The request path, live: this broker's, and that of the broker beside it.

Rules of this file: on Trio; the server reports to it only while somebody watches, and what it counts anyway is noted
at every beat. What is shown is decided by `pipeline_view.py`, and who is told by `viewers.py`.
"""

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
from pipeline_broker.web.messages import Answer, EventStream, HttpRequest, SendEvent, event, event_steps, refusal
from pipeline_broker.web.turns import Steps
from stages.mute import MuteReason
from stages.socket_server import SocketServer
from stages.timeline import Timeline, now_ns

__all__ = ["RequestPath"]

BESIDES_MAX = 8
"""Viewers of the second broker."""
WATCHED_WHOLE_MAX = 2000.0
"""Requests a second that are all looked at; of more, those that come in the first part of each second, because their
stamps would cost a twelfth of the throughput."""
PART_SECONDS = 0.1
FULL = "there are as many viewers as may be"

API_NAMES = {int(key): served.name for key, served in SERVED.items()}
MUTE_REASONS = {int(reason): reason.name.lower().replace("_", " ") for reason in MuteReason}


class RequestPath:
    """See the rules of the file.

    Args:
        server: whose request path.
        about: how its broker was started.
        beside: the second broker's dashboard, if any.
        observe: called with the timeline to report to, or None for nobody any more.
        is_alone: whether nobody else observes: only then does it cost less to look at fewer requests.
        history: takes note at every beat.
        names_of: how to learn what a request names that has ended.
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
        self._limited = limited_stream(BESIDES_MAX, FULL)
        self.viewers = Viewers(self._begin_watching, self._end_watching, self._render, self._rest, self._note)

    async def watch(self, kind: str, request: HttpRequest, argument: str) -> EventStream:
        """Events of a kind: `pipeline` or `requests`."""
        del request, argument

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

    async def watch_beside(self, request: HttpRequest, argument: str) -> Answer | EventStream:
        """The events `pipeline` of the second broker."""
        del request, argument
        if self._beside is None:
            return refusal(http.HTTPStatus.NOT_FOUND, "no second dashboard was given: --dashboard-beside")
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
        assert self._watched is not None, "somebody watches"
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
