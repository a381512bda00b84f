"""Kafka's request metrics, under the names that the JMX exporter's usual rules give them.

Each stage in `traces.stage_durations` has a metric: RequestQueueTimeMs is `requestqueuetimems`. Times are clamped at 0
and rounded to whole milliseconds, as in Kafka. CommitWait counts only requests with a commit. The other metrics:

| Kafka | `kafka_network_requestmetrics_...` | |
|---|---|---|
| ThrottleTimeMs | throttletimems | the throttle time in the response |
| RequestBytes | requestbytes | bytes after the request header |
| RequestsPerSec | requests_total | by `version`; exact |
| ErrorsPerSec | errors_total | by `error`, including NONE; each error code in a response counts |

All have the label `request`. A histogram has lines with `quantile`, `_count` and `_sum`; the sum is not rounded.

A fetch counts as `Fetch` and as `FetchConsumer`, because no followers exist. As in Kafka, a request counts even if its
connection closed. The stages that it did not reach took no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter, sub
from typing import TYPE_CHECKING, Any

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import Steps
from pipeline_broker.telemetry.answer_errors import count_errors
from pipeline_broker.telemetry.exposition import Families, Family, Sample, counter, summary_samples
from pipeline_broker.telemetry.histogram import DecayingHistogram
from pipeline_broker.telemetry.moving_average import MovingAverage
from pipeline_broker.telemetry.request_series import BODY_BYTES, COLUMNS, THROTTLE, RequestSeries
from pipeline_broker.telemetry.sampled_rows import Row
from pipeline_broker.traces.stage_durations import STAGES
from pipeline_broker.wire.registry import API_KEYS, ApiKey
from stages.mode import Batching, Mode
from stages.request import Send
from stages.timeline import NO_STAMP, now_ns

if TYPE_CHECKING:
    from stages.request import Request

__all__ = ["DRAIN_SECONDS", "NANOSECONDS_IN_MS", "RequestMetrics", "record_spans"]

ROWS_PER_STEP = 128
DRAIN_SECONDS = 1.0
"""Interval in which `drain` should be called."""
NANOSECONDS_IN_MS = 1_000_000
HALF_MS_IN_NS = NANOSECONDS_IN_MS // 2

PREFIX = "kafka_network_requestmetrics_"
ALIASES = {"Fetch": ("Fetch", "FetchConsumer")}
# Stands for all unknown versions of ApiVersions. They are answered, and a client can send any number.
UNSUPPORTED = -1
FETCH = int(ApiKey.FETCH)

_STAGES = tuple((f"{stage.lower()}timems", COLUMNS[began], COLUMNS[ended]) for stage, (began, ended) in STAGES.items())
_DEQUEUED, _DECIDED, _SUBMITTED, _COMPLETED = (
    COLUMNS[stamp] for stamp in ("dequeued_ns", "decided_ns", "submitted_ns", "completed_ns")
)
_THROTTLE = "throttletimems"
_BYTES = "requestbytes"
_EXPLANATIONS = {
    "requestqueuetimems": "Time in the request queue (RequestQueueTimeMs).",
    "localtimems": "Time in the handler, with callbacks and later steps (LocalTimeMs).",
    "laterstepstimems": "Part of LocalTimeMs: callbacks, and the steps of a request that takes several turns.",
    "remotetimems": (
        "Time after the handler until the result is known: a commit, data for a fetch, members of a group "
        "(RemoteTimeMs)."
    ),
    "commitwaittimems": (
        "Part of RemoteTimeMs: time until the request's records were durable, of requests that wrote."
    ),
    _THROTTLE: "Throttle time in the response, not part of the total (ThrottleTimeMs).",
    "responsequeuetimems": "Time until the response began to leave (ResponseQueueTimeMs).",
    "responseorderwaittimems": "Part of ResponseQueueTimeMs: time until the connection's earlier responses were ready.",
    "responsesendtimems": "Time to send the response, until the socket took the last byte (ResponseSendTimeMs).",
    "totaltimems": "Time from the receipt of the request to the end of its response (TotalTimeMs).",
    _BYTES: "Bytes of the request after its header (RequestBytes).",
}


def record_spans(
    histogram: DecayingHistogram,
    began: Sequence[int],
    ended: Sequence[int],
    at_seconds: float,
    stands_for: float = 1.0,
) -> None:
    """Add a batch of times to a histogram by Kafka's formula.

    The values are whole milliseconds, and the total is in nanoseconds. Negative times count as 0.

    Args:
        histogram: the histogram of one stage.
        began, ended: stamps of the same requests in nanoseconds, in the same order; at least one.
        at_seconds: the current time.
        stands_for: the number of requests that each pair of stamps represents.
    """
    spans = list(map(sub, ended, began))
    if min(spans) < 0:
        spans = [max(0, span) for span in spans]
    values: Mapping[int, int]
    if max(spans) < HALF_MS_IN_NS:  # true of most batches of most stages
        values = {0: len(spans)}
    else:
        values = Counter([(span + HALF_MS_IN_NS) // NANOSECONDS_IN_MS for span in spans])
    histogram.add(values, sum(spans), at_seconds, stands_for)


class RequestMetrics:
    """Kafka's request metrics, filled from events and drained in batches.

    Numbers of requests are exact. Times come from all requests or a sample (`request_series`). Numbers of errors are
    exact up to `answer_errors.ELEMENTS_MAX` in a response.

    Args:
        api_names: names of the served APIs by key; requests of other APIs have no metrics.
        mode: decides whether a handler is busy while its request is committed.
    """

    def __init__(self, api_names: Mapping[int, str], mode: Mode) -> None:
        self._api_names = api_names
        self._waits_for_commit = mode.batching is Batching.REQUEST
        self._fetch_sent: Callable[[Any], None] | None = None
        self._series: dict[int, RequestSeries] = {}  # (api << 16) + version
        self._errors: dict[int, Counter[int]] = {}
        self._dropped = 0
        self._histograms: dict[tuple[int, str], DecayingHistogram] = {}
        self._drained_at_ns = 0
        self._busy_handlers = MovingAverage(0.0)

    def observe_fetches(self, fetch_sent: Callable[[Any], None]) -> None:
        self._fetch_sent = fetch_sent

    # On the event loop, per request

    def request_ended(self, request: Any) -> None:
        series = self._series.get((request.api << 16) + request.version)
        if series is None:
            series = self._open(request)
            if series is None:
                return
        if request.answer is not None or type(request.result) is not Send:
            # Most responses are plain bytes without errors, and are not counted here.
            series.unlike += 1
            self._note_answer(request)
            if request.api == FETCH and request.answer is not None and self._fetch_sent is not None:
                self._fetch_sent(request.answer)
        until_row = series.until_row = series.until_row - 1
        if not until_row:
            series.add_request(request)

    def request_dropped(self, request: Any) -> None:
        self._dropped += 1
        series = self._series.get((request.api << 16) + request.version) or self._open(request)
        if series is None:
            return
        if request.answer is not None or type(request.result) is not Send:
            series.unlike += 1
            self._note_answer(request)
        series.until_row -= 1
        series.add_unfinished(request, now_ns())

    def _open(self, request: Request) -> RequestSeries | None:
        """Return the series of a request, or None if the request is not counted.

        Requests of unknown APIs or versions are not counted, because Kafka closes such a connection first. All unknown
        versions of ApiVersions share a series.
        """
        api, version = request.api, request.version
        if api not in self._api_names:
            return None
        if version not in API_KEYS[ApiKey(api)].versions:
            if api != ApiKey.API_VERSIONS:
                return None
            version = UNSUPPORTED
        key = (api << 16) + version
        return self._series.setdefault(key, RequestSeries(api, version))

    def _note_answer(self, request: Any) -> None:
        if request.answer is None:
            return
        codes = self._errors.get(request.api)
        if codes is None:
            codes = self._errors[request.api] = Counter()
        count_errors(request.answer, codes)

    # In batches

    def _all_series(self) -> list[RequestSeries]:
        return sorted(self._series.values(), key=lambda series: (series.api, series.version))

    def drain(self, at_ns: int) -> Steps[None]:
        """Fill the histograms with the waiting rows; call it again only after it has finished."""
        at_seconds = at_ns / 1e9
        busy_ns = 0.0
        for series in self._all_series():
            rows, stands_for = series.take()
            busy_ns += stands_for * self._busy_ns(rows)
            for begin in range(0, len(rows), ROWS_PER_STEP):
                self._fill(series.api, rows[begin : begin + ROWS_PER_STEP], stands_for, at_seconds)
                yield
        elapsed_ns = at_ns - self._drained_at_ns
        # The beginning of the first interval is unknown, so it has no busy share.
        is_first, self._drained_at_ns = not self._drained_at_ns, at_ns
        if not is_first and elapsed_ns > 0:
            self._busy_handlers.add(busy_ns / elapsed_ns, elapsed_ns)

    def _histogram(self, api: int, name: str) -> DecayingHistogram:
        histogram = self._histograms.get((api, name))
        if histogram is None:
            histogram = self._histograms[api, name] = DecayingHistogram()
        return histogram

    def _fill(self, api: int, rows: list[Row], stands_for: float, at_seconds: float) -> None:
        columns: list[Sequence[int]] = list(zip(*rows, strict=True))
        for name, began, ended in _STAGES:
            began_ns, ended_ns = columns[began], columns[ended]
            # CommitWait begins at a stamp that requests without a commit do not have.
            if NO_STAMP in began_ns:
                committed = [row for row in rows if row[began] != NO_STAMP]
                began_ns, ended_ns = ([row[column] for row in committed] for column in (began, ended))
            if began_ns:
                record_spans(self._histogram(api, name), began_ns, ended_ns, at_seconds, stands_for)
        for name, column in ((_THROTTLE, columns[THROTTLE]), (_BYTES, columns[BODY_BYTES])):
            self._histogram(api, name).add(Counter(column), sum(column), at_seconds, stands_for)

    def _busy_ns(self, rows: list[Row]) -> int:
        busy_ns = 0
        for row in rows:
            # In classic mode a handler waits for the commit of its request.
            waited = self._waits_for_commit and row[_SUBMITTED] != NO_STAMP
            busy_ns += row[_COMPLETED if waited else _DECIDED] - row[_DEQUEUED]
        return busy_ns

    def idle_share(self, handlers: int) -> float:
        """Return the share of about the last minute that `handlers` handlers were idle, from 0 to 1.

        The share of 0 handlers is 1.
        """
        return min(1.0, max(0.0, 1.0 - self._busy_handlers.value / handlers)) if handlers else 1.0

    # For a scrape

    def families(self) -> Families:
        all_series = self._all_series()
        yield counter(
            f"{PREFIX}requests_total",
            "Requests, by request and version (RequestsPerSec).",
            *(
                Sample(series.count, (("request", name), ("version", _version(series.version))))
                for series in all_series
                for name in self._names(series.api)
            ),
        )
        yield self._error_family(all_series)
        for metric, explanation in _EXPLANATIONS.items():
            scale = 1.0 if metric in {_BYTES, _THROTTLE} else 1 / NANOSECONDS_IN_MS
            samples: list[Sample] = []
            for (api, name), histogram in sorted(self._histograms.items(), key=itemgetter(0)):
                if name == metric:
                    for request in self._names(api):
                        samples += summary_samples(histogram, (("request", request),), scale)
                    yield None
            yield Family(PREFIX + metric, "summary", explanation, samples)
        skipped = "Requests whose times are not in the summaries, because a sample represents them."
        total = sum(series.skipped for series in all_series)
        yield counter("pipeline_broker_metrics_requests_sampled_out_total", skipped, Sample(total))
        closed = "Requests whose connection closed before they were answered."
        yield counter("pipeline_broker_requests_dropped_total", closed, Sample(self._dropped))

    def _error_family(self, all_series: Sequence[RequestSeries]) -> Family:
        codes = {api: Counter(counts) for api, counts in self._errors.items()}
        for series in all_series:
            # Plain responses have no error, and Kafka counts NONE for them.
            if series.plain:
                codes.setdefault(series.api, Counter())[ErrorCode.NONE] += series.plain
        return counter(
            f"{PREFIX}errors_total",
            "Error codes in responses, by request and error; NONE counts too, and each partition, topic or group has "
            "its own code (ErrorsPerSec).",
            *(
                Sample(count, (("request", name), ("error", _error_name(code))))
                for api, counts in sorted(codes.items())
                for code, count in sorted(counts.items())
                for name in self._names(api)
            ),
        )

    def _names(self, api: int) -> tuple[str, ...]:
        name = self._api_names[api]
        return ALIASES.get(name, (name,))


def _version(version: int) -> str:
    return "unsupported" if version == UNSUPPORTED else str(version)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR.name
