"""Kafka's request metrics, under the names that the JMX exporter's usual rules give them.

Rules of this file: on the event loop a request costs one packed row and one count; histograms are filled from the rows
in batches, by `drain`, which is called regularly and before each scrape. The ring is small on purpose: it bounds what
one drain takes from the loop (about 3 us a row), and a broker that is busier than that has its histograms sampled: rows
are dropped and counted. The number of requests is always exact.

Each time is clamped at 0, cut to microseconds and rounded to whole milliseconds, as Kafka's are:

| Kafka | `kafka_network_requestmetrics_...` | from the stamps of a request |
|---|---|---|
| RequestQueueTimeMs | requestqueuetimems | dequeued - received |
| LocalTimeMs | localtimems | handled - dequeued |
| RemoteTimeMs | remotetimems | completed - handled |
| ThrottleTimeMs | throttletimems | 0: nothing throttles a request here |
| ResponseQueueTimeMs | responsequeuetimems | send started - completed |
| ResponseSendTimeMs | responsesendtimems | sent - send started |
| TotalTimeMs | totaltimems | sent - received |
| RequestBytes | requestbytes | bytes behind the request's header |
| RequestsPerSec | requests_total | with `version`; exact |
| none: in RemoteTimeMs | commitwaittimems | durable - submitted, of requests that were committed |
| none: in ResponseQueueTimeMs | responseorderwaittimems | released - completed |

All have the label `request`; a histogram has the lines `{quantile=}`, `_count` and `_sum`, where the sum keeps the
microseconds that the rounded values lose. A fetch counts as `Fetch` and as `FetchConsumer`: there are no followers.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pipeline_broker.telemetry.exposition import Family, Sample, counter, summary_samples
from pipeline_broker.telemetry.histogram import DecayingHistogram
from pipeline_broker.telemetry.moving_average import MovingAverage
from pipeline_broker.wire.registry import is_flexible
from stages.mode import Batching, Mode
from stages.request import NO_STAMP, NOT_SET
from stages.timeline import TraceRing

__all__ = ["DRAIN_SECONDS", "RequestMetrics"]

DRAIN_SECONDS = 0.05
"""How often `drain` should be called."""
REQUEST_ROWS_MAX = 1024
COMMIT_ROWS_MAX = 1024

PREFIX = "kafka_network_requestmetrics_"
ALIASES = {"Fetch": ("Fetch", "FetchConsumer")}
HEADER_BYTES = 10
"""Of a request header before its client id: key 2, version 2, correlation id 4, length of the client id 2."""

_REQUEST_ROW = "<hhih9q"
_API, _VERSION, _SIZE, _CLIENT_ID_BYTES = range(4)
_RECEIVED, _DEQUEUED, _HANDLED, _SUBMITTED, _DURABLE, _COMPLETED, _RELEASED, _SEND_STARTED, _SENT = range(4, 13)
_STAGES = (
    ("requestqueuetimems", _RECEIVED, _DEQUEUED),
    ("localtimems", _DEQUEUED, _HANDLED),
    ("remotetimems", _HANDLED, _COMPLETED),
    ("responsequeuetimems", _COMPLETED, _SEND_STARTED),
    ("responsesendtimems", _SEND_STARTED, _SENT),
    ("totaltimems", _RECEIVED, _SENT),
    ("responseorderwaittimems", _COMPLETED, _RELEASED),
)
_COMMIT_WAIT = "commitwaittimems"
_THROTTLE = "throttletimems"
_BYTES = "requestbytes"
_EXPLANATIONS = {
    "requestqueuetimems": "Time in the request queue (RequestQueueTimeMs).",
    "localtimems": "Time in the handler (LocalTimeMs).",
    "remotetimems": "Time until what the answer waits for has happened (RemoteTimeMs).",
    _COMMIT_WAIT: "Part of RemoteTimeMs: time until the request's records were durable.",
    _THROTTLE: "Throttle applied, not part of the total (ThrottleTimeMs).",
    "responsequeuetimems": "Time until the response began to leave (ResponseQueueTimeMs).",
    "responseorderwaittimems": "Part of ResponseQueueTimeMs: time until the connection's earlier responses were ready.",
    "responsesendtimems": "Time to send the response (ResponseSendTimeMs).",
    "totaltimems": "Time from the receipt of the request to the end of its response (TotalTimeMs).",
    _BYTES: "Bytes of the request behind its header (RequestBytes).",
}
_CLIENT_ID_LENGTH = struct.Struct(">h")
_COMMIT_ROW = "<iqqqq"
_MICROSECONDS_IN_MS = 1e-3


def _record(histogram: DecayingHistogram, began: Sequence[int], ended: Sequence[int], at_seconds: float) -> None:
    """Kafka's formula of a time, for a batch of them; the histogram's total is in microseconds."""
    times = [(end - begin) // 1000 if end > begin else 0 for begin, end in zip(began, ended, strict=True)]
    histogram.add(Counter([(time + 500) // 1000 for time in times]), sum(times), at_seconds)


class RequestMetrics:
    """Fills Kafka's request metrics and those of commits; a `stages.timeline.Timeline`.

    Args:
        api_names: names of the APIs that are served; requests of others have no metrics.
        mode: decides whether a handler is busy while its request is committed.
    """

    def __init__(self, api_names: Mapping[int, str], mode: Mode) -> None:
        self._api_names = api_names
        self._waits_for_commit = mode.batching is Batching.REQUEST
        self._counts: dict[int, int] = {}  # api << 16 | version: requests
        self._dropped = 0
        self._ring = TraceRing(_REQUEST_ROW, REQUEST_ROWS_MAX)
        self._add_request = self._ring.append
        self._commit_ring = TraceRing(_COMMIT_ROW, COMMIT_ROWS_MAX)
        self._histograms: dict[tuple[int, str], DecayingHistogram] = {}
        self._commit_sizes = DecayingHistogram()
        self._commit_bytes = DecayingHistogram()
        self._commit_syncs = DecayingHistogram()
        self._drained_at_ns = 0
        self._drained_drops = 0
        self._busy_handlers = MovingAverage(0.0)

    # On the event loop, per request

    def request_ended(self, request: Any) -> None:
        """See Timeline."""
        api = request.api
        if api == NOT_SET:
            return  # not even its header could be read
        version = request.version
        counts = self._counts
        key = api << 16 | version
        counts[key] = counts.get(key, 0) + 1
        self._add_request(
            api,
            version,
            request.size_bytes,
            _CLIENT_ID_LENGTH.unpack_from(request.frame, HEADER_BYTES - 2)[0],
            request.received_ns,
            request.dequeued_ns,
            request.handled_ns,
            request.submitted_ns,
            request.durable_ns,
            request.completed_ns,
            request.released_ns,
            request.send_started_ns,
            request.sent_ns,
        )

    def request_dropped(self, request: Any) -> None:
        """See Timeline: it counts as a request, but has no times."""
        self._dropped += 1
        if request.api != NOT_SET:
            key = request.api << 16 | request.version
            self._counts[key] = self._counts.get(key, 0) + 1

    def commit_ended(self, commit: Any) -> None:
        """See Timeline."""
        self._commit_ring.append(
            len(commit.entries), commit.size_bytes, commit.started_ns, commit.written_ns, commit.durable_ns
        )

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """See Timeline; Kafka has no metric of it."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """See Timeline; the size of the queues is read when it is asked for."""

    # In batches

    def drain(self, at_ns: int) -> None:
        """Fill the histograms with what the rings hold; at most REQUEST_ROWS_MAX and COMMIT_ROWS_MAX rows."""
        at_seconds = at_ns / 1e9
        by_api: dict[int, list[tuple[int, ...]]] = {}
        rows = list(struct.iter_unpack(_REQUEST_ROW, self._ring.take()))
        for row in rows:
            by_api.setdefault(row[_API], []).append(row)
        for api, group in by_api.items():
            if api in self._api_names:
                self._fill(api, group, at_seconds)
        self._note_handlers(rows, at_ns)
        commits = list(zip(*struct.iter_unpack(_COMMIT_ROW, self._commit_ring.take()), strict=True))
        if commits:
            entries, sizes, _, written, durable = commits
            self._commit_sizes.add(Counter(entries), sum(entries), at_seconds)
            self._commit_bytes.add(Counter(sizes), sum(sizes), at_seconds)
            _record(self._commit_syncs, written, durable, at_seconds)

    def _histogram(self, api: int, name: str) -> DecayingHistogram:
        histogram = self._histograms.get((api, name))
        if histogram is None:
            histogram = self._histograms[api, name] = DecayingHistogram()
        return histogram

    def _fill(self, api: int, rows: list[tuple[int, ...]], at_seconds: float) -> None:
        columns = list(zip(*rows, strict=True))
        for name, began, ended in _STAGES:
            _record(self._histogram(api, name), columns[began], columns[ended], at_seconds)
        committed = [row for row in rows if row[_SUBMITTED] != NO_STAMP]
        if committed:
            began_ns, ended_ns = (list(map(itemgetter(column), committed)) for column in (_SUBMITTED, _DURABLE))
            _record(self._histogram(api, _COMMIT_WAIT), began_ns, ended_ns, at_seconds)
        self._histogram(api, _THROTTLE).add({0: len(rows)}, 0.0, at_seconds)
        sizes = [
            size - HEADER_BYTES - max(0, client_id_bytes) - is_flexible(api, version)  # one byte: no tagged fields
            for version, size, client_id_bytes in zip(*columns[_VERSION : _CLIENT_ID_BYTES + 1], strict=True)
        ]
        self._histogram(api, _BYTES).add(Counter(sizes), sum(sizes), at_seconds)

    def _note_handlers(self, rows: list[tuple[int, ...]], at_ns: int) -> None:
        """How many handlers were busy since the last drain, on average; rows that were dropped count as the others."""
        elapsed_ns = at_ns - self._drained_at_ns
        drops = self._ring.dropped - self._drained_drops
        self._drained_drops += drops
        is_first, self._drained_at_ns = not self._drained_at_ns, at_ns
        if is_first or elapsed_ns <= 0:
            return
        busy_ns = 0
        for row in rows:
            waited = self._waits_for_commit and row[_SUBMITTED] != NO_STAMP
            busy_ns += row[_COMPLETED if waited else _HANDLED] - row[_DEQUEUED]
        if rows:
            busy_ns = busy_ns * (len(rows) + drops) // len(rows)
        self._busy_handlers.add(busy_ns / elapsed_ns, elapsed_ns)

    def idle_share(self, handlers: int) -> float:
        """The share of their time that so many handlers had nothing to do, over about the last minute."""
        return min(1.0, max(0.0, 1.0 - self._busy_handlers.value / handlers)) if handlers else 1.0

    # For a scrape

    def families(self) -> Iterator[Family]:
        """What was drained so far."""
        yield counter(
            f"{PREFIX}requests_total",
            "Requests (RequestsPerSec).",
            *(
                Sample(count, (("request", name), ("version", str(key & 0xFFFF))))
                for key, count in sorted(self._counts.items())
                for name in self._names(key >> 16)
            ),
        )
        for metric, explanation in _EXPLANATIONS.items():
            scale = 1.0 if metric == _BYTES else _MICROSECONDS_IN_MS
            samples = [
                sample
                for (api, name), histogram in sorted(self._histograms.items(), key=itemgetter(0))
                if name == metric
                for request in self._names(api)
                for sample in summary_samples(histogram, (("request", request),), scale)
            ]
            yield Family(PREFIX + metric, "summary", explanation, samples)
        yield from self._commit_families()
        dropped = "Requests whose times are in no histogram, because the histograms fell behind."
        yield counter("pipeline_broker_metrics_rows_dropped_total", dropped, Sample(self._ring.dropped))
        closed = "Requests whose connection was closed before they were answered."
        yield counter("pipeline_broker_requests_dropped_total", closed, Sample(self._dropped))

    def _names(self, api: int) -> tuple[str, ...]:
        name = self._api_names.get(api)
        return () if name is None else ALIASES.get(name, (name,))

    def _commit_families(self) -> Iterator[Family]:
        described: tuple[tuple[str, str, DecayingHistogram, Callable[[DecayingHistogram], list[Sample]]], ...] = (
            (
                "kafka_log_logflushstats_logflushrateandtimems",
                "Time from the end of a commit's write to its being durable (LogFlushRateAndTimeMs).",
                self._commit_syncs,
                lambda histogram: summary_samples(histogram, (), _MICROSECONDS_IN_MS),
            ),
            ("pipeline_broker_commit_entries", "Record batches in one commit.", self._commit_sizes, summary_samples),
            ("pipeline_broker_commit_bytes", "Bytes in one commit.", self._commit_bytes, summary_samples),
        )
        for name, explanation, histogram, samples in described:
            yield Family(name, "summary", explanation, samples(histogram))
