"""The HTTP service of the dashboard: routing, views, event streams and changes."""

from __future__ import annotations

import contextlib
import functools
import http
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import trio

from pipeline_broker.apis.request_names import names_of
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.dashboard import (
    broker_view,
    brokers_view,
    faults_view,
    groups_view,
    schemas_view,
    static_files,
    store_view,
    topics_view,
)
from pipeline_broker.dashboard.access import Access
from pipeline_broker.dashboard.beside import BadAddressError, Beside
from pipeline_broker.dashboard.changes import Changes
from pipeline_broker.dashboard.history import History
from pipeline_broker.dashboard.history_keeping import keep_history
from pipeline_broker.dashboard.log_threads import log_threads
from pipeline_broker.dashboard.records import Records
from pipeline_broker.dashboard.refused_page import as_page
from pipeline_broker.dashboard.request_path import RequestPath
from pipeline_broker.dashboard.rights import Asker, needed
from pipeline_broker.dashboard.routes import Route, find_route, methods_of
from pipeline_broker.dashboard.schema_changes import NO_REGISTRY, Registry
from pipeline_broker.files.errors import with_remedy
from pipeline_broker.log.errors import LogError
from pipeline_broker.security.acl import SUPPORTED, AclOperation, ResourceType
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.traces.stage_durations import PARTS
from pipeline_broker.web.audit import log_change
from pipeline_broker.web.hosts import is_loopback
from pipeline_broker.web.http_server import (
    HttpLimits,
    open_listeners,
    require_h11,
    serve_http,
)
from pipeline_broker.web.messages import Answer, BadRequestError, EventStream, HttpRequest, json_or_not_found, refusal
from pipeline_broker.web.shared_answers import SharedAnswers
from pipeline_broker.web.turns import Steps, in_turns
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.schema_registry.state import RegistryState
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["Dashboard", "check_options"]

LIMITS = HttpLimits(connections_max=64, response_seconds=10.0)
TOKEN_BYTES = 32
WHAT = "the dashboard"
FILES = frozenset({"page", "static"})
# Views whose size clients decide. They depend only on the route, the `group` of the query and the rights, so all
# viewers of one second with the same rights get the same answer.
SHARED = frozenset({"brokers", "configuration", "connections", "group", "groups", "groups_of_topic", "topic", "topics"})

# Returns the JSON content for a request, the variable part of its path and the rights, or None if it does not exist. A
# view that may take long is a generator of steps.
View: TypeAlias = Callable[[HttpRequest, str, Asker], object]
AsyncHandler: TypeAlias = "Callable[[HttpRequest, str, Asker], Awaitable[Answer | EventStream]]"
# The noun of a missing thing, where it differs from the name of the view.
ABSENT = {"groups_of_topic": "topic"}
# Fields of the body of a change that the audit log shows: no values, which may be secrets or records.
AUDITED = frozenset(
    (
        *("topic", "partitions", "partition", "setting", "group", "to", "user", "mechanism", "principal", "permission"),
        *("operation", "resource", "name", "pattern", "host", "of", "quota", "subject", "type", "version", "permanent"),
        *("level", "number", "arguments"),
    )
)
ACL_CHOICES = {kind.name: ["ALL", *(each.name for each in operations)] for kind, operations in SUPPORTED.items()}


def check_options(options: DashboardOptions) -> Beside | None:
    """Check the options before the broker starts, and return the address of the second dashboard; None without one.

    Raises:
        UnavailableError: h11 is not installed, or the second address is invalid.
    """
    require_h11(WHAT)
    try:
        return None if options.beside is None else Beside.parse(options.beside)
    except BadAddressError as error:
        raise UnavailableError(str(error)) from None


class Dashboard:
    """The dashboard of one broker.

    Args:
        server: the server whose request path is shown.
        beside: the dashboard of a second broker, shown next to this one.
        observe: starts reporting the request path to a timeline, or stops it with None.
        is_alone: returns whether no other observer has a timeline.
        asker_of: returns the sender of requests with the rights of a request's principal.
        is_read_only: refuse all changes.
        registry: the schema registry of the broker; None without one.
    """

    def __init__(
        self,
        server: SocketServer,
        broker: Broker,
        beside: Beside | None,
        observe: Callable[[Timeline | None], None],
        is_alone: Callable[[], bool],
        asker_of: Callable[[HttpRequest], Asker],
        *,
        is_read_only: bool = False,
        registry: Registry | None = None,
    ) -> None:
        self._server, self._broker, self._beside = server, broker, beside
        self._identity = broker_view.identity_of(server, broker)
        self._access = Access(host="", port=0)
        threads = log_threads()
        history = self._history = History()
        names = functools.partial(names_of, broker)
        self.request_path = RequestPath(server, self._identity, beside, observe, is_alone, history, names)
        self._asker_of, self._registry = asker_of, registry
        self._is_read_only = is_read_only
        self._shared = SharedAnswers(broker.edges)
        self._views = self._view_table(history)
        self._handlers = self._handler_table(broker, threads)

    def _view_table(self, history: History) -> dict[str, View]:
        server, broker = self._server, self._broker
        return {
            "broker": lambda request, _, asker: self._about(request, asker),
            "brokers": lambda *_: brokers_view.brokers(broker),
            "topics": lambda _request, _, asker: topics_view.topics(broker, history.rates, _describes_topic(asker)),
            "topic": lambda _, name, asker: topics_view.topic(
                broker, name, history.rates, has_configuration=_shows_configuration(asker, name)
            ),
            "groups": lambda _request, _, asker: groups_view.groups(broker, _describes_group(asker)),
            "lags": lambda request, _, asker: _lags(history, request.query.get("group"), asker),
            "groups_of_topic": lambda _, name, asker: groups_view.groups_of_topic(
                broker, name, _describes_group(asker)
            ),
            "group": lambda request, _, asker: groups_view.group(
                broker, request.query.get("group", ""), _describes_topic(asker)
            ),
            "configuration": lambda *_: topics_view.configuration(broker),
            "connections": lambda *_: broker_view.connections(server, broker),
            "store": lambda *_: store_view.store(broker),
            "faults": lambda *_: faults_view.faults(broker, now_ns()),
            "fault_choices": lambda *_: faults_view.choices(),
            "acl_choices": lambda *_: ACL_CHOICES,
        }

    def _handler_table(self, broker: Broker, threads: trio.CapacityLimiter) -> dict[str, AsyncHandler]:
        path = self.request_path
        records = Records(broker, threads, self._registry)
        changes = Changes(broker, threads, self._registry)
        return {
            "records": lambda request, name, _: records.page(request, name),
            "tail_events": lambda request, name, _: records.follow(request, name),
            "pipeline_events": lambda *_: path.watch("pipeline"),
            "request_events": lambda *_: path.watch("requests"),
            "beside_events": lambda *_: path.watch_beside(),
            "schemas": lambda *_: self._schemas(schemas_view.schemas),
            "schema_versions": lambda request, *_: self._schemas(
                lambda state: schemas_view.schema_versions(state, request.query.get("subject", ""))
            ),
            "reset_offsets": changes.reset_offsets,
            "change_faults": changes.faults,
            "change_schemas": changes.schemas,
            "change": changes.change,
            "question": changes.question,
            "refusals": changes.refusals,
        }

    @contextlib.asynccontextmanager
    async def serving(self, options: DashboardOptions, security: HttpSecurity = NO_SECURITY) -> AsyncIterator[str]:
        """Serve while the body runs, and yield the link to the dashboard.

        Raises:
            UnavailableError: h11 is not installed, or the port cannot be bound.
        """
        listeners = await open_listeners(WHAT, options.host, options.port, LIMITS, "--dashboard")
        port = listeners[0].socket.getsockname()[1]
        # Users need no token: their passwords authenticate them.
        needs_token = security.users is None and self._asks_for_token(options.host)
        token = secrets.token_urlsafe(TOKEN_BYTES) if needs_token else None
        self._access = Access(
            host=options.host, port=port, token=token, is_read_only=self._is_read_only, scheme=security.scheme
        )
        host = f"[{options.host}]" if ":" in options.host else options.host
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.request_path.viewers.run)
            nursery.start_soon(keep_history, self._history, self._broker)
            nursery.start_soon(serve_http, listeners, self.answer, LIMITS, self._broker.edges, security)
            yield f"{security.scheme}://{host}:{port}/" + ("" if token is None else f"?token={token}")
            nursery.cancel_scope.cancel()

    def _asks_for_token(self, host: str) -> bool:
        # A viewer sees everything, so a broker that authenticates its clients must also authenticate viewers.
        config = self._broker.config
        return (
            not is_loopback(host)
            or self._broker.authorizer is not None
            or any(listener.security_protocol != "PLAINTEXT" for listener in config.listener_configs)
        )

    async def answer(self, request: HttpRequest) -> Answer | EventStream:
        try:
            answer = await self._answer(request)
        except BadRequestError as error:
            answer = refusal(http.HTTPStatus.BAD_REQUEST, str(error))
        return as_page(request, answer) if isinstance(answer, Answer) else answer

    async def _answer(self, request: HttpRequest) -> Answer | EventStream:
        route = find_route(request.method, request.path)
        is_page = route is not None and route.name == "page"
        refused = self._access.check(request, is_page=is_page)
        if refused is not None:
            return refused
        if route is None:
            allowed = methods_of(request.path)
            if allowed:
                status = http.HTTPStatus.METHOD_NOT_ALLOWED
                return refusal(status, f"this address accepts only {allowed}", ("Allow", allowed))
            return refusal(http.HTTPStatus.NOT_FOUND, "this address does not exist")
        return await self._answer_by(route, request)

    async def _answer_by(self, route: Route, request: HttpRequest) -> Answer | EventStream:
        if route.name in FILES:
            return _file(route.argument or static_files.PAGE)
        asker, right = self._asker_of(request), needed(route, request)
        # Before anything is looked up: whether a topic exists is a secret, too.
        if right is not None and not asker.may(*right):
            return refusal(http.HTTPStatus.FORBIDDEN, asker.missing)
        try:
            if route.name in self._views:
                make = functools.partial(self._shown, route, request, asker)
                if route.name not in SHARED:
                    return await in_turns(make())
                return await self._shared.get((route, request.query.get("group"), asker.rights), make)
            try:
                answer = await self._handlers[route.name](request, route.argument, asker)
            finally:
                # A page that reloads after its change must see the change.
                if request.method == "POST":
                    self._shared.forget()
        except ConnectionError as error:  # the broker did not answer the request of a change
            answer = refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except (OSError, LogError) as error:
            answer = refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, f"the log cannot be read: {error}")
        # The registry logs its own changes.
        if (
            request.method == "POST"
            and isinstance(answer, Answer)
            and (route.name != "change_schemas" or _reason(answer))
        ):
            _audit(request, asker, answer)
        return answer

    def _shown(self, route: Route, request: HttpRequest, asker: Asker) -> Steps[Answer]:
        shown = self._views[route.name](request, route.argument, asker)
        if isinstance(shown, Generator):
            shown = yield from shown
        return (yield from json_or_not_found(shown, ABSENT.get(route.name, route.name)))

    async def _schemas(self, view: Callable[[RegistryState], Steps[object]]) -> Answer:
        if self._registry is None:
            return NO_REGISTRY
        await self._registry.catch_up()
        steps = view(self._registry.state)

        def shown() -> Steps[Answer]:
            return (yield from json_or_not_found((yield from steps), "subject"))

        return await in_turns(shown())

    def _about(self, request: HttpRequest, asker: Asker) -> dict[str, Any]:
        mode, obstacle, user = self._server.mode, self._broker.logs.journal.room.obstacle, request.user
        return {
            **attrs.asdict(self._identity),
            "queues": len(self._server.channel.queues),
            "is_shared_queue": mode.is_shared_queue,
            "handlers": self._server.handlers.statistics().handlers,
            "in_flight_max": mode.in_flight_max,
            "commit": mode.batching.value,
            "cluster": self._broker.cluster_id,
            "node": self._broker.config.node_id,
            "is_member": self._broker.members is not None,
            "stages": PARTS,
            "topics_synced_later": self._broker.logs.topics_synced_later,
            "obstacle": None if obstacle is None else with_remedy(obstacle),
            "is_read_only": self._is_read_only or (user is not None and user.is_read_only),
            "user": user and user.name,
            "limited_to": None if asker.rights is None else asker.name,
            "has_registry": self._registry is not None,
            "beside": None if self._beside is None else self._beside.authority,
        }


def _lags(history: History, group: str | None, asker: Asker) -> dict[str, Any]:
    # Not logged as a denial: pages ask every few seconds.
    if group is None and not asker.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, is_logged=False):
        return {"ages": [], "lag": [], "reason": "The lag of all groups needs Describe on the cluster."}
    return history.lags(trio.current_time(), group)


def _describes_topic(asker: Asker) -> Callable[[str], bool]:
    return lambda name: asker.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_logged=False)


def _describes_group(asker: Asker) -> Callable[[str], bool]:
    return lambda name: asker.may(AclOperation.DESCRIBE, ResourceType.GROUP, name, is_logged=False)


def _shows_configuration(asker: Asker, topic: str) -> bool:
    return asker.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic, is_logged=False)


def _reason(answer: Answer) -> str | None:
    return json.loads(answer.body)["error"] if answer.status >= http.HTTPStatus.BAD_REQUEST else None


def _audit(request: HttpRequest, asker: Asker, answer: Answer) -> None:
    with contextlib.suppress(BadRequestError):
        body = request.json()
        details = {name: value for name, value in body.items() if name in AUDITED} if isinstance(body, dict) else {}
        log_change(request, asker.name, request.path, details, _reason(answer))


def _file(name: str) -> Answer:
    content = static_files.read(name)
    if content is None:
        return refusal(http.HTTPStatus.NOT_FOUND, "the file does not exist")
    return Answer(status=http.HTTPStatus.OK, body=content, content_type=static_files.content_type_of(name))
