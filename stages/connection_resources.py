"""The resources that all connections of one processor share."""

from __future__ import annotations

from typing import Protocol

from stages.connection_limits import ConnectionLimits
from stages.network_counters import NetworkCounters
from stages.partial_frames import PartialFrameBudget
from stages.request_channel import RequestChannel
from stages.response_sender import ResponseSender
from stages.timeline import Timeline
from stages.unsent_responses import ResponseBudget

__all__ = ["ConnectionResources"]


class ConnectionResources(Protocol):
    channel: RequestChannel
    limits: ConnectionLimits
    counters: NetworkCounters
    sender: ResponseSender
    response_budget: ResponseBudget
    partial_frames: PartialFrameBudget
    timeline: Timeline | None
