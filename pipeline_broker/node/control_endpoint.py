"""The HTTP endpoint of operator commands, for tests in any language: JSON in and out, on a loopback address only.

`POST /` carries a command as on the admin socket, and the token in the header `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from pipeline_broker.node.errors import StartError
from pipeline_broker.node.operator_commands import COMMAND_BYTES_MAX, Command, answer_of
from pipeline_broker.web.bearer_tokens import bears_token
from pipeline_broker.web.hosts import is_loopback, parse_host_port
from pipeline_broker.web.http_server import HttpLimits, open_listeners, require_h11, serve_http
from pipeline_broker.web.messages import JSON_TYPE, Answer, HttpRequest, refusal
from pipeline_broker.web.strangers import SameOriginCheck

if TYPE_CHECKING:
    from pipeline_broker.base.byte_budget import ByteBudget

__all__ = ["PATH", "read_address", "serve_control"]

PATH = "/"
WHAT = "the control endpoint"
LIMITS = HttpLimits(connections_max=16, response_seconds=5.0, body_bytes_max=COMMAND_BYTES_MAX)


def read_address(place: str) -> tuple[str, int]:
    """Return the host and port of `--control`.

    Raises:
        StartError: `place` is not of the form [HOST:]PORT, or the host is not a loopback address.
        UnavailableError: h11 is not installed.
    """
    require_h11(WHAT)
    try:
        host, port = parse_host_port(place)
    except ValueError as error:
        raise StartError(f"--control: {error}") from None
    if not is_loopback(host):
        raise StartError(f"--control: {host} is not a loopback address. Give the PORT alone")
    return host, port


async def serve_control(
    host: str,
    port: int,
    token: str,
    commands: Mapping[str, Command],
    edges: ByteBudget,
    *,
    fatal: tuple[type[Exception], ...] = (),
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve commands until cancelled.

    Args:
        host: a loopback address.
        port: 0 takes a free one.
        token: the secret that each request must bear.
        commands, fatal: as of `answer_of`. A fatal error is raised here.
        edges: memory budget, charged for connections.
        task_status: started with the URL.

    Raises:
        UnavailableError: the port is not available.
    """
    listeners = await open_listeners(WHAT, host, port, LIMITS, "--control")
    place = SameOriginCheck(host=host, any_address=False)

    async with trio.open_nursery() as nursery:

        async def answer(request: HttpRequest) -> Answer:
            if (refused := _refusal(request, place, token)) is not None:
                return refused
            try:
                answered = await answer_of(request.body, commands, fatal)
            except Exception as error:
                # The HTTP server would only log it.
                nursery.start_soon(_raise, error)
                raise
            status = http.HTTPStatus.BAD_REQUEST if answered.is_refusal else http.HTTPStatus.OK
            return Answer(status=status, body=answered.text, content_type=JSON_TYPE)

        bound = listeners[0].socket.getsockname()[1]
        task_status.started(f"http://{f'[{host}]' if ':' in host else host}:{bound}")
        await serve_http(listeners, answer, LIMITS, edges)


def _refusal(request: HttpRequest, place: SameOriginCheck, token: str) -> Answer | None:
    if (reason := place.refusal(request.headers)) is not None:
        return refusal(http.HTTPStatus.FORBIDDEN, reason)
    if not bears_token(request.headers, token):
        reason = "the token is missing or wrong; send the content of the token file as Authorization: Bearer TOKEN"
        return refusal(http.HTTPStatus.UNAUTHORIZED, reason, ("WWW-Authenticate", "Bearer"))
    if request.path != PATH:
        return refusal(http.HTTPStatus.NOT_FOUND, f"unknown path; use {PATH}")
    if request.method != "POST":
        return refusal(http.HTTPStatus.METHOD_NOT_ALLOWED, "unsupported method; use POST", ("Allow", "POST"))
    return None


async def _raise(error: Exception) -> None:
    raise error
