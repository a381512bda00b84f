"""Planes of request handling: a request channel with its handlers, for data or for administration.

Planes share the committer and the application, and nothing else. Full queues or waiting handlers of one plane therefore
do not delay the other.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import trio

from stages.committer import Committer
from stages.loop_turns import LoopTurns
from stages.mode import SHARED_QUEUE, Mode
from stages.request_channel import RequestChannel, RequestQueueStatistics
from stages.request_handler import Application, RequestHandlerPool, RequestHandlerStatistics
from stages.response_sender import ResponseSender
from stages.server_limits import ServerLimits
from stages.timeline import Timeline

__all__ = ["RequestPlane", "RequestPlaneStatistics", "control_plane", "data_plane"]

CONTROL_REQUESTS_MAX = 20
"""Capacity of the control plane's queue, as in Apache Kafka 3.9."""
CONTROL_QUEUE_INDEX = -1
"""Number of the control plane's queue in statistics and traces; queues of the data plane count from 0."""


class RequestPlaneStatistics(NamedTuple):
    queues: tuple[RequestQueueStatistics, ...]
    handlers: RequestHandlerStatistics


class RequestPlane:
    def __init__(self, mode: Mode, channel: RequestChannel, handlers: RequestHandlerPool) -> None:
        self.channel = channel
        self.handlers = handlers
        self._mode = mode

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.handlers.run(self._mode.handlers if self._mode.is_shared_queue else 1, task_status=task_status)

    def observe(self, timeline: Timeline | None) -> None:
        self.handlers.observe(timeline)

    def statistics(self) -> RequestPlaneStatistics:
        return RequestPlaneStatistics(tuple(self.channel.statistics()), self.handlers.statistics())


def data_plane(
    mode: Mode,
    application: Application,
    committer: Committer,
    sender: ResponseSender,
    turns: LoopTurns,
    limits: ServerLimits,
) -> RequestPlane:
    """Create the plane of ordinary listeners, with the queues and handlers of `mode`."""
    channel = RequestChannel(mode, requests_max=limits.requests_max, bytes_max=limits.bytes_max)
    return RequestPlane(mode, channel, RequestHandlerPool(channel, application, committer, sender, turns))


def control_plane(
    mode: Mode,
    application: Application,
    committer: Committer,
    sender: ResponseSender,
    turns: LoopTurns,
    limits: ServerLimits,
    timeline: Timeline | None = None,
) -> RequestPlane:
    """Create the plane of administration, with one small queue and one handler in both modes.

    Its byte budget is separate from the data plane's and has the same size.
    """
    mode = attrs.evolve(mode, queues=SHARED_QUEUE, handlers=1)
    channel = RequestChannel(
        mode, requests_max=CONTROL_REQUESTS_MAX, bytes_max=limits.bytes_max, first_index=CONTROL_QUEUE_INDEX
    )
    return RequestPlane(mode, channel, RequestHandlerPool(channel, application, committer, sender, turns, timeline))
