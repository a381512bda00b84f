"""Requests of the embedding program: see `node.calls_within`.

Rules of this file: on the event loop; what fails is an EmbeddedBrokerError.
"""

from __future__ import annotations

from typing import Any

from pipeline_broker.apis.call import Session
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import Running
from pipeline_broker.node.calls_within import Caller, CallFailedError

__all__ = ["ask"]

NAME = "embedded-broker"
HOST = "127.0.0.1"


def program() -> Session:
    """The session of the embedding program, which may do everything."""
    return Session(host=HOST, listener=NAME, is_privileged=True, is_trusted=True)


async def ask(running: Running, message: Any, now_ms: int) -> Any:
    """The response to a request of somebody who may do everything; see `Caller.ask`.

    Raises:
        EmbeddedBrokerError: a connection would have been closed.
    """
    try:
        return await Caller(running.server, running.broker, program()).ask(message, now_ms)
    except CallFailedError as error:
        raise EmbeddedBrokerError(str(error)) from None
