"""What is changed through the dashboard: the offsets of an empty group, and the fault rules.

Rules of this file: on Trio; whoever comes here has passed `access.py`. What is decided is decided by the rooms that the
other ways lead to as well, and what they refuse is an answer with their line. A change is answered when it is durable.
"""

from __future__ import annotations

import http
from typing import Any

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard import groups_view
from pipeline_broker.dashboard.log_threads import find_offsets
from pipeline_broker.faults.commands import carry_out
from pipeline_broker.faults.names import FaultError
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, json_answer, refusal
from stages.committer import Submission
from stages.request import Pending
from stages.socket_server import SocketServer

__all__ = ["Changes"]

RESET_SECONDS = 10.0
"""How long a reset may take to become durable before its client is told that it does not know."""


class Changes:
    """See the rules of the file.

    Args:
        server: commits what is changed.
        broker: what is changed.
        threads: where logs are read.
    """

    def __init__(self, server: SocketServer, broker: Broker, threads: trio.CapacityLimiter) -> None:
        self._server, self._broker, self._threads = server, broker, threads

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
        durable = trio.Event()

        def on_durable() -> None:
            if pending.on_durable is not None:
                pending.on_durable()
            durable.set()

        self._server.submit(Submission(pending.entries, on_durable=on_durable))
        with trio.move_on_after(RESET_SECONDS):
            await durable.wait()
        return durable.is_set()

    async def faults(self, request: HttpRequest, action: str) -> Answer:
        """Do one of the actions of `pipeline_broker.faults.commands`; rules live as long as the process."""
        body = _object(request)
        await trio.lowlevel.checkpoint()
        try:
            return json_answer(carry_out(self._broker, action, body, "dashboard"))
        except FaultError as error:
            return refusal(http.HTTPStatus.CONFLICT, str(error))


def _object(request: HttpRequest) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    return body
