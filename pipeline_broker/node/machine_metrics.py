"""The metrics endpoint of a cluster: one text with the metrics of all brokers of the machine."""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.base.steps import Steps
from pipeline_broker.node.metrics_endpoint import serve_metrics
from pipeline_broker.security.http_security import HttpSecurity
from pipeline_broker.telemetry.merged_metrics import merge_metrics

__all__ = ["BrokerState", "MachineMetrics"]

logger = logging.getLogger(__name__)

SCRAPE_SECONDS = 3.0
"""Time for all brokers to answer a scrape; one that does not is missing in the text."""
ANSWER_BYTES_MAX = 64 << 20
EDGE_BYTES = 256 << 20
STATE = """# HELP pipeline_broker_up 1 while a broker serves and answers its supervisor
# TYPE pipeline_broker_up gauge
pipeline_broker_up {is_up:d}
# HELP pipeline_broker_ends_total Ends of the broker's process, including kills because it was silent
# TYPE pipeline_broker_ends_total counter
pipeline_broker_ends_total {ends}
"""


class BrokerState(NamedTuple):
    is_up: bool
    ends: int


class MachineMetrics:
    """The endpoint of the supervisor.

    Args:
        security: TLS and users of this endpoint, and of those of the brokers.

    Attributes:
        urls: endpoints of the brokers, by their ids.
    """

    def __init__(self, security: HttpSecurity) -> None:
        self._security = security
        self.urls: dict[int, str] = {}
        self._texts: Mapping[int, str] = {}
        self._states: Callable[[], Mapping[int, BrokerState]] = dict

    async def run(
        self,
        host: str,
        port: int,
        names: tuple[str, ...],
        *,
        not_ready: Callable[[], str | None],
        states: Callable[[], Mapping[int, BrokerState]],
        task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled.

        Args:
            states: returns the state of each broker, by its id.

        Raises:
            UnavailableError: the port is not available.
        """
        self._states = states
        await serve_metrics(
            host,
            port,
            self._render,
            ByteBudget(EDGE_BYTES),
            names,
            not_ready,
            prepare=self._scrape,
            security=self._security,
            task_status=task_status,
        )

    async def _scrape(self) -> None:
        texts: dict[int, str] = {}
        users = self._security.users
        header = "" if users is None else f"Authorization: {users.authorization}\r\n"
        with trio.move_on_after(SCRAPE_SECONDS):
            async with trio.open_nursery() as nursery:
                for node_id, state in self._states().items():
                    if state.is_up and node_id in self.urls:
                        nursery.start_soon(_scrape_one, node_id, self.urls[node_id], texts, header)
        self._texts = texts

    def _render(self) -> Steps[bytes]:
        texts = {
            node_id: STATE.format_map(state._asdict()) + self._texts.get(node_id, "")
            for node_id, state in self._states().items()
        }
        return (yield from merge_metrics(texts))


async def _scrape_one(node_id: int, url: str, texts: dict[int, str], header: str) -> None:
    address = urllib.parse.urlsplit(url)
    assert address.hostname is not None, "a broker prints the whole URL"
    assert address.port is not None, "as above"
    try:
        stream = await _connect(address.hostname, address.port, address.scheme)
        async with stream:
            await stream.send_all(f"GET {address.path} HTTP/1.0\r\n{header}\r\n".encode())
            received = b""
            async for chunk in stream:
                received += chunk
                if len(received) > ANSWER_BYTES_MAX:
                    raise ValueError("the answer is too long")  # noqa: TRY301 - handled like a broken connection
        head, _, body = received.partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] == [b"200"]:
            texts[node_id] = body.decode()
    except (OSError, trio.BrokenResourceError, ValueError) as error:
        logger.info("broker %d has no metrics now: %s", node_id, error)


async def _connect(host: str, port: int, scheme: str) -> trio.abc.Stream:
    stream = await trio.open_tcp_stream(host, port)
    if scheme == "http":
        return stream
    import ssl  # noqa: PLC0415 - only for TLS

    # The address is that of a process that this one started, and its certificate is for the names of clients.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return trio.SSLStream(stream, context, https_compatible=True)
