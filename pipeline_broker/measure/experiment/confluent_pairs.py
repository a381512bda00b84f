"""Pairs of a producer and a consumer of confluent-kafka (librdkafka): the time from publishing to consuming.

Messages have moments of their own, the same for all brokers, whatever has been consumed (an open loop). A pair has a
partition of its own, so its consumer needs no group. Both clients have their defaults but for linger.ms 0: this is the
latency of an application that sends a message at once. One row is one message, until the consumer has it.
"""

import random
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from pipeline_broker.traces.client_rows import ClientRow

CONNECT_S_MAX = 20.0
_POLL_S = 0.05
_HEAD = struct.Struct(">qq")  # when the run began, and the number of the message in it


@attrs.frozen(slots=True)
class PairJob:
    """One run of some pairs.

    Attributes:
        rate_per_s: messages a second of all pairs together.
        hang_up_s: a consumer waits so long after the last moment of a message.
        seed: of the moments.
    """

    address: str
    topic: str
    pairs: int
    rate_per_s: float
    seconds: float
    warmup_s: float
    hang_up_s: float
    record_size: int
    seed: int
    ring: str

    @property
    def clients(self) -> int:
        """Return the number of pairs that it needs."""
        return self.pairs

    @property
    def place(self) -> object:
        """Return what jobs have in common that can use the same pairs."""
        return PairJob, self.address, self.pairs

    def moments_ns(self, pair: int, began_ns: int) -> list[int]:
        """Return the times at which a pair has to send: a Poisson process."""
        drawn = random.Random(f"{self.seed} {pair}")  # noqa: S311 - moments of a load
        moments, elapsed_s = [], 0.0
        while (elapsed_s := elapsed_s + drawn.expovariate(self.rate_per_s / self.pairs)) < self.seconds:
            moments.append(began_ns + round(elapsed_s * 1e9))
        return moments


class Pair:
    """A producer and the consumer of its messages."""

    def __init__(self, number: int, job: PairJob) -> None:
        from confluent_kafka import Consumer, Producer  # noqa: PLC0415 - an optional package, absent until asked for

        common = {"bootstrap.servers": job.address, "log_level": 2}  # its log lines would be stray lines of ours
        self._producer: Any = Producer({**common, "enable.idempotence": True, "linger.ms": 0}, logger=None)
        self._consumer: Any = Consumer({**common, "group.id": "pairs", "enable.auto.commit": False}, logger=None)
        self._number = number
        self._topic = job.topic
        self._connect()

    def _connect(self) -> None:
        """Send a message and consume it: then both clients know the leader, and the consumer waits at the end."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - see above

        offsets: list[int] = []
        self._producer.produce(
            self._topic,
            bytes(_HEAD.size),
            partition=self._number,
            on_delivery=lambda error, message: None if error else offsets.append(message.offset()),
        )
        self._producer.flush(CONNECT_S_MAX)
        if offsets:
            self._consumer.assign([TopicPartition(self._topic, self._number, offsets[0])])
            message = self._consumer.poll(CONNECT_S_MAX)
            if message is not None and message.error() is None:
                return
        raise TimeoutError(f"confluent-kafka did not consume its own message within {CONNECT_S_MAX:g} s")

    def send(self, job: PairJob, began_ns: int) -> list[int]:
        """Send each message as soon as it is due; return the times of sending.

        Raises:
            RuntimeError: a message was not delivered.
        """
        produce, poll, clock = self._producer.produce, self._producer.poll, time.monotonic_ns
        padding = bytes(max(0, job.record_size - _HEAD.size))
        failed: list[str] = []
        sent_ns = []
        for number, due_ns in enumerate(job.moments_ns(self._number, began_ns)):
            while (left_ns := due_ns - clock()) > 0:
                time.sleep(left_ns / 1e9)
            sent_ns.append(clock())
            value = _HEAD.pack(began_ns, number) + padding
            produce(
                self._topic,
                value,
                partition=self._number,
                on_delivery=lambda error, _message: failed.append(str(error)) if error else None,
            )
            poll(0)
        self._producer.flush(job.hang_up_s)
        if failed:
            raise RuntimeError(f"a message was not delivered: {failed[0]}")
        return sent_ns

    def consume(self, job: PairJob, began_ns: int) -> dict[int, int]:
        """Consume until the last message has come, or the consumer hangs up; return the time of each by its number.

        Raises:
            RuntimeError: the consumer reports an error.
        """
        poll, clock = self._consumer.poll, time.monotonic_ns
        missing = len(job.moments_ns(self._number, began_ns))
        until_ns = began_ns + round((job.seconds + job.hang_up_s) * 1e9)
        arrived_ns: dict[int, int] = {}
        while len(arrived_ns) < missing and clock() < until_ns:
            message = poll(_POLL_S)
            if message is None:
                continue
            now_ns = clock()
            if message.error() is not None:
                raise RuntimeError(f"the consumer reports an error: {message.error()}")
            run_ns, number = _HEAD.unpack_from(message.value())
            if run_ns == began_ns:  # else it is one that an earlier run has not waited for
                arrived_ns[number] = now_ns
        return arrived_ns

    def rows(self, job: PairJob, began_ns: int, sent_ns: list[int], arrived_ns: dict[int, int]) -> list[ClientRow]:
        """Return a row for each message, in the order of sending."""
        measured_from_ns = began_ns + round(job.warmup_s * 1e9)
        moments = zip(job.moments_ns(self._number, began_ns), sent_ns, strict=True)
        return [
            ClientRow(self._number, number, None, due_ns, sent, arrived_ns.get(number), 0, due_ns >= measured_from_ns)
            for number, (due_ns, sent) in enumerate(moments)
        ]


def run_pairs(job: PairJob, pairs: list[Pair]) -> list[ClientRow]:
    """Run all pairs together, each in two threads."""
    began_ns = time.monotonic_ns()
    with ThreadPoolExecutor(2 * len(pairs)) as pool:
        consumed = [pool.submit(pair.consume, job, began_ns) for pair in pairs]
        sent = [pool.submit(pair.send, job, began_ns) for pair in pairs]
    return [
        row
        for pair, send, consume in zip(pairs, sent, consumed, strict=True)
        for row in pair.rows(job, began_ns, send.result(), consume.result())
    ]
