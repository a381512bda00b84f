"""What a broker has asked its store for, counted: requests by what became of them, bytes, times, retries, outages.

Rules of this file: counts only grow. Any thread adds and any reads; a request costs one short hold of a lock. A request
is a retry when the one before it of the same operation and name got no answer. An outage begins with the
first request that got no answer, and ends with the next one that gets one, whatever both were for.
"""

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
    Operation.READ: "get",
    Operation.READ_END: "get",
    Operation.LIST: "list",
    Operation.DELETE: "delete",
}
"""What a bill calls an operation."""
BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FAILED_MAX = 4096
"""Requests that are remembered as failed, so that the next of the same kind and name counts as a retry."""


@attrs.frozen
class Times:
    """How long the requests of a kind took.

    Attributes:
        counts: how many took at most so long as the bound in `BOUNDS_SECONDS`, and longer than the one before; the last
            are those that took longer than all bounds.
        total_seconds: of all.
    """

    counts: tuple[int, ...]
    total_seconds: float


@attrs.frozen
class StoreTotals:
    """The figures at a moment.

    Attributes:
        requests: by what was asked for and what became of it; as a bill counts them.
        sent_bytes, received_bytes: of contents.
        times: by `KINDS`; of requests that got an answer.
        retries: see the rules of the file.
        outage_seconds: over all outages, the present one included.
        is_out: the last request got no answer.
        reason: of the last one that got none; empty before the first.
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
        """Requests that a bill has under this name."""
        return sum(count for (operation, _), count in self.requests.items() if KINDS[operation] == kind)

    def with_outcome(self, outcome: Outcome) -> int:
        """Requests that ended so."""
        return sum(count for (_, found), count in self.requests.items() if found is outcome)


class StoreFigures:
    """See the rules of the file.

    Args:
        clock_ns: that of the requests.
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
        """Take note of a request that ended."""
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
        """How things stand."""
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
