"""The figures of a load: merged over processes, and formatted as JSON or as a sentence."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pipeline_broker.client.errors import error_name
from pipeline_broker.measure.load.client import Driven
from pipeline_broker.measure.load.histogram import Histogram
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.recorders import HistogramRecorder
from pipeline_broker.measure.load.requests import END, PRODUCE, READ

KINDS: Mapping[int, str] = {PRODUCE: "produce", READ: "read", END: "end of transaction"}
PERCENTILES: Mapping[str, float] = {
    "p50_ms": 0.5,
    "p90_ms": 0.9,
    "p99_ms": 0.99,
    "p999_ms": 0.999,
    "p9999_ms": 0.9999,
    "max_ms": 1.0,
}


@attrs.define
class Measurement:
    """The figures of one process, or the merged figures of several.

    Merging two measurements of one run gives the figures of a run with all their connections.

    Attributes:
        histograms: latencies by kind of request, from the intended time.
        errors: number of answers by error code.
        order_violations: answers received after the answer to a later request of the same connection.
        requests: measured requests; the end of a transaction counts as one.
        records: records of requests that were answered without error; with acks=0, of all requests.
        sent_bytes, received_bytes: bytes on the wire, warm-up included.
        read_bytes: bytes of record batches that were read, warm-up included.
        first_sent_ns, last_answered_ns: times of the monotonic clock, which all processes of a machine share; 0 without
            a measured request.
        answered_in_second: number of answers in each second of the measurement.
        cpu_ns, wall_ns: processor time of the clients, and duration of the run.
    """

    histograms: dict[int, Histogram] = attrs.field(factory=dict)
    errors: Counter[int] = attrs.field(factory=Counter)
    order_violations: int = 0
    requests: int = 0
    records: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    read_bytes: int = 0
    first_sent_ns: int = 0
    last_answered_ns: int = 0
    answered_in_second: Counter[int] = attrs.field(factory=Counter)
    cpu_ns: int = 0
    wall_ns: int = 0
    processes: int = 0

    @property
    def answered(self) -> int:
        return sum(histogram.total for histogram in self.histograms.values())

    @property
    def seconds(self) -> float:
        """Seconds from the first measured request to the last answer."""
        return max(0, self.last_answered_ns - self.first_sent_ns) / 1e9

    def merge(self, other: "Measurement") -> None:
        for kind, histogram in other.histograms.items():
            self.histograms.setdefault(kind, Histogram()).merge(histogram)
        self.errors.update(other.errors)
        self.answered_in_second.update(other.answered_in_second)
        starts = [it for it in (self.first_sent_ns, other.first_sent_ns) if it]
        self.first_sent_ns = min(starts, default=0)
        self.last_answered_ns = max(self.last_answered_ns, other.last_answered_ns)
        self.wall_ns = max(self.wall_ns, other.wall_ns)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def encode(self) -> dict[str, Any]:
        """Return the figures in the form of JSON; `decoded` reverses it."""
        plain = {name: getattr(self, name) for name in (*_SUMS, "first_sent_ns", "last_answered_ns", "wall_ns")}
        counters = {name: dict(getattr(self, name)) for name in ("errors", "answered_in_second")}
        histograms = {str(kind): dict(histogram.counts()) for kind, histogram in self.histograms.items()}
        return {**plain, **counters, "histograms": histograms}

    @classmethod
    def decoded(cls, encoded: Mapping[str, Any]) -> "Measurement":
        fields = dict(encoded)
        for name in ("errors", "answered_in_second"):
            fields[name] = Counter(_integer_keys(fields[name]))
        fields["histograms"] = {
            int(kind): Histogram(_integer_keys(counts)) for kind, counts in fields["histograms"].items()
        }
        return cls(**fields)


_SUMS = (
    "order_violations", "requests", "records", "sent_bytes", "received_bytes", "read_bytes", "cpu_ns", "processes",
)  # fmt: skip


def _integer_keys(counts: Mapping[str, int]) -> dict[int, int]:
    return {int(key): count for key, count in counts.items()}


def measured(options: LoadOptions, driven: Driven[HistogramRecorder]) -> Measurement:
    found = Measurement(cpu_ns=driven.clock.cpu_ns, processes=1)
    found.wall_ns = driven.clock.ended_ns - driven.clock.started_ns
    for recorder in driven.recorders:
        own = Measurement(
            histograms={kind: it for kind, it in recorder.histograms.items() if it.total},
            errors=recorder.errors,
            order_violations=recorder.order_violations,
            requests=recorder.requests,
            first_sent_ns=recorder.first_sent_ns,
            # With acks=0 no answer arrives, so the last request ends the measurement.
            last_answered_ns=recorder.last_answered_ns or recorder.last_sent_ns,
            answered_in_second=recorder.answered_in_second,
        )
        found.merge(own)
    written = found.histograms[PRODUCE].total if PRODUCE in found.histograms else 0
    if not options.acks:
        written = found.requests
    found.records = (written - found.errors.total()) * options.batch_records
    found.sent_bytes = sum(exchange.sent_bytes for exchange in driven.exchanges)
    found.received_bytes = sum(exchange.received_bytes for exchange in driven.exchanges)
    found.read_bytes = sum(reads.bytes_read for reads in driven.reads)
    return found


def summary(found: Measurement) -> dict[str, Any]:
    seconds = found.seconds
    every = Histogram()
    for histogram in found.histograms.values():
        every.merge(histogram)
    ended = found.histograms[END].total if END in found.histograms else 0
    # The last second is usually incomplete and would be the slowest one.
    complete_seconds = [found.answered_in_second[it] for it in range(int(seconds))]
    return {
        "requests": found.requests,
        "answered": found.answered,
        "requests_per_s": _per_second(found.answered or found.requests, seconds),
        "records_per_s": _per_second(found.records, seconds),
        "transactions": ended,
        "transactions_per_s": _per_second(ended, seconds),
        "seconds": round(seconds, 3),
        **_percentiles(every),
        "mean_ms": _milliseconds(every.mean_us()),
        "errors": found.errors.total(),
        "error_names": {error_name(code): count for code, count in sorted(found.errors.items())},
        "order_violations": found.order_violations,
        "by_kind": {
            KINDS[kind]: {"requests": histogram.total, **_percentiles(histogram)}
            for kind, histogram in sorted(found.histograms.items())
        },
        "sent_bytes": found.sent_bytes,
        "received_bytes": found.received_bytes,
        "read_bytes": found.read_bytes,
        "slowest_second_requests": min(complete_seconds, default=None),
        "fastest_second_requests": max(complete_seconds, default=None),
        "processes": found.processes,
        "client_cpu_share": round(found.cpu_ns / max(1, found.wall_ns), 3),
        "client_share_of_machine": round(found.cpu_ns / max(1, found.wall_ns) / (os.cpu_count() or 1), 3),
        "client_us_per_request": round(found.cpu_ns / 1000 / max(1, found.requests), 2),
    }


def _per_second(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds else 0.0


def _percentiles(histogram: Histogram) -> dict[str, float | None]:
    return {name: _milliseconds(histogram.percentile_us(quantile)) for name, quantile in PERCENTILES.items()}


def _milliseconds(value_us: float | None) -> float | None:
    return None if value_us is None else round(value_us / 1000, 4)


def merged(measurements: Iterable[Measurement]) -> Measurement:
    found = Measurement()
    for measurement in measurements:
        found.merge(measurement)
    return found


def sentence(found: Mapping[str, Any]) -> str:
    percentiles = ", ".join(
        f"{name} {found[key]:.2f} ms"
        for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"), ("max", "max_ms"))
        if found[key] is not None
    )
    parts = [
        f"{found['requests']:,} requests, {found['requests_per_s']:,.0f}/s{_transaction_rate(found)}",
        percentiles or ("too few for percentiles" if found["answered"] else "never answered"),
        f"errors {found['errors']}{_names(found['error_names'])}, out of order {found['order_violations']}",
        f"client CPU {found['client_us_per_request']:.1f} us/request",
        f"{found['client_share_of_machine']:.0%} of the machine",
    ]
    return f"{'; '.join(parts[:-1])}, {parts[-1]}"


def _transaction_rate(found: Mapping[str, Any]) -> str:
    return f", {found['transactions_per_s']:,.0f} transactions/s" if found["transactions"] else ""


def _names(errors: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in errors.items())})" if errors else ""
