"""Producers of confluent-kafka (librdkafka) in a closed loop: each keeps a fixed number of messages outstanding.

Producers have default settings except linger.ms. In a closed loop, latency is that of the broker and not of a growing
queue. One row is one message, timed from `produce` to its delivery report.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
from confluent_kafka import Producer

from pipeline_broker.traces.client_rows import ClientRow

OUTSTANDING_MAX = 64  # messages of one producer without a delivery report
FLUSH_S_MAX = 20.0
_POLL_S = 0.05


@attrs.frozen(slots=True)
class ProduceJob:
    """One run of several producers.

    Attributes:
        address: bootstrap server.
        producers: number of producers, each with its own thread.
        seconds, warmup_s: duration, and the part of it that is not measured.
        record_size: bytes of a message.
        ring: path of the ring file for the rows.
    """

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
        return self.producers

    @property
    def client_key(self) -> object:
        return ProduceJob, self.address, self.producers, self.linger_ms

    def connect(self, number: int) -> "ClosedProducer":
        return ClosedProducer(number, self)

    def run(self, producers: list["ClosedProducer"]) -> list[ClientRow]:
        """Warm up, then measure, and return a row for each message. Rows of the warm-up are marked as not measured."""
        for producer in producers:
            producer.clear()
        with ThreadPoolExecutor(self.producers) as pool:
            # `ClosedProducer.run` waits for all reports, so no message of the warm-up is in flight when the measurement
            # starts.
            for seconds in (self.warmup_s, self.seconds - self.warmup_s):
                measured_from_ns = time.monotonic_ns()
                stop_ns = measured_from_ns + round(seconds * 1e9)
                list(pool.map(ClosedProducer.run, producers, [stop_ns] * self.producers))
        return [row for producer in producers for row in producer.rows(measured_from_ns)]


class ClosedProducer:
    def __init__(self, connection: int, job: ProduceJob) -> None:
        settings = {
            "bootstrap.servers": job.address,
            "enable.idempotence": True,
            "linger.ms": job.linger_ms,
            "log_level": 2,  # librdkafka's log would mix with our output
        }
        self._producer: Any = Producer(settings, logger=None)
        self._connection = connection
        self._topic = job.topic
        self._value = bytes(job.record_size)
        self.sent_ns: list[int] = []
        self.reports: dict[int, tuple[int, int]] = {}
        self._connect()

    def _connect(self) -> None:
        # The first message connects the producer, fetches metadata and gets a producer id.
        self._producer.produce(self._topic, self._value)
        missing = self._producer.flush(FLUSH_S_MAX)
        if missing:
            raise TimeoutError(f"confluent-kafka delivered nothing within {FLUSH_S_MAX:g} s")

    def clear(self) -> None:
        self.sent_ns, self.reports = [], {}

    def run(self, stop_ns: int) -> None:
        """Keep messages outstanding until `stop_ns`, then wait for the last delivery reports."""
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
        """Return a row for each message in the order of sending. Without a report, its error is -1."""
        rows = []
        for number, sent in enumerate(self.sent_ns):
            answered, error = self.reports.get(number, (None, -1))
            rows.append(
                ClientRow(self._connection, number, None, None, sent, answered, error, sent >= measured_from_ns)
            )
        return rows
