"""Producers of confluent-kafka (librdkafka) in a closed loop, each with a thread that keeps messages outstanding.

A producer has its defaults but for linger.ms. The loop stays closed, so that latency is that of the broker and not of a
queue that grows. One row is one message, from `produce` to its delivery report.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs

from pipeline_broker.traces.client_rows import ClientRow

OUTSTANDING_MAX = 64  # messages of one producer without a delivery report
FLUSH_S_MAX = 20.0
_POLL_S = 0.05


@attrs.frozen(slots=True)
class ProduceJob:
    """One run, in which `producers` keep messages outstanding for `seconds`."""

    address: str
    topic: str
    producers: int
    linger_ms: int
    seconds: float
    warmup_s: float
    record_size: int
    ring: str

    @property
    def clients(self) -> int:
        """Return the number of clients that it needs."""
        return self.producers

    @property
    def place(self) -> object:
        """Return what jobs have in common that can use the same clients."""
        return ProduceJob, self.address, self.producers, self.linger_ms

    def connect(self, number: int) -> "ClosedProducer":
        """Return a new producer that knows the topic."""
        return ClosedProducer(number, self)

    def run(self, producers: list["ClosedProducer"]) -> list[ClientRow]:
        """Warm up, then measure; the warm-up's messages are delivered before the first measured one is sent."""
        for producer in producers:
            producer.clear()
        with ThreadPoolExecutor(self.producers) as pool:
            for seconds in (self.warmup_s, self.seconds - self.warmup_s):
                measured_from_ns = time.monotonic_ns()
                stop_ns = measured_from_ns + round(seconds * 1e9)
                list(pool.map(ClosedProducer.run, producers, [stop_ns] * self.producers))
        return [row for producer in producers for row in producer.rows(measured_from_ns)]


class ClosedProducer:
    """One producer and what became of the messages of its latest job."""

    def __init__(self, connection: int, job: ProduceJob) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - an optional package, which may be absent

        settings = {
            "bootstrap.servers": job.address,
            "enable.idempotence": True,
            "linger.ms": job.linger_ms,
            "log_level": 2,  # its own log lines would be stray lines of ours
        }
        self._producer: Any = Producer(settings, logger=None)
        self._connection = connection
        self._topic = job.topic
        self._value = bytes(job.record_size)
        self.sent_ns: list[int] = []
        self.reports: dict[int, tuple[int, int]] = {}
        self._connect()

    def _connect(self) -> None:
        """Connect, learn where the topic is and get a producer id."""
        self._producer.produce(self._topic, self._value)
        missing = self._producer.flush(FLUSH_S_MAX)
        if missing:
            raise TimeoutError(f"confluent-kafka delivered nothing within {FLUSH_S_MAX:g} s")

    def clear(self) -> None:
        """Forget an earlier job."""
        self.sent_ns, self.reports = [], {}

    def run(self, stop_ns: int) -> None:
        """Keep messages outstanding until the time is over, then wait for the last reports."""
        produce, poll, clock = self._producer.produce, self._producer.poll, time.monotonic_ns
        sent_ns, reports = self.sent_ns, self.reports
        while (now_ns := clock()) < stop_ns:
            while len(sent_ns) - len(reports) < OUTSTANDING_MAX:
                number = len(sent_ns)
                sent_ns.append(now_ns := clock())
                produce(self._topic, self._value, on_delivery=partial(self._delivered, number))
                if now_ns >= stop_ns:
                    break
            poll(_POLL_S)
        self._producer.flush(FLUSH_S_MAX)

    def _delivered(self, number: int, error: Any, _message: Any) -> None:
        self.reports[number] = time.monotonic_ns(), 0 if error is None else max(-1, error.code())

    def rows(self, measured_from_ns: int) -> list[ClientRow]:
        """One row a message, in the order of sending; a message without report has no answer and error -1."""
        rows = []
        for number, sent in enumerate(self.sent_ns):
            answered, error = self.reports.get(number, (None, -1))
            rows.append(
                ClientRow(self._connection, number, None, None, sent, answered, error, sent >= measured_from_ns)
            )
        return rows
