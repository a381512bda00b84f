"""What is changed through the dashboard, and what it asks by Kafka's own requests.

Rules of this file: on Trio; a request comes here when it has passed `access.py`. What is decided is decided by the
rooms that the other ways lead to as well, and what they refuse is an answer with their line. A change is answered when
it is durable.
"""

from __future__ import annotations

import http
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, TypeAlias

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard import groups_view
from pipeline_broker.dashboard.administration import CHANGES, QUESTIONS, ROWS_MAX, WishError, refusal_in
from pipeline_broker.dashboard.log_threads import find_offsets
from pipeline_broker.faults.commands import carry_out
from pipeline_broker.faults.names import FaultError
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, json_answer, refusal
from stages.durable import wait_durable
from stages.request import Pending
from stages.socket_server import SocketServer

__all__ = ["Ask", "Changes"]

Ask: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Has the broker handle a request as the dashboard's principal; its response."""

CHANGE_SECONDS = 10.0
"""How long a change may take to become durable before its page is told that it is not yet."""


class Changes:
    """See the rules of the file.

    Args:
        server: commits what is changed.
        broker: what is changed.
        threads: where logs are read.
        ask: asks the broker.
    """

    def __init__(self, server: SocketServer, broker: Broker, threads: trio.CapacityLimiter, ask: Ask) -> None:
        self._server, self._broker, self._threads, self._ask = server, broker, threads, ask

    async def change(self, request: HttpRequest, name: str) -> Answer:
        """Do one of CHANGES."""
        wanted = CHANGES[name]
        response = None
        with trio.move_on_after(CHANGE_SECONDS):
            try:
                response = await self._ask(wanted.request(self._broker, _object(request)))
            except WishError as error:
                return refusal(http.HTTPStatus.CONFLICT, str(error))
        if response is None:
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, "the change is not durable yet: look again")
        reason = refusal_in(wanted.results(response))
        return json_answer(wanted.answer(response)) if reason is None else refusal(http.HTTPStatus.CONFLICT, reason)

    async def question(self, request: HttpRequest, name: str) -> Answer:
        """Ask one of QUESTIONS: rows, or why there are none."""
        del request
        wanted = QUESTIONS[name]
        response = await self._ask(wanted.request())
        rows = list(islice(wanted.rows(response), ROWS_MAX + 1))
        return json_answer(
            {"rows": rows[:ROWS_MAX], "is_cut": len(rows) > ROWS_MAX, "reason": refusal_in([response]) or ""}
        )

    async def reset_offsets(self, request: HttpRequest, argument: str) -> Answer:
        """Commit other offsets for a group without members."""
        del argument
        body = _object(request)
        try:
            wish = groups_view.ResetWish.from_json(str(body.get("group", "")), body)
            offsets = await find_offsets(groups_view.plan_reset(self._broker, wish), self._threads)
            result = groups_view.commit_reset(self._broker, wish, offsets, self._broker.ports.clock_ms())
        except groups_view.ResetRefusedError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))
        if isinstance(result, Pending) and not await self._durable(result):
            return refusal(http.HTTPStatus.GATEWAY_TIMEOUT, "the reset is not durable yet: look again")
        return json_answer({"offsets": {str(partition): offset for partition, offset in offsets.items()}})

    async def _durable(self, pending: Pending) -> bool:
        """Commit, and wait until that is durable; False when it takes too long."""
        with trio.move_on_after(CHANGE_SECONDS):
            return await wait_durable(self._server, pending.entries, pending.on_durable) is None
        return False

    async def faults(self, request: HttpRequest, action: str) -> Answer:
        """Do one of the actions of `pipeline_broker.faults.commands`; rules live as long as the process."""
        await trio.lowlevel.checkpoint()
        body = _object(request)
        try:
            return json_answer(carry_out(self._broker, action, body, "dashboard"))
        except FaultError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))


def _object(request: HttpRequest) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    return body
