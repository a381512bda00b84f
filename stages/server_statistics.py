"""A server as it stands: every stage, in the order in which a request passes them.

Rules of this room: it shows what the stages say of themselves and computes nothing.
"""

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
    """Every stage as it stands, in the order in which a request passes them.

    Attributes:
        queues: of the data plane.
        handlers: of the data plane.
        control_plane: the other plane, once there is one.
        listeners: sums over the processors of each.
        connections_excess: open connections above the maximum, which only a protected listener, or a lowered limit,
            can cause.
        partial_frames: large frames that are still arriving.
        unsent_responses: responses that clients have not taken.
        turns: who kept the event loop for long, the longest first.
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
