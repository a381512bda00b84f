"""The callers of requests over HTTP: each acts with the rights of its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.call import Session
from pipeline_broker.node.calls_within import Caller
from pipeline_broker.security.principal import ANONYMOUS, USER, KafkaPrincipal

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.web.messages import HttpRequest
    from stages.socket_server import SocketServer

__all__ = ["HttpCallers"]


class HttpCallers:
    """The callers of one HTTP port.

    Args:
        listener: the listener name and client id of their requests; no such listener exists.
        principal: `TYPE:NAME`, the principal of requests without a user. None gives them all rights.
    """

    def __init__(self, server: SocketServer, broker: Broker, listener: str, principal: str | None = None) -> None:
        self._server, self._broker, self._listener = server, broker, listener
        self._principal = None if principal is None else KafkaPrincipal(*principal.split(":", 1))

    def caller_of(self, request: HttpRequest) -> Caller:
        user = request.user
        principal = self._principal if user is None else KafkaPrincipal(USER, user.name)
        session = Session(
            host=request.peer,
            listener=self._listener,
            principal=principal or ANONYMOUS,
            is_trusted=principal is None,
        )
        return Caller(self._server, self._broker, session)
