"""The guard of an HTTP port that only users may use."""

from __future__ import annotations

import http
import json
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
NAME_CHARACTERS_MAX = 200
LOG_SECONDS = 60.0
"""Period in which a refused user is logged once, from each address."""
LOGGED_MAX = 20  # lines of a period
CHALLENGE = ("WWW-Authenticate", 'Basic realm="pipeline-broker", charset="UTF-8"')

logger = logging.getLogger(__name__)


class _FailedLogins:
    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()
        self._began_at, self._unlogged = float("-inf"), 0

    def add(self, name: str, peer: str, now: float) -> None:
        if now - self._began_at >= LOG_SECONDS:
            self._logged.clear()
            self._began_at = now
        name = name[:NAME_CHARACTERS_MAX]
        if (name, peer) in self._logged or len(self._logged) == LOGGED_MAX:
            self._unlogged += 1
            return
        self._logged.add((name, peer))
        # JSON in ASCII: a name cannot begin another line.
        user = f"the user {json.dumps(name)}" if name else "a user without a name"
        others = f" (not logged before: {self._unlogged})" if self._unlogged else ""
        logger.warning("an HTTP port refused %s from %s: unknown, or another password%s", user, peer, others)
        self._unlogged = 0


def guarded(handler: Handler, users: BasicUsers, open_paths: Collection[str] = ()) -> Handler:
    """Return a handler that answers requests of users only.

    Args:
        open_paths: paths that everyone may request.
    """
    refusing, failed = trio.Lock(), _FailedLogins()

    async def answer(request: HttpRequest) -> Answer | StreamedAnswer | EventStream:
        authorization = request.headers.get("authorization", "")
        user = users.find(authorization)
        if user is not None or request.path in open_paths:
            return await handler(attrs.evolve(request, user=user))
        if authorization:
            failed.add(users.claimed_name(authorization), request.peer, trio.current_time())
            async with refusing:
                await trio.sleep(REFUSAL_SECONDS)
            reason = "the name or the password of the user is wrong"
        else:
            reason = "the request has no user: send a name and a password (HTTP Basic)"
        return refusal(http.HTTPStatus.UNAUTHORIZED, reason, CHALLENGE)

    return answer
