"""What is measured of a broker, as one timeline.

Rules of this file: it only brings together: the server tells it what happened, and each part is told what concerns it,
without a call in between on the way of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline_broker.telemetry.commit_metrics import CommitMetrics
from pipeline_broker.telemetry.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from stages.mode import Mode

__all__ = ["Measurements"]


class Measurements:
    """A `stages.timeline.Timeline`.

    Args:
        api_names: names of the APIs that are served.
        mode: of the broker.
    """

    samples_queues = False  # their sizes are read when they are asked for
    times_requests = True

    def __init__(self, api_names: Mapping[int, str], mode: Mode) -> None:
        self.requests = RequestMetrics(api_names, mode)
        self.commits = CommitMetrics()
        self.request_ended = self.requests.request_ended
        self.request_dropped = self.requests.request_dropped
        self.commit_ended = self.commits.commit_ended

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """See Timeline; Kafka has no metric of it."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """See Timeline; it is not called."""

    def drain(self, at_ns: int) -> None:
        """Fill the histograms; call it regularly."""
        self.requests.drain(at_ns)
        self.commits.drain(at_ns)
