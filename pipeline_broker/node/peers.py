"""Requests of a broker to the other brokers of its machine: its own, and those of its clients that it forwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import trio

from pipeline_broker.apis.call import Session
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.node.peer_link import PeerLink
from pipeline_broker.node.peer_socket import PeerError
from pipeline_broker.wire.codec import decode, encode, versions_of
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from stages.request import PARKED, Request, Result, Send

__all__ = ["Peers"]

logger = logging.getLogger(__name__)

Response = TypeVar("Response")

OWN_IDENTITY = {
    "host": "",
    "listener": "",
    "security_protocol": "PLAINTEXT",
    "principal": ["User", "ANONYMOUS"],
    "is_by_token": False,
    "is_privileged": True,
    "is_trusted": True,
}
"""The identity of a broker's own requests: its peers trust it, because only processes of the same user can connect."""


class Peers:
    """The connections to all peers, opened when they are needed.

    Args:
        directory: directory of the cluster.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._nursery: trio.Nursery | None = None
        self._links: dict[Hashable, tuple[int, PeerLink]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for key, (node_id, link) in self._links.items():
                    nursery.start_soon(self._run_link, key, node_id, link)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def ask(
        self, node_id: int, request: Any, response_type: type[Response], done: Callable[[Response | None], None]
    ) -> None:
        """Send a request of this broker.

        Args:
            done: called once with the response, or with None if the connection broke before it.
        """
        version = versions_of(type(request))[-1]
        header = encode_request_header(RequestHeader(request.SCHEMA.key, version, 0, None))

        def answered(frame: bytes | None) -> None:
            if frame is None:
                done(None)
                return
            _, position = read_response_header(request.SCHEMA.key, version, frame)
            done(decode(response_type, version, frame, position)[0])

        self._link(node_id, node_id, OWN_IDENTITY).add(b"".join((header, *encode(request, version))), answered)

    def forward(self, node_id: int, request: Request, refuse: Callable[[Request, ErrorCode], Result]) -> Result:
        """Send the request of a client under its identity, and return a result that waits for the response.

        Args:
            refuse: returns the error response if no response arrives.
        """
        session = request.connection.session
        assert isinstance(session, Session), "the dispatcher has made it"
        identity = {
            "host": session.host,
            "listener": session.listener,
            "security_protocol": session.security_protocol,
            "principal": [session.principal.type, session.principal.name],
            "is_by_token": session.is_by_token,
            "is_privileged": session.is_privileged,
            "is_trusted": session.is_trusted,
        }

        def answered(frame: bytes | None) -> None:
            # The request may have had its effect; the client finds out when it tries again.
            request.complete(refuse(request, ErrorCode.REQUEST_TIMED_OUT) if frame is None else Send(frame))

        self._link(session, node_id, identity).add(bytes(request.frame), answered)
        return PARKED

    def connection_closed(self, session: object) -> None:
        known = self._links.pop(session, None)
        if known is not None:
            known[1].scope.cancel()

    def _link(self, key: Hashable, node_id: int, identity: dict[str, Any]) -> PeerLink:
        known = self._links.get(key)
        if known is not None:
            return known[1]
        link = PeerLink(self._directory, node_id, identity)
        self._links[key] = node_id, link
        # Transactions of an earlier life may ask for their ends before the peers run.
        if self._nursery is not None:
            self._nursery.start_soon(self._run_link, key, node_id, link)
        return link

    async def _run_link(self, key: Hashable, node_id: int, link: PeerLink) -> None:
        try:
            await link.run()
        except* (PeerError, OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as errors:
            logger.info("lost the connection to broker %d: %s", node_id, first_cause(errors))
        finally:
            if self._links.get(key) == (node_id, link):
                del self._links[key]
