"""Requests of the embedding program, sent through the broker's dispatcher (see `node.calls_within`)."""

from __future__ import annotations

from typing import Any

import trio

from pipeline_broker.apis.call import Session
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import Running
from pipeline_broker.node.calls_within import Caller, CallFailedError

__all__ = ["ask"]

NAME = "embedded-broker"
HOST = "127.0.0.1"


def program() -> Session:
    # The program may do everything, whatever ACLs say.
    return Session(host=HOST, listener=NAME, is_privileged=True, is_trusted=True)


async def ask(running: Running, message: Any, now_ms: int) -> Any:
    """Send a request with all permissions, and return its response once the cluster shows its changes.

    Raises:
        EmbeddedBrokerError: the broker would have closed the connection of a client.
    """
    try:
        answer = await Caller(running.server, running.broker, program()).ask(message, now_ms)
    except CallFailedError as error:
        raise EmbeddedBrokerError(str(error)) from None
    cluster = running.broker.ports.cluster
    if cluster is not None and running.broker.controller is None:
        applied = trio.Event()
        cluster.when_applied(applied.set)
        await applied.wait()
    return answer
