"""Recorders of the requests of one connection: a row for each request, or a histogram of latencies."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline_broker.measure.load.histogram import Histogram
from pipeline_broker.measure.load.options import IN_FLIGHT_MAX
from pipeline_broker.measure.load.pace import NEVER_NS, NS_PER_S
from pipeline_broker.traces.client_rows import ClientRow

# Answered requests to remember. Beyond this number all but the latest quarter of it are dropped in one step. The
# quarter is larger than any window, so the times of a request that is answered out of order are still known.
FORGET_FROM = 1 << 16
assert FORGET_FROM // 4 > IN_FLIGHT_MAX


class Recorder(Protocol):
    """A recorder of all requests of one connection, in batches: one call for each send and each read.

    Attributes:
        measured_from_ns: requests with an earlier intended time belong to the warm-up.
    """

    measured_from_ns: int

    def sent(self, intended_ns: Sequence[int], now_ns: int) -> None:
        """Record that the next requests were sent at `now_ns`, and the time at which each was intended to be sent."""

    def answered(self, correlation_ids: Sequence[int], errors: Sequence[int], now_ns: int) -> int:
        """Record answers and their error codes; return the latency of the last one in ns."""


class RowRecorder:
    """A recorder that keeps a row for each request, for the traces of an experiment.

    `sent_ns[i]` and `intended_ns[i]` belong to correlation id i; `received`, `errors` and `answered_ns` are in order of
    receipt.

    Args:
        is_open: whether latency counts from the intended time.
    """

    def __init__(self, *, is_open: bool) -> None:
        self.measured_from_ns = 0
        self._is_open = is_open
        self.sent_ns: list[int] = []
        self.intended_ns: list[int] = []
        self.received: list[int] = []
        self.errors: list[int] = []
        self.answered_ns: list[int] = []

    def sent(self, intended_ns: Sequence[int], now_ns: int) -> None:
        self.sent_ns += [now_ns] * len(intended_ns)
        if self._is_open:
            self.intended_ns += intended_ns

    def answered(self, correlation_ids: Sequence[int], errors: Sequence[int], now_ns: int) -> int:
        self.received += correlation_ids
        self.errors += errors
        self.answered_ns += [now_ns] * len(correlation_ids)
        return now_ns - self.sent_ns[correlation_ids[-1]]

    def rows(self, connection: int) -> Iterator[ClientRow]:
        """Yield the rows in order of receipt, then those of unanswered requests. `sequence` numbers them."""
        sent_ns, intended_ns = self.sent_ns, self.intended_ns
        answers = zip(self.received, self.answered_ns, self.errors, strict=True)
        for sequence, (correlation_id, answered, error) in enumerate(answers):
            sent = sent_ns[correlation_id]
            intended = intended_ns[correlation_id] if intended_ns else None
            measured = (sent if intended is None else intended) >= self.measured_from_ns
            yield ClientRow(connection, sequence, correlation_id, intended, sent, answered, error, measured)
        if len(self.received) < len(sent_ns):
            missing = sorted({*range(len(sent_ns))} - {*self.received})
            for sequence, correlation_id in enumerate(missing, start=len(self.received)):
                sent = sent_ns[correlation_id]
                intended = intended_ns[correlation_id] if intended_ns else None
                measured = (sent if intended is None else intended) >= self.measured_from_ns
                yield ClientRow(connection, sequence, correlation_id, intended, sent, None, 0, measured)


class HistogramRecorder:
    """A recorder of latencies by kind of request, in bounded memory for a run of any length.

    Args:
        kinds: kinds of the correlation ids, as a cycle.

    Attributes:
        histograms: latencies from the intended time, in microseconds, for each kind that occurs.
        errors: number of answers by error code, without 0.
        order_violations: answers received after the answer to a later request.
        requests: number of measured requests that were sent.
        first_sent_ns, last_sent_ns, last_answered_ns: of measured requests; 0 before the first.
        answered_in_second: number of answers in each second of the measurement.
    """

    def __init__(self, kinds: Sequence[int] = (0,)) -> None:
        self.measured_from_ns = NEVER_NS
        self._kinds = kinds
        self.histograms: dict[int, Histogram] = {kind: Histogram() for kind in kinds}
        self.errors: Counter[int] = Counter()
        self.order_violations = 0
        self.requests = 0
        self.answered_in_second: Counter[int] = Counter()
        self.first_sent_ns = self.last_sent_ns = self.last_answered_ns = 0
        self._base = 0  # the correlation id of the first remembered time
        self._next = 0  # the correlation id whose answer is expected next
        self._intended_ns: list[int] = []
        self._sent_ns: list[int] = []

    def sent(self, intended_ns: Sequence[int], now_ns: int) -> None:
        self._intended_ns += intended_ns
        self._sent_ns += [now_ns] * len(intended_ns)
        from_ns = self.measured_from_ns
        if intended_ns[-1] >= from_ns:
            self.first_sent_ns = self.first_sent_ns or now_ns
            self.last_sent_ns = now_ns
            count = len(intended_ns)
            self.requests += count if intended_ns[0] >= from_ns else sum(it >= from_ns for it in intended_ns)

    def answered(self, correlation_ids: Sequence[int], errors: Sequence[int], now_ns: int) -> int:
        first, count = self._next, len(correlation_ids)
        if list(correlation_ids) == list(range(first, first + count)):
            self._next = first + count
        else:
            self._count_order(correlation_ids)
        latency_ns = now_ns - self._sent_ns[correlation_ids[-1] - self._base]
        self._count(correlation_ids, errors, now_ns)
        if self._next - self._base > FORGET_FROM:
            self._forget()
        return latency_ns

    def _count_order(self, correlation_ids: Sequence[int]) -> None:
        for correlation_id in correlation_ids:
            if correlation_id < self._next:
                self.order_violations += 1
            else:
                self._next = correlation_id + 1

    def _count(self, correlation_ids: Sequence[int], errors: Sequence[int], now_ns: int) -> None:
        base, intended, from_ns = self._base, self._intended_ns, self.measured_from_ns
        times = [(it, intended[it - base]) for it in correlation_ids]
        measured = [(it, time_ns) for it, time_ns in times if time_ns >= from_ns]
        if not measured:
            return
        self.last_answered_ns = now_ns
        self.answered_in_second[(now_ns - from_ns) // NS_PER_S] += len(measured)
        if any(errors):
            failed = zip(times, errors, strict=True)
            self.errors.update(code for (_, time_ns), code in failed if code and time_ns >= from_ns)
        if len(self.histograms) == 1:
            (histogram,) = self.histograms.values()
            histogram.add([(now_ns - time_ns) // 1000 for _, time_ns in measured])
            return
        kinds, period = self._kinds, len(self._kinds)
        for it, time_ns in measured:
            self.histograms[kinds[it % period]].add(((now_ns - time_ns) // 1000,))

    def _forget(self) -> None:
        count = self._next - self._base - FORGET_FROM // 4
        del self._intended_ns[:count]
        del self._sent_ns[:count]
        self._base += count
