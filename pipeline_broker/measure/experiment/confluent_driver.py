"""Drives a broker with an unmodified third-party client: confluent-kafka (librdkafka).

Rules of this file: it is a child process of its own (`python -m`), so that the client's threads do not disturb whoever
waits for it; it takes one JSON object a line on stdin (`connect` and jobs, or `run` and one of them) and answers each
with one on stdout; an idempotent producer at its defaults but for linger.ms. Every producer has a thread that keeps a
bounded number of messages outstanding: the loop stays closed, so that latency is that of the broker and not of a queue
that grows. The warm-up is flushed before the measured loop starts, as in the native client. One row is one message.
Producers are connected before the runs of a round, together: a new one may spend half a second on its producer id.
"""

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.traces.client_rows import ClientRow, write_client

OUTSTANDING_MAX = 64  # messages of one producer without a delivery report
FLUSH_S_MAX = 20.0
_POLL_S = 0.05


@attrs.frozen(slots=True)
class Job:
    """One run."""

    address: str
    topic: str
    producers: int
    linger_ms: int
    seconds: float
    warmup_s: float
    record_size: int
    ring: str


class ClosedProducer:
    """One producer and what became of the messages of its latest job."""

    def __init__(self, connection: int, job: Job) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - an optional package, absent until it is asked for

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


class Producers:
    """The producers of one group of runs, for the brokers of all its sides."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int, int], list[ClosedProducer]] = {}

    def connect(self, jobs: Sequence[Job]) -> None:
        """Connect those of these jobs, all at once, in place of those before."""
        self._by_place = {_place(job): [] for job in jobs}
        todo = [(number, job) for job in jobs for number in range(job.producers)]
        if todo:
            with ThreadPoolExecutor(len(todo)) as pool:
                connected = list(pool.map(ClosedProducer, *zip(*todo, strict=True)))
            for (_, job), producer in zip(todo, connected, strict=True):
                self._by_place[_place(job)].append(producer)

    def of(self, job: Job) -> list[ClosedProducer]:
        """The producers of a job; raises KeyError if they were not connected."""
        found = self._by_place[_place(job)]
        for producer in found:
            producer.clear()
        return found


def _place(job: Job) -> tuple[str, int, int]:
    return job.address, job.producers, job.linger_ms


def run_job(job: Job, all_producers: Producers) -> dict[str, float]:
    """Run one job, write its ring file, and say how busy the client was."""
    with ThreadPoolExecutor(job.producers) as pool:
        producers = all_producers.of(job)
        cpu_began_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
        for seconds in (job.warmup_s, job.seconds - job.warmup_s):
            measured_from_ns = time.monotonic_ns()
            stop_ns = measured_from_ns + round(seconds * 1e9)
            list(pool.map(ClosedProducer.run, producers, [stop_ns] * job.producers))
    ended_ns = time.monotonic_ns()
    share = (time.process_time_ns() - cpu_began_ns) / max(1, ended_ns - began_ns)
    write_client(Path(job.ring), [row for producer in producers for row in producer.rows(measured_from_ns)])
    return {"started_ns": began_ns, "ended_ns": ended_ns, "client_cpu_share": share}


def main() -> None:
    """Answer jobs until stdin ends."""
    producers = Producers()
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            message = json.loads(line)
            if "connect" in message:
                producers.connect([Job(**job) for job in message["connect"]])
                answer = {}
            else:
                answer = dict(run_job(Job(**message["run"]), producers))
        except Exception as error:  # noqa: BLE001 - whatever went wrong in the client is the answer
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)  # noqa: T201 - stdout is the channel to the parent


if __name__ == "__main__":
    main()
