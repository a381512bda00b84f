"""The metrics of requests and commits, as one timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline_broker.telemetry.commit_metrics import CommitMetrics
from pipeline_broker.telemetry.request_metrics import RequestMetrics
from stages.timeline import Timeline

if TYPE_CHECKING:
    from pipeline_broker.base.steps import Steps
    from stages.mode import Mode

__all__ = ["Measurements"]


class Measurements(Timeline):
    """A `stages.timeline.Timeline` that passes each event to the metrics that count it.

    Args:
        api_names: names of the served APIs by key.
    """

    def __init__(self, api_names: Mapping[int, str], mode: Mode) -> None:
        self.requests = RequestMetrics(api_names, mode)
        self.commits = CommitMetrics()
        # Bound here, so that the path of a request has no call in between.
        self.request_ended = self.requests.request_ended  # type: ignore[method-assign]  # an instance attribute
        self.request_dropped = self.requests.request_dropped  # type: ignore[method-assign]  # an instance attribute
        self.commit_ended = self.commits.commit_ended  # type: ignore[method-assign]  # an instance attribute

    def drain(self, at_ns: int) -> Steps[None]:
        """Fill the histograms with the waiting rows; call it regularly, each time after it has finished."""
        yield from self.requests.drain(at_ns)
        self.commits.drain(at_ns)
