"""Changes and questions of the pages, sent to the broker as requests of Kafka's protocol."""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Protocol

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard import groups_view, refusals_view
from pipeline_broker.dashboard.administration import CHANGES, QUESTIONS, ROWS_MAX, refusal_in
from pipeline_broker.dashboard.log_threads import find_offsets
from pipeline_broker.dashboard.wishes import RequestError
from pipeline_broker.faults.commands import carry_out
from pipeline_broker.faults.names import FaultError
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, json_answer, json_or_not_found, refusal
from pipeline_broker.web.turns import in_turns

__all__ = ["Asker", "Changes"]

# The longest wait for a change to become durable.
CHANGE_SECONDS = 10.0
GIVEN_SHOWN_MAX = 100


class Asker(Protocol):
    """A sender of requests with the rights of the dashboard's principal."""

    async def ask(self, message: Any, now_ms: int) -> Any:
        """Handle a request and return its response, once its changes are durable.

        Raises:
            ConnectionError: the request would have closed a client's connection.
        """

    def may_of_cluster(self, operation: AclOperation) -> bool: ...


class Changes:
    """The handlers of changes, and of questions that need the principal's rights.

    A change without a request in Kafka's protocol, such as a fault rule, needs Alter on the cluster.

    Args:
        threads: limits the threads that read logs.
        asker: sends the requests.
    """

    def __init__(self, broker: Broker, threads: trio.CapacityLimiter, asker: Asker) -> None:
        self._broker, self._threads, self._asker = broker, threads, asker

    async def change(self, request: HttpRequest, name: str) -> Answer:
        wanted = CHANGES[name]
        try:
            message = wanted.request(self._broker, _object(request))
        except RequestError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        return await self._carry_out(message, wanted.results, wanted.answer)

    async def question(self, request: HttpRequest, name: str) -> Answer:
        """Answer an entry of QUESTIONS with rows, or with the reason of a refusal."""
        del request
        wanted = QUESTIONS[name]
        response = await self._ask(wanted.request())
        rows = list(islice(wanted.rows(response), ROWS_MAX + 1))
        shown = {"rows": rows[:ROWS_MAX], "is_cut": len(rows) > ROWS_MAX, "reason": refusal_in([response]) or ""}
        return await in_turns(json_or_not_found(shown, name))

    async def refusals(self, request: HttpRequest, argument: str) -> Answer:
        """Return failed logins and denials if the principal may describe the cluster, else only the reason.

        No request of Kafka returns them. Kafka requires the same right to describe SCRAM users.
        """
        del request, argument
        await trio.lowlevel.checkpoint()
        if not self._asker.may_of_cluster(AclOperation.DESCRIBE):
            return json_answer({"reason": ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name})
        return json_answer({"reason": "", **refusals_view.refusals(self._broker)})

    async def reset_offsets(self, request: HttpRequest, argument: str) -> Answer:
        del argument
        body = _object(request)
        try:
            reset = groups_view.OffsetReset.from_json(body)
            offsets = await find_offsets(groups_view.plan_reset(self._broker, reset), self._threads)
            message = groups_view.reset_request(self._broker, reset, offsets)
        except RequestError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        done = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
        return await self._carry_out(message, lambda response: response.topics[0].partitions, lambda _: done)

    async def faults(self, request: HttpRequest, action: str) -> Answer:
        await trio.lowlevel.checkpoint()
        body = _object(request)
        if not self._asker.may_of_cluster(AclOperation.ALTER):
            reason = f"{ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name}: fault rules need Alter on the cluster"
            return refusal(http.HTTPStatus.CONFLICT, reason)
        try:
            return json_answer(carry_out(self._broker, action, body, "dashboard"))
        except FaultError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))

    async def _ask(self, message: Any) -> Any:
        return await self._asker.ask(message, self._broker.ports.clock_ms())

    async def _carry_out(
        self, message: Any, results: Callable[[Any], Iterable[Any]], answer: Callable[[Any], dict[str, Any]]
    ) -> Answer:
        response = None
        with trio.move_on_after(CHANGE_SECONDS):
            response = await self._ask(message)
        if response is None:
            late = f"the change is not durable after {CHANGE_SECONDS:g} s; reload the page later to see its result"
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, late)
        reason = refusal_in(results(response))
        return json_answer(answer(response)) if reason is None else refusal(http.HTTPStatus.CONFLICT, reason)


def _object(request: HttpRequest) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        given = json.dumps(body)[:GIVEN_SHOWN_MAX]
        raise BadRequestError(f'a change is a JSON object such as {{"topic": "orders"}}, not {given}')
    return body
