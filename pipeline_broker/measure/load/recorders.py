"""What is remembered of the requests of one connection.

Rules of this file: no clock; correlation ids count from 0 in the order of sending. A recorder is told in batches, what
one read or one send held, because the client must not be what is measured.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline_broker.measure.load.histogram import Histogram
from pipeline_broker.measure.load.pace import NEVER_NS, NS_PER_S
from pipeline_broker.traces.client_rows import ClientRow

FORGET_FROM = 1 << 16
"""So many requests are remembered before the older three quarters of those that were answered are dropped together: a
quarter is more than a window, so that what is answered out of order is still known."""


class Recorder(Protocol):
    """What is told of every request and of every answer."""

    measured_from_ns: int
    """Requests that were meant for an earlier moment are warm-up."""

    def sent(self, intended_ns: Sequence[int], now_ns: int) -> None:
        """The next requests were sent now; when each was meant to be."""

    def answered(self, correlation_ids: Sequence[int], errors: Sequence[int], now_ns: int) -> int:
        """Answers came now; how long the last of them took since it was sent, in ns."""


class RowRecorder:
    """Every request as a row, for the traces of an experiment.

    `sent_ns[i]` and `intended_ns[i]` belong to correlation id i; `received`, `errors` and `answered_ns` are in order
    of receipt.

    Args:
        is_open: whether latency counts from the intended moment.
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
        """The rows in order of receipt: `sequence` counts answers, not requests; those without an answer come last."""
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
    """Latencies by kind of request, in bounded memory however long a run is.

    Args:
        kinds: of the correlation ids, again and again.

    Attributes:
        histograms: latencies from the intended moment, in microseconds, one for each kind that occurs.
        errors: how often each error code came; not 0.
        order_violations: answers that came after that of a later request.
        requests: how many were sent to be measured.
        first_sent_ns, last_sent_ns, last_answered_ns: of what was measured; 0 before.
        answered_in_second: how many answers came in each second of the measurement.
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
        self._base = 0  # the id that the first remembered time belongs to
        self._next = 0  # the id that is to be answered next
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
        """Drop what is answered; what came too early for its turn waits until the others have come."""
        count = self._next - self._base - FORGET_FROM // 4
        del self._intended_ns[:count]
        del self._sent_ns[:count]
        self._base += count
