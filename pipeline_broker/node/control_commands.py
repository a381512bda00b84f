"""Commands for tests of clients: the requests that clients have sent, waits for them, and the reset of the broker."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.apis.call import Session
from pipeline_broker.apis.request_names import names_of
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import RequestCondition
from pipeline_broker.faults.values import seconds, whole_number
from pipeline_broker.node.calls_within import Caller
from pipeline_broker.node.operator_commands import Command, CommandFailedError
from pipeline_broker.schema_registry.records import SCHEMAS_TOPIC
from pipeline_broker.telemetry.recent_requests import AnsweredRequest, RecentRequests
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from pipeline_broker.web.turns import Steps, in_turns
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import api_name

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["ControlCommands"]

# The listener name and client id of the reset; no such listener exists.
CONTROL = "CONTROL"
REQUESTS_MAX = 4096
"""Requests of clients that the control endpoint remembers."""
SHOWN_MAX = 100
"""Requests in an answer of the control endpoint, the newest ones."""
NAMES_SHOWN_MAX = 20
WAIT_SECONDS_MAX = 60
"""Seconds of the longest wait for requests at the control endpoint."""
TIMEOUT_MS = 30_000
KEPT_TOPICS = frozenset({SCHEMAS_TOPIC, TIMELINES_TOPIC})
"""Topics that a reset keeps: they belong to services of the broker, which are not reset."""
DELETED = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class ControlCommands:
    """The commands, and the requests that they are about. Requests are observed from the construction on.

    Args:
        server: commits the changes of a reset.
        observe: starts reporting the requests of clients to a timeline.
    """

    def __init__(self, server: SocketServer, broker: Broker, observe: Callable[[Timeline], None]) -> None:
        self._broker = broker
        self._changes = trio.lowlevel.ParkingLot()
        self._recent = RecentRequests(REQUESTS_MAX, self._changed, functools.partial(names_of, broker))
        self._caller = Caller(server, broker, Session(host="", listener=CONTROL, is_trusted=True))
        observe(self._recent)

    def _changed(self) -> None:
        if self._changes:
            self._changes.unpark_all()

    def commands(self) -> dict[str, Command]:
        return {"requests": self._requests, "reset": self._reset}

    async def _requests(
        self,
        api: Any,
        topic: Any = None,
        partition: Any = None,
        client_id: Any = None,
        group: Any = None,
        count: Any = 0,
        timeout: Any = "10s",  # noqa: ASYNC109 - an argument of the client
    ) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        try:
            condition = RequestCondition(api=api, topic=topic, partition=partition, client_id=client_id, group=group)
            wanted, wait_seconds = whole_number("count", count), seconds("timeout", timeout, bare="ms")
        except FaultError as error:
            raise CommandFailedError(str(error)) from None
        if not 0 <= wanted <= REQUESTS_MAX:
            raise CommandFailedError(f"count must be from 0 to {REQUESTS_MAX}, not {wanted}")
        if not 0 <= wait_seconds <= WAIT_SECONDS_MAX:
            raise CommandFailedError(f"timeout must be from 0 to {WAIT_SECONDS_MAX:g} s, not {wait_seconds:g} s")
        found: deque[AnsweredRequest] = deque(maxlen=SHOWN_MAX)
        matched = seen = 0

        async def check() -> None:
            nonlocal matched, seen
            fresh, seen = self._recent.since(seen), self._recent.count
            matched += await in_turns(_find(fresh, condition, found))

        await check()
        with trio.move_on_after(wait_seconds):
            while matched < wanted:
                if seen == self._recent.count:
                    await self._changes.park()
                await check()
        if matched < wanted:
            raise CommandFailedError(f"{matched} of {wanted} requests in {wait_seconds:g} s: {condition}")
        return {"count": matched, "requests": list(map(_described, found))}

    async def _reset(self) -> Mapping[str, Any]:
        # With the internal topics their coordinators forget all groups and transactional ids, after they have aborted
        # the open transactions.
        broker = self._broker
        # First, because a rule may hold the commits that the deletions wait for.
        rules = broker.faults.clear() if broker.has_faults else 0
        names = [topic.name for topic in broker.topics.all() if topic.name not in KEPT_TOPICS]
        wanted = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=wanted, topic_names=[], timeout_ms=TIMEOUT_MS)
        answer = await self._caller.ask(request, broker.ports.clock_ms())
        refused = [each for each in answer.responses if each.error_code not in DELETED]
        if refused:
            raise CommandFailedError(
                f"the topic {refused[0].name!r} cannot be deleted: {ErrorCode(refused[0].error_code).name}"
            )
        self._recent.clear()
        return {"rules": rules, "topics": len(names)}


def _find(
    requests: Iterable[AnsweredRequest], condition: RequestCondition, found: deque[AnsweredRequest]
) -> Steps[int]:
    names = {api_name(key) for key in condition.keys}
    matched = 0
    for request in requests:
        is_sender = condition.client_id in (None, request.client_id)
        if request.api in names and is_sender and condition.matches_names(request.names):
            found.append(request)
            matched += 1
        yield
    return matched


def _described(request: AnsweredRequest) -> dict[str, Any]:
    return {
        "api": request.api,
        "version": request.version,
        "client_id": request.client_id,
        "connection": request.connection,
        "outcome": request.outcome,
        "errors": request.errors,
        "groups": request.names.groups[:NAMES_SHOWN_MAX],
        "partitions": request.names.partitions[:NAMES_SHOWN_MAX],
    }
