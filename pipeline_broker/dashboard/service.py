"""The dashboard of a running broker: from a request to what the broker says, and who watches.

Rules of this file: on Trio; it waits and passes on, and what is shown is decided in the files without Trio beside it.
It starts with the broker or fails with one line, and nothing that happens in it later ends the broker.
"""

from __future__ import annotations

import contextlib
import functools
import http
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import attrs
import trio

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.dashboard import broker_view, groups_view, static_files, topics_view
from pipeline_broker.dashboard.access import Access, is_loopback
from pipeline_broker.dashboard.beside import BadAddressError, Beside, pass_on
from pipeline_broker.dashboard.http_server import (
    DashboardUnavailableError,
    Handler,
    open_dashboard_listeners,
    require_extra,
    serve_http,
)
from pipeline_broker.dashboard.messages import (
    Answer,
    BadRequestError,
    EventStream,
    HttpRequest,
    event,
    json_answer,
    refusal,
)
from pipeline_broker.dashboard.pipeline_view import STAGES, PipelineView, request_events
from pipeline_broker.dashboard.record_filter import BadFilterError, RecordFilter
from pipeline_broker.dashboard.record_reader import RECORDS_PER_PAGE_MAX, PageReader
from pipeline_broker.dashboard.routes import find_route, methods_of
from pipeline_broker.dashboard.seeking import positions_of
from pipeline_broker.dashboard.tail import read_page, tail
from pipeline_broker.dashboard.viewers import TooManyViewersError, Viewers
from pipeline_broker.dashboard.watched_pipeline import WatchedPipeline
from pipeline_broker.log.errors import LogError
from stages.committer import Submission
from stages.mute import MuteReason
from stages.request import Pending
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.broker import Broker
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.log.partition_log import PartitionLog
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["Dashboard", "check_options"]

READERS_MAX = 2
"""Threads that read records for all viewers together."""
TAILS_MAX = 8
RESET_SECONDS = 10.0
"""How long a reset may take to become durable before its client is told that it does not know."""
TOKEN_BYTES = 32

API_NAMES = {int(key): served.name for key, served in SERVED.items()}
MUTE_REASONS = {int(reason): reason.name.lower().replace("_", " ") for reason in MuteReason}

logger = logging.getLogger(__name__)


def check_options(options: DashboardOptions) -> Beside | None:
    """Whether the dashboard can be had, before a broker starts; the second one's place.

    Raises:
        DashboardUnavailableError: it cannot.
    """
    require_extra()
    try:
        return None if options.beside is None else Beside.parse(options.beside)
    except BadAddressError as error:
        raise DashboardUnavailableError(str(error)) from None


class Dashboard:
    """One broker's dashboard.

    Args:
        server: whose request path is shown.
        broker: whose state is shown.
        beside: the second broker's dashboard, if any.
        observe: called with the timeline to report to, or None for nobody any more.
    """

    def __init__(
        self,
        server: SocketServer,
        broker: Broker,
        beside: Beside | None,
        observe: Callable[[Timeline | None], None],
    ) -> None:
        self._server, self._broker = server, broker
        self._identity = broker_view.identity_of(server, broker)
        self._beside = beside
        self._observe = observe
        self._watched: WatchedPipeline | None = None
        self._view = PipelineView(API_NAMES, MUTE_REASONS)
        self._viewers = Viewers(self._begin_watching, self._end_watching, self._render)
        self._threads = trio.CapacityLimiter(READERS_MAX)
        self._tails = self._besides = 0
        self._access = Access(host="", port=0)
        self._handlers: dict[str, Callable[[HttpRequest, str], Awaitable[Answer | EventStream]]] = {
            "page": self._page,
            "static": self._static,
            "broker": self._about,
            "topics": self._topics,
            "topic": self._topic,
            "records": self._records,
            "groups": self._groups,
            "group": self._group,
            "reset_offsets": self._reset_offsets,
            "configuration": self._configuration,
            "connections": self._connections,
            "pipeline_events": functools.partial(self._watch, "pipeline"),
            "request_events": functools.partial(self._watch, "requests"),
            "beside_events": self._watch_beside,
            "tail_events": self._tail,
        }

    @contextlib.asynccontextmanager
    async def serving(self, options: DashboardOptions) -> AsyncIterator[str]:
        """Serve while the body runs; gives the link to it.

        Raises:
            DashboardUnavailableError: the port cannot be had.
        """
        listeners = await open_dashboard_listeners(options.host, options.port)
        port = listeners[0].socket.getsockname()[1]
        token = secrets.token_urlsafe(TOKEN_BYTES) if self._asks_for_token(options.host) else None
        self._access = Access(host=options.host, port=port, token=token)
        host = f"[{options.host}]" if ":" in options.host else options.host
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._viewers.run)
            handler: Handler = self.answer
            nursery.start_soon(serve_http, listeners, handler)
            yield f"http://{host}:{port}/" + ("" if token is None else f"?token={token}")
            nursery.cancel_scope.cancel()

    def _asks_for_token(self, host: str) -> bool:
        """Whoever sees the dashboard sees everything: so where the broker asks who somebody is, it asks too."""
        config = self._broker.config
        return (
            not is_loopback(host)
            or self._broker.authorizer is not None
            or any(listener.security_protocol != "PLAINTEXT" for listener in config.listener_configs)
        )

    async def answer(self, request: HttpRequest) -> Answer | EventStream:
        """The answer to a request."""
        route = find_route(request.method, request.path)
        is_page = route is not None and route.name == "page"
        refused = self._access.check(request, is_page=is_page)
        if refused is not None:
            return refused
        if route is None:
            allowed = methods_of(request.path)
            if allowed:
                status = http.HTTPStatus.METHOD_NOT_ALLOWED
                return refusal(status, f"only {allowed} is answered here", ("Allow", allowed))
            return refusal(http.HTTPStatus.NOT_FOUND, "there is nothing here")
        try:
            return await self._handlers[route.name](request, route.argument)
        except BadFilterError as error:
            raise BadRequestError(str(error)) from None
        except (OSError, LogError) as error:
            return refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, f"the log cannot be read: {error}")

    # Pages

    async def _page(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        return self._file(static_files.PAGE)

    async def _static(self, request: HttpRequest, argument: str) -> Answer:
        del request
        return self._file(argument)

    @staticmethod
    def _file(name: str) -> Answer:
        content = static_files.read(name)
        if content is None:
            return refusal(http.HTTPStatus.NOT_FOUND, "there is no such file")
        return Answer(status=http.HTTPStatus.OK, body=content, content_type=static_files.content_type_of(name))

    # What stands

    async def _about(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        mode = self._server.mode
        return json_answer(
            {
                **attrs.asdict(self._identity),
                "queues": len(self._server.channel.queues),
                "is_shared_queue": mode.is_shared_queue,
                "handlers": self._server.handlers.statistics().handlers,
                "in_flight_max": mode.in_flight_max,
                "commit": mode.batching.value,
                "cluster": self._broker.cluster_id,
                "node": self._broker.config.node_id,
                "stages": STAGES,
                "beside": None if self._beside is None else self._beside.authority,
            }
        )

    async def _topics(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        return json_answer(topics_view.topics(self._broker))

    async def _topic(self, request: HttpRequest, argument: str) -> Answer:
        del request
        return _found(topics_view.topic(self._broker, argument), "topic")

    async def _groups(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        return json_answer(groups_view.groups(self._broker))

    async def _group(self, request: HttpRequest, argument: str) -> Answer:
        del argument
        return _found(groups_view.group(self._broker, request.query.get("group", "")), "group")

    async def _configuration(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        return json_answer(topics_view.configuration(self._broker))

    async def _connections(self, request: HttpRequest, argument: str) -> Answer:
        del request, argument
        return json_answer(broker_view.connections(self._server))

    # Records

    def _logs_of(self, name: str, partition: str) -> dict[int, PartitionLog]:
        """The logs of a topic, or one of them; none where there is no such topic or partition."""
        if self._broker.topics.get(name) is None:
            return {}
        logs = {log.partition: log for log in self._broker.logs.partitions(name)}
        if not partition:
            return logs
        return {number: log for number, log in logs.items() if str(number) == partition}

    async def _records(self, request: HttpRequest, argument: str) -> Answer:
        logs = self._logs_of(argument, request.query.get("partition", ""))
        if not logs:
            return _found(None, "topic or partition")
        wanted = RecordFilter.from_query(request.query)
        limit = request.integer("limit", RECORDS_PER_PAGE_MAX // 2)
        positions = {}
        for partition, found in positions_of(logs, request, limit).items():
            positions[partition] = (
                found if isinstance(found, int) else await trio.to_thread.run_sync(found, limiter=self._threads)
            )
        page = await read_page(PageReader(logs, positions, wanted, limit), self._threads)
        return json_answer(page.as_json())

    async def _tail(self, request: HttpRequest, argument: str) -> Answer | EventStream:
        find_logs = functools.partial(self._logs_of, argument, request.query.get("partition", ""))
        if not find_logs():
            return _found(None, "topic or partition")
        wanted = RecordFilter.from_query(request.query)

        async def run(send: Callable[[bytes], Awaitable[None]]) -> None:
            if self._tails >= TAILS_MAX:
                await send(event({"reason": f"{TAILS_MAX} viewers follow topics already"}, "end"))
                return
            self._tails += 1
            try:
                await tail(find_logs, wanted, self._threads, send)
            except (OSError, LogError) as error:
                await send(event({"reason": f"the log cannot be read: {error}"}, "end"))
            finally:
                self._tails -= 1

        return EventStream(run)

    # Changes

    async def _reset_offsets(self, request: HttpRequest, argument: str) -> Answer:
        del argument
        body = request.json()
        try:
            wish = groups_view.ResetWish.from_json(str(body.get("group", "")) if isinstance(body, dict) else "", body)
            offsets = {}
            for partition, found in groups_view.plan_reset(self._broker, wish).items():
                offsets[partition] = (
                    found if isinstance(found, int) else await trio.to_thread.run_sync(found, limiter=self._threads)
                )
            result = groups_view.commit_reset(self._broker, wish, offsets, self._broker.clock_ms())
        except groups_view.ResetRefusedError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        if isinstance(result, Pending) and not await self._durable(result):
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, "the reset is not durable yet: look again")
        return json_answer({"offsets": {str(partition): offset for partition, offset in offsets.items()}})

    async def _durable(self, pending: Pending) -> bool:
        """Commit, and wait until that is durable; False when it takes too long."""
        durable = trio.Event()

        def on_durable() -> None:
            if pending.on_durable is not None:
                pending.on_durable()
            durable.set()

        self._server.submit(Submission(pending.entries, on_durable=on_durable))
        with trio.move_on_after(RESET_SECONDS):
            await durable.wait()
        return durable.is_set()

    # Who watches

    def _begin_watching(self) -> None:
        self._watched = WatchedPipeline(API_NAMES, now_ns())
        self._view = PipelineView(API_NAMES, MUTE_REASONS)
        self._observe(self._watched)

    def _end_watching(self) -> None:
        self._watched = None
        self._observe(None)

    def _render(self, kinds: frozenset[str]) -> Mapping[str, bytes]:
        assert self._watched is not None, "somebody watches"
        interval = self._watched.take(now_ns())
        shown = self._view.add(interval)
        events = {}
        if "pipeline" in kinds:
            about = {"mode": self._identity.mode, "flush": self._identity.flush, "stages": STAGES}
            standing = broker_view.standing(self._server)
            events["pipeline"] = event({"broker": about, "standing": standing, **shown}, "pipeline")
        if "requests" in kinds:
            events["requests"] = event(
                {
                    "requests": request_events(interval, API_NAMES),
                    "count": sum(api.count for api in interval.apis),
                    "stages": STAGES,
                },
                "requests",
            )
        return events

    async def _watch(self, kind: str, request: HttpRequest, argument: str) -> Answer | EventStream:
        del request, argument

        async def run(send: Callable[[bytes], Awaitable[None]]) -> None:
            try:
                async with self._viewers.watching(kind) as events:
                    async for each in events:
                        await send(each)
            except TooManyViewersError:
                await send(event({"reason": "there are as many viewers as may be"}, "end"))

        return EventStream(run)

    async def _watch_beside(self, request: HttpRequest, argument: str) -> Answer | EventStream:
        del request, argument
        beside = self._beside
        if beside is None:
            return refusal(http.HTTPStatus.NOT_FOUND, "no second dashboard was given: --dashboard-beside")

        async def run(send: Callable[[bytes], Awaitable[None]]) -> None:
            if self._besides >= TAILS_MAX:
                await send(event({"reason": "there are as many viewers as may be"}, "end"))
                return
            self._besides += 1
            try:
                await pass_on(beside, send)
            finally:
                self._besides -= 1

        return EventStream(run)


def _found(content: object, what: str) -> Answer:
    """What was asked for, or that there is none."""
    return refusal(http.HTTPStatus.NOT_FOUND, f"there is no such {what}") if content is None else json_answer(content)
