"""Counters of a broker's requests to its object store: outcomes, bytes, durations, retries, outages."""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping

import attrs

from pipeline_broker.objects.store_around import Operation
from pipeline_broker.objects.watched_store import EndedRequest, Outcome

__all__ = ["BOUNDS_SECONDS", "KINDS", "StoreFigures", "StoreTotals", "Times"]

KINDS: Mapping[Operation, str] = {
    Operation.CREATE: "put",
    Operation.REPLACE: "put",
    Operation.UPLOAD: "put",
    Operation.COPY: "put",
    Operation.READ: "get",
    Operation.READ_END: "get",
    Operation.LIST: "list",
    Operation.DELETE: "delete",
}
"""The kind under which a provider bills each operation."""
BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram buckets."""
FAILED_MAX = 4096  # remembered failed requests; the next request of the same operation and name counts as a retry


@attrs.frozen
class Times:
    """A histogram of the durations of one kind of request.

    Attributes:
        counts: requests in each bucket of `BOUNDS_SECONDS`, not cumulative; the last one counts those above all bounds.
        total_seconds: the sum of all durations.
    """

    counts: tuple[int, ...]
    total_seconds: float


@attrs.frozen
class StoreTotals:
    """The counters at one moment.

    Attributes:
        requests: number of requests by operation and outcome, as a provider bills them.
        sent_bytes, received_bytes: sizes of contents.
        times: histograms by kind (`KINDS`), of requests that the store answered.
        retries: requests after a failed one of the same operation and name.
        outage_seconds: total length of all outages, including a current one.
        is_out: the store did not answer the last request.
        reason: the error of the last request without an answer; empty before the first.
    """

    requests: Mapping[tuple[Operation, Outcome], int]
    sent_bytes: int
    received_bytes: int
    times: Mapping[str, Times]
    retries: int
    outage_seconds: float
    is_out: bool
    reason: str

    def of_kind(self, kind: str) -> int:
        return sum(count for (operation, _), count in self.requests.items() if KINDS[operation] == kind)

    def with_outcome(self, outcome: Outcome) -> int:
        return sum(count for (_, found), count in self.requests.items() if found is outcome)


class StoreFigures:
    """Counters that only grow. Thread-safe; a request costs one short hold of a lock.

    An outage begins with the first request that gets no answer. It ends with the next request that gets one, of any
    operation.

    Args:
        clock_ns: the machine's monotonic clock.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._requests: Counter[tuple[Operation, Outcome]] = Counter()
        self._sent_bytes = self._received_bytes = self._retries = 0
        self._counts = {kind: [0] * (len(BOUNDS_SECONDS) + 1) for kind in KINDS.values()}
        self._total_ns = dict.fromkeys(KINDS.values(), 0)
        self._failed: OrderedDict[tuple[Operation, str], None] = OrderedDict()
        self._outage_ns = 0
        self._out_since_ns: int | None = None
        self._reason = ""

    def add(self, request: EndedRequest) -> None:
        operation, outcome = request.operation, request.outcome
        key = (operation, request.name)
        with self._lock:
            self._requests[operation, outcome] += request.requests
            self._sent_bytes += request.sent_bytes
            self._received_bytes += request.received_bytes
            if key in self._failed:
                self._retries += 1
                del self._failed[key]
            if not outcome.is_answer:
                self._failed[key] = None
                # Names of failed requests that are never repeated must not pile up.
                if len(self._failed) > FAILED_MAX:
                    self._failed.popitem(last=False)
            if outcome.is_answer:
                self._answered(request)
            else:
                self._reason = request.reason
                if self._out_since_ns is None:
                    self._out_since_ns = request.ended_ns

    def _answered(self, request: EndedRequest) -> None:
        kind, took_ns = KINDS[request.operation], request.ended_ns - request.began_ns
        place = sum(took_ns > bound * 1e9 for bound in BOUNDS_SECONDS)
        self._counts[kind][place] += 1
        self._total_ns[kind] += took_ns
        if self._out_since_ns is not None:
            self._outage_ns += max(0, request.ended_ns - self._out_since_ns)
            self._out_since_ns = None

    def totals(self) -> StoreTotals:
        with self._lock:
            since_ns = self._out_since_ns
            lasting_ns = 0 if since_ns is None else max(0, self._clock_ns() - since_ns)
            return StoreTotals(
                requests=dict(self._requests),
                sent_bytes=self._sent_bytes,
                received_bytes=self._received_bytes,
                times={kind: Times(tuple(counts), self._total_ns[kind] / 1e9) for kind, counts in self._counts.items()},
                retries=self._retries,
                outage_seconds=(self._outage_ns + lasting_ns) / 1e9,
                is_out=since_ns is not None,
                reason=self._reason,
            )
