"""What happens on the request path while somebody watches: exact numbers, and samples of the rest.

Rules of this file: as in `telemetry`, an event costs the event loop a count and now and then a row; everything that is
kept has a bound, and `take` empties it. Rows of requests are those of `sampled_rows`: all of a rare API, about sixty in
a second of a busy one. Beside them the first requests of each interval are kept one behind the other, connection by
connection: the order of responses can be seen in neighbours only, not in a sample. After `rest` requests that come
until the next `take` are not looked at at all, and queues neither; those that came before are, to their end, and stand
for the others. Who sent a request, and what it names, is kept while somebody looks at single requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import attrs

from pipeline_broker.dashboard.origins import Origin, origin_of
from pipeline_broker.telemetry.answer_errors import errors_of
from pipeline_broker.telemetry.recent_requests import NO_NAMES, RequestNames
from pipeline_broker.telemetry.sampled_rows import Row, SampledRows
from pipeline_broker.traces.broker_tables import TracedRequest
from pipeline_broker.traces.request_rows import dropped_values, ended_values
from stages.timeline import Timeline, now_ns

__all__ = ["CommitRow", "Interval", "MuteSpan", "QueueDepth", "WatchedApi", "WatchedPipeline", "WatchedRequest"]

SERIES_MAX = 256
"""APIs and versions that are told apart; what comes later, and what no API is, counts as other."""
OTHER_API = -1
LOOKS_MAX = 512
"""Requests of one interval that are looked at for the lanes: a millisecond, whatever the load."""
LANES_MAX = 16
"""Connections whose requests are kept for the lanes."""
LANE_ROWS_MAX = 20
"""Requests of one connection that are kept, one behind the other."""
ORIGINS_MAX = 512
"""Requests of one interval whose origin is kept: what one names may take 60 KB."""
MUTES_MAX = 512
"""Spans without reading that are kept of one interval; the sums count all."""
QUEUES_MAX = 256


class WatchedRequest(TracedRequest):
    """A request that ended, the least error code of its answer, 0 for none, and its origin, if that is kept."""

    def __init__(self, row: Row) -> None:
        self.error: int
        self.origin: Origin | None
        *values, self.error, self.origin = row
        super().__init__(tuple(values))


class MuteSpan(NamedTuple):
    """A time in which a connection was not read, and why (a MuteReason)."""

    connection: int
    reason: int
    began_ns: int
    ended_ns: int


class CommitRow(NamedTuple):
    """One commit."""

    entries: int
    size_bytes: int
    started_ns: int
    written_ns: int
    durable_ns: int


@attrs.define
class QueueDepth:
    """How many requests waited when a handler of the queue began a turn."""

    depth_max: int = 0
    turns: int = 0


@attrs.frozen
class WatchedApi:
    """The requests of one API in one version in an interval; `rows` stand for all `count` of them."""

    api: int
    version: int
    count: int
    rows: Sequence[WatchedRequest]


@attrs.frozen
class Interval:
    """What happened between two calls of `take`.

    Attributes:
        began_ns, ended_ns: of the clock of the stamps.
        apis: what was asked for; none that was not.
        lanes: of some connections the first requests that ended, in the order in which they left.
        lanes_began_ns: from when on requests were looked at for that.
        mutes: the first of them; `mute_counts` and `mute_ns`, by reason, count all.
        queues: by the number of the queue.
        commits: rows that stand for all `commit_count` of them.
        watched: the share of the time in which requests that came were looked at; the counts of requests are what that
            makes of the whole.
    """

    began_ns: int
    ended_ns: int
    apis: Sequence[WatchedApi]
    lanes: dict[int, list[WatchedRequest]]
    mutes: Sequence[MuteSpan]
    mute_counts: Counter[int]
    mute_ns: Counter[int]
    queues: dict[int, QueueDepth]
    commits: Sequence[CommitRow]
    commit_count: int
    watched: float = 1.0

    @property
    def requests_per_second(self) -> float:
        """Of all APIs together."""
        return sum(api.count for api in self.apis) / max(self.seconds, 1e-9)

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.ended_ns - self.began_ns) / 1e9


class WatchedPipeline(Timeline):
    """A `stages.timeline.Timeline`; see the rules of the file.

    Args:
        apis: keys of the APIs that are served.
        at_ns: when it begins.
        names_of: how to learn what a request names that has ended.

    Attributes:
        keeps_origins: whether rows have the origin of their request from now on.
    """

    times_requests = True

    def __init__(
        self,
        apis: Collection[int],
        at_ns: int,
        names_of: Callable[[Any], Callable[[], RequestNames]] = lambda _: lambda: NO_NAMES,
    ) -> None:
        self.keeps_origins = False
        self._names_of = names_of
        self._apis = frozenset(apis)
        self._series: dict[int, SampledRows] = {}
        self._counted: dict[int, int] = {}
        self._other = SampledRows()
        self._commits = SampledRows()
        self._commits_counted = 0
        self._began_ns = at_ns
        self._rested_ns = 0
        self.times_requests = self.samples_queues = True
        self._begin()

    def _begin(self) -> None:
        """An interval without anything."""
        self._looks_left, self._origins_left = LOOKS_MAX, ORIGINS_MAX
        self._lanes: dict[int, list[WatchedRequest]] = {}
        self._mutes: list[MuteSpan] = []
        self._mute_counts: Counter[int] = Counter()
        self._mute_ns: Counter[int] = Counter()
        self._queues: dict[int, QueueDepth] = {}

    # On the event loop, per event

    def request_ended(self, request: Any) -> None:
        series = self._series.get((request.api << 16) + request.version)
        if series is None:
            series = self._open(request.api, request.version)
        series.until_row -= 1
        if not series.until_row:
            series.add(self._ended(request))
        if self._looks_left:
            self._look(request)

    def request_dropped(self, request: Any) -> None:
        """See Timeline: its response never left."""
        series = self._series.get((request.api << 16) + request.version)
        if series is None:
            series = self._open(request.api, request.version)
        series.until_row -= 1
        if not series.until_row:
            series.add(self._dropped(request))

    def commit_ended(self, commit: Any) -> None:
        commits = self._commits
        commits.until_row -= 1
        if not commits.until_row:
            commits.add(
                CommitRow(
                    len(commit.entries), commit.size_bytes, commit.started_ns, commit.written_ns, commit.durable_ns
                )
            )

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        self._mute_counts[reason] += 1
        self._mute_ns[reason] += ended_ns - began_ns
        if len(self._mutes) < MUTES_MAX:
            self._mutes.append(MuteSpan(connection_index, reason, began_ns, ended_ns))

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:  # noqa: ARG002 - as Timeline has it
        seen = self._queues.get(queue)
        if seen is None:
            if len(self._queues) >= QUEUES_MAX:
                return
            seen = self._queues[queue] = QueueDepth()
        seen.turns += 1
        if depth > seen.depth_max:
            seen.depth_max = depth

    def _ended(self, request: Any) -> Row:
        return (*ended_values(request), *self._seen(request))

    def _dropped(self, request: Any) -> Row:
        """Its connection is closed: it ended now."""
        return (*dropped_values(request)[:-1], now_ns(), *self._seen(request))

    def _seen(self, request: Any) -> tuple[int, Origin | None]:
        origin = None
        if self.keeps_origins and self._origins_left:
            self._origins_left -= 1
            origin = origin_of(request, self._names_of)
        return min(errors_of(request.answer), default=0), origin

    def _open(self, api: int, version: int) -> SampledRows:
        if api not in self._apis or version < 0 or len(self._series) >= SERIES_MAX:
            return self._other
        return self._series.setdefault((api << 16) + version, SampledRows())

    def _look(self, request: Any) -> None:
        """Keep the request for the lanes, if its connection has room."""
        self._looks_left -= 1
        index = request.connection.index
        lane = self._lanes.get(index)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                return
            lane = self._lanes[index] = []
        if len(lane) < LANE_ROWS_MAX and request.received_ns and request.dequeued_ns:
            lane.append(WatchedRequest(self._ended(request)))

    # In batches

    def rest(self, at_ns: int) -> None:
        """Look at no request that comes from now until the next call of `take`."""
        self.times_requests = self.samples_queues = False
        self._rested_ns = at_ns

    def take(self, at_ns: int) -> Interval:
        """What happened since the last call."""
        seen_ns = (at_ns if self.times_requests else self._rested_ns) - self._began_ns
        watched = max(1, seen_ns) / max(1, at_ns - self._began_ns)
        commit_rows, _ = self._commits.take()
        commit_count, self._commits_counted = self._commits.count - self._commits_counted, self._commits.count
        interval = Interval(
            began_ns=self._began_ns,
            ended_ns=at_ns,
            apis=[taken for key in (*self._series, OTHER_API) if (taken := self._take_api(key, watched)).count],
            lanes={index: lane for index, lane in self._lanes.items() if lane},
            mutes=self._mutes,
            mute_counts=self._mute_counts,
            mute_ns=self._mute_ns,
            queues=self._queues,
            commits=[CommitRow(*row) for row in commit_rows],
            commit_count=commit_count,
            watched=watched,
        )
        self._began_ns = at_ns
        self.times_requests = self.samples_queues = True
        self._begin()
        return interval

    def _take_api(self, key: int, watched: float) -> WatchedApi:
        series = self._other if key == OTHER_API else self._series[key]
        rows, _ = series.take()
        before, self._counted[key] = self._counted.get(key, 0), series.count
        # A request that was on its way when somebody began to watch has no stamps of what it had passed.
        whole = [row for row in map(WatchedRequest, rows) if row.received_ns and row.dequeued_ns]
        api, version = (OTHER_API, 0) if key == OTHER_API else (key >> 16, key & 0xFFFF)
        return WatchedApi(api, version, round((series.count - before) / watched), whole)
