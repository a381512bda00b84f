"""Recorded events of a replay, cut into one stretch for each round.

Departures of real flights are part of the repository, and a week is compressed to five seconds. The trace of a broker
(`serve --trace`) keeps its own pace.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

import attrs

from pipeline_broker.measure.experiment.plan import DEPARTURE_CONNECTIONS
from pipeline_broker.measure.load.client import LoadResult, run_to_end
from pipeline_broker.measure.load.departures import WEEK_S, Departure, read_departures
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.recorded import RecordedRequest, drive_recorded, read_trace
from pipeline_broker.measure.load.recorders import RowRecorder
from pipeline_broker.measure.load.replay import REPLAY_WEEK_S, ReplayOptions, run_replay

NS_PER_S = 1e9
Event = TypeVar("Event")


class Stretch(Protocol):
    """The events of one round.

    Attributes:
        connections: number of connections that send them.
        seconds: time from the first event to the last one.
    """

    @property
    def connections(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    def replay(self, host: str, port: int) -> LoadResult:
        """Send each event to a broker at its time.

        Raises:
            ClientError: the broker cannot be driven.
        """


@attrs.frozen(slots=True)
class DepartureStretch:
    departures: Sequence[Departure]
    connections: int = DEPARTURE_CONNECTIONS

    @property
    def seconds(self) -> float:
        return (self.departures[-1].time_s - self.departures[0].time_s) / WEEK_S * REPLAY_WEEK_S

    def replay(self, host: str, port: int) -> LoadResult:
        return run_replay(ReplayOptions(host, port, self.departures, partitions=self.connections))


@attrs.frozen(slots=True)
class TraceStretch:
    """A stretch of the produce requests of a trace; the first one has offset 0."""

    requests: Sequence[RecordedRequest]
    connections: int

    @property
    def seconds(self) -> float:
        return self.requests[-1].offset_ns / NS_PER_S

    def replay(self, host: str, port: int) -> LoadResult:
        return run_to_end(self._rows, LoadOptions(host, port, topic="replay"))

    async def _rows(self, options: LoadOptions) -> LoadResult:
        driven = await drive_recorded(options, self.requests, 1.0, lambda _: RowRecorder(is_open=True))
        rows = [row for index, recorder in enumerate(driven.recorders) for row in recorder.rows(index)]
        return LoadResult(rows, driven.clock.started_ns, driven.clock.ended_ns, driven.clock.cpu_share)


def departure_stretches(path: Path, rounds: int, *, whole_year: bool) -> list[Stretch]:
    departures = read_departures(path, busiest_week_only=not whole_year)
    return [DepartureStretch(part) for part in cut(departures, rounds, lambda departure: departure.time_s)]


def trace_stretches(path: Path, rounds: int) -> list[Stretch]:
    """Return the produce requests of a trace, cut into at most `rounds` stretches.

    Raises:
        ClientError: the trace cannot be read, or has no produce request.
    """
    requests = read_trace(path)
    connections = 1 + max(request.connection for request in requests)
    found: list[Stretch] = []
    for part in cut(requests, rounds, lambda request: request.offset_ns):
        began_ns = part[0].offset_ns
        moved = [attrs.evolve(request, offset_ns=request.offset_ns - began_ns) for request in part]
        found.append(TraceStretch(moved, connections))
    return found


def cut(events: Sequence[Event], count: int, time_of: Callable[[Event], int]) -> list[Sequence[Event]]:
    """Cut events into at most `count` parts of equal duration, and drop empty parts."""
    if not events:
        return []
    times = [time_of(event) for event in events]
    first, span = times[0], times[-1] - times[0] + 1
    cuts = [bisect_left(times, first + math.ceil(span * number / count)) for number in range(count + 1)]
    return [events[start:end] for start, end in pairwise(cuts) if start < end]
