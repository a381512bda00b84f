"""What is changed through the dashboard, and what it asks by Kafka's own requests.

Rules of this file: on Trio; a request comes here when it has passed `access.py`. Each change asks for the rights of the
dashboard's principal: by the request of Kafka's that it is, whose handler asks as it does for a client, or, where there
is none, by Alter of the cluster. What is decided is decided by the rooms that the other ways lead to as well, and what
they refuse is an answer with their line. A change is answered when it is durable.
"""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Protocol

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard import groups_view, refusals_view
from pipeline_broker.dashboard.administration import CHANGES, QUESTIONS, ROWS_MAX, refusal_in
from pipeline_broker.dashboard.log_threads import find_offsets
from pipeline_broker.dashboard.wishes import WishError
from pipeline_broker.faults.commands import carry_out
from pipeline_broker.faults.names import FaultError
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, json_answer, json_or_not_found, refusal
from pipeline_broker.web.turns import in_turns
from pipeline_broker.wire.error import ErrorCode

__all__ = ["Asker", "Changes"]

CHANGE_SECONDS = 10.0
"""How long a change may take to become durable before its page is told that it is not yet."""

GIVEN_SHOWN_MAX = 100
"""Characters of what was given in place of an object that its refusal shows."""


class Asker(Protocol):
    """Asks the broker as the dashboard's principal."""

    async def ask(self, message: Any, now_ms: int) -> Any:
        """Have the broker handle a request; its response."""

    def may_of_cluster(self, operation: AclOperation) -> bool:
        """Whether the principal may do something to the cluster."""


class Changes:
    """See the rules of the file.

    Args:
        broker: what is changed.
        threads: where logs are read.
        asker: asks the broker.
    """

    def __init__(self, broker: Broker, threads: trio.CapacityLimiter, asker: Asker) -> None:
        self._broker, self._threads, self._asker = broker, threads, asker

    async def change(self, request: HttpRequest, name: str) -> Answer:
        """Do one of CHANGES."""
        wanted = CHANGES[name]
        try:
            message = wanted.request(self._broker, _object(request))
        except WishError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        return await self._carry_out(message, wanted.results, wanted.answer)

    async def question(self, request: HttpRequest, name: str) -> Answer:
        """Ask one of QUESTIONS: rows, or why there are none."""
        del request
        wanted = QUESTIONS[name]
        response = await self._ask(wanted.request())
        rows = list(islice(wanted.rows(response), ROWS_MAX + 1))
        shown = {"rows": rows[:ROWS_MAX], "is_cut": len(rows) > ROWS_MAX, "reason": refusal_in([response]) or ""}
        return await in_turns(json_or_not_found(shown, name))

    async def refusals(self, request: HttpRequest, argument: str) -> Answer:
        """Who was refused, for those who may see the users: no request of Kafka's tells it."""
        del request, argument
        await trio.lowlevel.checkpoint()
        if not self._asker.may_of_cluster(AclOperation.DESCRIBE):
            return json_answer({"reason": ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name})
        return json_answer({"reason": "", **refusals_view.refusals(self._broker)})

    async def reset_offsets(self, request: HttpRequest, argument: str) -> Answer:
        """Commit other offsets for a group without members."""
        del argument
        body = _object(request)
        try:
            wish = groups_view.ResetWish.from_json(body)
            offsets = await find_offsets(groups_view.plan_reset(self._broker, wish), self._threads)
            message = groups_view.reset_request(self._broker, wish, offsets)
        except WishError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        done = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
        return await self._carry_out(message, lambda response: response.topics[0].partitions, lambda _: done)

    async def faults(self, request: HttpRequest, action: str) -> Answer:
        """Do one of the actions of `pipeline_broker.faults.commands`; rules live as long as the process."""
        await trio.lowlevel.checkpoint()
        body = _object(request)
        if not self._asker.may_of_cluster(AclOperation.ALTER):
            reason = f"{ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name}: fault rules need Alter of the cluster"
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
        """Have a change handled, and say what became of it."""
        response = None
        with trio.move_on_after(CHANGE_SECONDS):
            response = await self._ask(message)
        if response is None:
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, "the change is not durable yet: look again")
        reason = refusal_in(results(response))
        return json_answer(answer(response)) if reason is None else refusal(http.HTTPStatus.CONFLICT, reason)


def _object(request: HttpRequest) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        given = json.dumps(body)[:GIVEN_SHOWN_MAX]
        raise BadRequestError(f'a change is a JSON object such as {{"topic": "orders"}}, not {given}')
    return body
