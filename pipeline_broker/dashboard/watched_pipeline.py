"""Counts and sampled timelines of the request path while a dashboard has viewers.

Per event, the event loop increments a count and sometimes stores a row. Everything kept is bounded, and `take` empties
it.
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

# Pairs of API and version with their own series. Later pairs and unknown APIs count as OTHER_API.
SERIES_MAX = 256
OTHER_API = -1
# Requests per interval that are examined for the lanes: this costs a millisecond at any load.
EXAMINED_MAX = 512
LANES_MAX = 16
LANE_ROWS_MAX = 20
# Requests per interval whose origin is kept: the names of one can take 60 KB.
ORIGINS_MAX = 512
"""Watched requests with names: 30 MB."""
# Mutes per interval that are kept; the sums include all of them.
MUTES_MAX = 512
QUEUES_MAX = 256


class WatchedRequest(TracedRequest):
    """A completed request with the lowest error code of its response (0 for none) and its origin, if that is kept."""

    def __init__(self, row: Row) -> None:
        self.error: int
        self.origin: Origin | None
        *values, self.error, self.origin = row
        super().__init__(tuple(values))


class MuteSpan(NamedTuple):
    """A time in which a connection was not read; `reason` is a MuteReason."""

    connection: int
    reason: int
    began_ns: int
    ended_ns: int


class CommitRow(NamedTuple):
    entries: int
    size_bytes: int
    started_ns: int
    written_ns: int
    durable_ns: int


@attrs.define
class QueueDepth:
    """The longest queue that a handler found at the start of a turn, and the number of turns."""

    depth_max: int = 0
    turns: int = 0


@attrs.frozen
class WatchedApi:
    """The requests of one API and version in an interval; `rows` are a sample of all `count` requests."""

    api: int
    version: int
    count: int
    rows: Sequence[WatchedRequest]


@attrs.frozen
class Interval:
    """The request path between two calls of `take`.

    Attributes:
        began_ns, ended_ns: on the clock of `stages.timeline`.
        apis: APIs with at least one request.
        lanes: by connection, the first completed requests in the order of their responses.
        mutes: the first mutes; `mute_counts` and `mute_ns` sum all of them by reason.
        queues: by the number of the queue.
        commits: a sample of all `commit_count` commits.
        watched: the share of the time in which new requests were observed. Counts of requests are scaled up by it.
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
        return sum(api.count for api in self.apis) / max(self.seconds, 1e-9)

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9


class WatchedPipeline(Timeline):
    """A `stages.timeline.Timeline` that samples requests.

    It keeps all requests of a rare API and about 60 per second of a busy one (see `sampled_rows`). It also keeps the
    first requests of each interval by connection without gaps: only neighbours show the order of responses.

    Args:
        apis: keys of the served APIs.
        at_ns: the start of the first interval.
        names_of: returns a function that reads the names in a completed request.

    Attributes:
        keeps_origins: whether new rows include the origin of their request.
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
        self._examined_left, self._origins_left = EXAMINED_MAX, ORIGINS_MAX
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
        if self._examined_left:
            self._keep_in_lane(request)

    def request_dropped(self, request: Any) -> None:
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

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:  # noqa: ARG002 - signature of Timeline
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
        # The connection is closed, so the request ends now.
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

    def _keep_in_lane(self, request: Any) -> None:
        self._examined_left -= 1
        index = request.connection.index
        lane = self._lanes.get(index)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                return
            lane = self._lanes[index] = []
        if len(lane) < LANE_ROWS_MAX and request.received_ns and request.dequeued_ns:
            lane.append(WatchedRequest(self._ended(request)))

    # Once per interval

    def rest(self, at_ns: int) -> None:
        """Ignore requests and queues that arrive before the next `take`; those in flight are still observed."""
        self.times_requests = self.samples_queues = False
        self._rested_ns = at_ns

    def take(self, at_ns: int) -> Interval:
        seen_ns = (at_ns if self.times_requests else self._rested_ns) - self._began_ns
        # While resting, new requests are not counted: scale the counts up by this share.
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
        # A request in flight when watching began lacks the stamps of earlier stages.
        whole = [row for row in map(WatchedRequest, rows) if row.received_ns and row.dequeued_ns]
        api, version = (OTHER_API, 0) if key == OTHER_API else (key >> 16, key & 0xFFFF)
        return WatchedApi(api, version, round((series.count - before) / watched), whole)
