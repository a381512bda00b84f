"""Statistics of a whole server."""

from __future__ import annotations

from typing import NamedTuple

from stages.acceptor import AcceptorStatistics
from stages.committer import CommitterStatistics
from stages.loop_turns import TurnsOf
from stages.partial_frames import PartialFrameStatistics
from stages.processor import ProcessorStatistics
from stages.request_channel import RequestQueueStatistics
from stages.request_handler import RequestHandlerStatistics
from stages.request_plane import RequestPlaneStatistics
from stages.served_listener import ListenerStatistics
from stages.unsent_responses import UnsentResponseStatistics

__all__ = ["SocketServerStatistics"]


class SocketServerStatistics(NamedTuple):
    """Statistics of all stages, in the order in which a request passes them.

    Attributes:
        queues: queues of the data plane.
        handlers: handlers of the data plane.
        control_plane: the control plane, if a listener belongs to it.
        listeners: sums over the processors of each listener.
        connections_excess: open connections above the maximum, caused by a protected listener or a lowered limit.
        partial_frames: arriving large frames.
        unsent_responses: responses that clients have not read.
        turns: long turns of the event loop, the longest first.
    """

    acceptors: tuple[AcceptorStatistics, ...]
    processors: tuple[ProcessorStatistics, ...]
    queues: tuple[RequestQueueStatistics, ...]
    handlers: RequestHandlerStatistics
    committer: CommitterStatistics
    control_plane: RequestPlaneStatistics | None = None
    listeners: tuple[ListenerStatistics, ...] = ()
    connections_excess: int = 0
    partial_frames: PartialFrameStatistics = PartialFrameStatistics()
    unsent_responses: UnsentResponseStatistics = UnsentResponseStatistics()
    turns: tuple[TurnsOf, ...] = ()
