"""Changes and questions of the pages, sent to the broker as requests of Kafka's protocol or of its schema registry."""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard import groups_view, refusals_view
from pipeline_broker.dashboard.administration import CHANGES, QUESTIONS, ROWS_MAX, FieldRight, refusal_in
from pipeline_broker.dashboard.log_threads import find_offsets
from pipeline_broker.dashboard.rights import Asker
from pipeline_broker.dashboard.schema_changes import NO_REGISTRY, SCHEMA_CHANGES, Registry, refusal_of
from pipeline_broker.dashboard.wishes import RequestError, text
from pipeline_broker.faults.commands import carry_out
from pipeline_broker.faults.names import FaultError
from pipeline_broker.schema_registry.records import SCHEMAS_TOPIC
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, json_answer, json_or_not_found, refusal
from pipeline_broker.web.turns import in_turns

__all__ = ["Changes"]

# The longest wait for a change to become durable.
CHANGE_SECONDS = 10.0
GIVEN_SHOWN_MAX = 100
RESET_RIGHTS: tuple[FieldRight, ...] = (
    (AclOperation.READ, ResourceType.GROUP, "group"),
    (AclOperation.READ, ResourceType.TOPIC, "topic"),
)


class Changes:
    """The handlers of changes, and of questions that the principal's rights decide.

    A change without a request in Kafka's protocol needs Alter on the cluster if it is a fault rule, and Write on the
    topic with the schemas if it is one of the schema registry.

    Args:
        threads: limits the threads that read logs and hash passwords.
        registry: the schema registry of the broker; None without one.
    """

    def __init__(self, broker: Broker, threads: trio.CapacityLimiter, registry: Registry | None) -> None:
        self._broker, self._threads, self._registry = broker, threads, registry

    async def change(self, request: HttpRequest, name: str, asker: Asker) -> Answer:
        wanted, body = CHANGES[name], _object(request)
        try:
            _check(asker, body, wanted.first)
            if wanted.is_slow:
                message = await trio.to_thread.run_sync(wanted.request, self._broker, body, limiter=self._threads)
            else:
                message = wanted.request(self._broker, body)
        except RequestError as error:
            return _refused(str(error))
        return await self._carry_out(asker, message, wanted.results, wanted.answer)

    async def question(self, request: HttpRequest, name: str, asker: Asker) -> Answer:
        del request
        wanted = QUESTIONS[name]
        response = await self._ask(asker, wanted.request())
        rows = list(islice(wanted.rows(response), ROWS_MAX + 1))
        reason = _with_missing(refusal_in([response]), asker) or ""
        shown = {"rows": rows[:ROWS_MAX], "is_cut": len(rows) > ROWS_MAX, "reason": reason}
        return await in_turns(json_or_not_found(shown, name))

    async def refusals(self, request: HttpRequest, argument: str, asker: Asker) -> Answer:
        """Return failed logins and denials if the principal may describe the cluster, else only the reason.

        No request of Kafka returns them. Kafka requires the same right to describe SCRAM users.
        """
        del request, argument
        await trio.lowlevel.checkpoint()
        if not asker.may(AclOperation.DESCRIBE, ResourceType.CLUSTER):
            return json_answer({"reason": _with_missing(ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name, asker)})
        return json_answer({"reason": "", **refusals_view.refusals(self._broker)})

    async def reset_offsets(self, request: HttpRequest, argument: str, asker: Asker) -> Answer:
        del argument
        body = _object(request)
        try:
            _check(asker, body, RESET_RIGHTS)
            reset = groups_view.OffsetReset.from_json(body)
            offsets = await find_offsets(groups_view.plan_reset(self._broker, reset), self._threads)
            message = groups_view.reset_request(self._broker, reset, offsets)
        except RequestError as error:
            return _refused(str(error))
        done = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
        return await self._carry_out(asker, message, lambda response: response.topics[0].partitions, lambda _: done)

    async def faults(self, request: HttpRequest, action: str, asker: Asker) -> Answer:
        await trio.lowlevel.checkpoint()
        body = _object(request)
        if not asker.may(AclOperation.ALTER, ResourceType.CLUSTER):
            return _refused(_with_missing(ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name, asker))
        try:
            return json_answer(carry_out(self._broker, action, body, "dashboard"))
        except FaultError as error:
            return _refused(str(error))

    async def schemas(self, request: HttpRequest, name: str, asker: Asker) -> Answer:
        if self._registry is None:
            return NO_REGISTRY
        body = _object(request)
        if not asker.may(AclOperation.WRITE, ResourceType.TOPIC, SCHEMAS_TOPIC):
            return _refused(_with_missing(ErrorCode.TOPIC_AUTHORIZATION_FAILED.name, asker))
        try:
            wanted = attrs.evolve(SCHEMA_CHANGES[name](body), peer=request.peer, user=request.user)
            reason = refusal_of(await self._registry.answer(wanted))
        except RequestError as error:
            reason = str(error)
        return json_answer({}) if reason is None else _refused(reason)

    async def _ask(self, asker: Asker, message: Any) -> Any:
        return await asker.ask(message, self._broker.ports.clock_ms())

    async def _carry_out(
        self,
        asker: Asker,
        message: Any,
        results: Callable[[Any], Iterable[Any]],
        answer: Callable[[Any], dict[str, Any]],
    ) -> Answer:
        response = None
        with trio.move_on_after(CHANGE_SECONDS):
            response = await self._ask(asker, message)
        if response is None:
            late = f"the change is not durable after {CHANGE_SECONDS:g} s; reload the page later to see its result"
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, late)
        reason = refusal_in(results(response))
        return json_answer(answer(response)) if reason is None else _refused(_with_missing(reason, asker))


def _check(asker: Asker, body: Mapping[str, Any], rights: Iterable[FieldRight]) -> None:
    for operation, kind, field in rights:
        if not asker.may(operation, kind, text(body, field)):
            raise RequestError(f"{kind.name}_AUTHORIZATION_FAILED: {asker.missing}")


def _refused(reason: str | None) -> Answer:
    assert reason, "a refusal has a reason"
    return refusal(http.HTTPStatus.CONFLICT, reason)


def _with_missing(reason: str | None, asker: Asker) -> str | None:
    if reason is None or "AUTHORIZATION_FAILED" not in reason or not asker.missing:
        return reason
    return f"{reason.partition(':')[0]}: {asker.missing}"


def _object(request: HttpRequest) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        given = json.dumps(body)[:GIVEN_SHOWN_MAX]
        raise BadRequestError(f'a change is a JSON object such as {{"topic": "orders"}}, not {given}')
    return body
