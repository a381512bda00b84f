"""Request queues and the handlers that take from them: one plane for data, one for administration.

Rules of this room: planes share the committer and the application, and nothing else; so what saturates one, full queues
or handlers that wait, does not delay the other. The control plane exists once a listener asks for it. It is classic in
both modes: one queue of CONTROL_REQUESTS_MAX requests, one handler.
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
"""Capacity of the queue of the control plane, as Apache Kafka 3.9 had it."""
CONTROL_QUEUE_INDEX = -1
"""Its number in statistics and traces, where the queues of the data plane count from 0."""


class RequestPlaneStatistics(NamedTuple):
    """One plane as it stands."""

    queues: tuple[RequestQueueStatistics, ...]
    handlers: RequestHandlerStatistics


class RequestPlane:
    """See the rules of the room.

    Attributes:
        handlers: who takes from them.
    """

    def __init__(self, mode: Mode, channel: RequestChannel, handlers: RequestHandlerPool) -> None:
        self.channel = channel
        self.handlers = handlers
        self._mode = mode

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the handlers until cancelled."""
        await self.handlers.run(self._mode.handlers if self._mode.is_shared_queue else 1, task_status=task_status)

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
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
    """The plane of all listeners but those of the control plane: queues and handlers of the mode."""
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
    """The plane of administration; its byte budget is one of its own, as large as the data plane's."""
    mode = attrs.evolve(mode, queues=SHARED_QUEUE, handlers=1)
    channel = RequestChannel(
        mode, requests_max=CONTROL_REQUESTS_MAX, bytes_max=limits.bytes_max, first_index=CONTROL_QUEUE_INDEX
    )
    return RequestPlane(mode, channel, RequestHandlerPool(channel, application, committer, sender, turns, timeline))
