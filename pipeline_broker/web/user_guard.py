"""The guard of an HTTP port that only users may use."""

from __future__ import annotations

import http
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

import attrs
import trio

from pipeline_broker.web.messages import Answer, EventStream, Handler, HttpRequest, StreamedAnswer, refusal

if TYPE_CHECKING:
    from pipeline_broker.security.basic_users import BasicUsers

__all__ = ["REFUSAL_SECONDS", "guarded"]

REFUSAL_SECONDS = 0.1
"""Time of each refused user on an HTTP port, one after the other, so that a port answers ten guesses a second."""
CHALLENGE = ("WWW-Authenticate", 'Basic realm="pipeline-broker", charset="UTF-8"')

logger = logging.getLogger(__name__)


def guarded(handler: Handler, users: BasicUsers, open_paths: Collection[str] = ()) -> Handler:
    """Return a handler that answers requests of users only.

    Args:
        open_paths: paths that everyone may request.
    """
    refusing = trio.Lock()

    async def answer(request: HttpRequest) -> Answer | StreamedAnswer | EventStream:
        authorization = request.headers.get("authorization", "")
        user = users.find(authorization)
        if user is not None or request.path in open_paths:
            return await handler(attrs.evolve(request, user=user))
        if authorization:
            logger.info("a user of an HTTP port is unknown, or has another password")
            async with refusing:
                await trio.sleep(REFUSAL_SECONDS)
            reason = "the name or the password of the user is wrong"
        else:
            reason = "the request has no user: send a name and a password (HTTP Basic)"
        return refusal(http.HTTPStatus.UNAUTHORIZED, reason, CHALLENGE)

    return answer
