"""What is measured of a broker, as one timeline.

Rules of this file: it only brings together: the server tells it what happened, and each part is told what concerns it,
without a call in between on the way of a request.
"""

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
    """A `stages.timeline.Timeline`.

    Args:
        api_names: names of the APIs that are served.
        mode: of the broker.
    """

    def __init__(self, api_names: Mapping[int, str], mode: Mode) -> None:
        self.requests = RequestMetrics(api_names, mode)
        self.commits = CommitMetrics()
        self.request_ended = self.requests.request_ended  # type: ignore[method-assign]  # see the rules
        self.request_dropped = self.requests.request_dropped  # type: ignore[method-assign]  # see the rules
        self.commit_ended = self.commits.commit_ended  # type: ignore[method-assign]  # see the rules

    def drain(self, at_ns: int) -> Steps[None]:
        """Fill the histograms; call it regularly."""
        yield from self.requests.drain(at_ns)
        self.commits.drain(at_ns)
