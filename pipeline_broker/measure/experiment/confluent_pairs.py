"""Pairs of a producer and a consumer of confluent-kafka (librdkafka), which measure the time from publish to consume.

They form an open loop: the intended times of messages are the same for all brokers. Each pair has its own partition,
so its consumer needs no group. The producer is idempotent and has linger.ms=0, so it measures the latency of an
application that sends each message at once; the consumer commits no offsets. All other settings that affect latency are
defaults. One row is one message.
"""

import itertools
import random
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition

from pipeline_broker.measure.load.pace import poisson_moments
from pipeline_broker.traces.client_rows import ClientRow

CONNECT_S_MAX = 20.0
_POLL_S = 0.05
_HEAD = struct.Struct(">qq")  # start of the run, and the number of the message in it


@attrs.frozen(slots=True)
class PairJob:
    """One run of several pairs.

    Attributes:
        address: bootstrap server.
        pairs: number of pairs; each uses the partition with its number.
        rate_per_s: messages per second of all pairs together.
        seconds, warmup_s: duration, and the part of it that is not measured.
        hang_up_s: time after the last intended time at which consumers stop waiting.
        record_size: bytes of a message.
        seed: seed of the intended times.
        ring: path of the ring file for the rows.
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
        return self.pairs

    @property
    def client_key(self) -> object:
        return PairJob, self.address, self.pairs

    def moments_ns(self, pair: int, began_ns: int) -> list[int]:
        drawn = random.Random(f"{self.seed} {pair}")  # noqa: S311 - moments of a load
        ended_ns = began_ns + round(self.seconds * 1e9)
        moments = poisson_moments(began_ns, self.rate_per_s, self.pairs, drawn)
        return list(itertools.takewhile(lambda at_ns: at_ns < ended_ns, moments))

    def connect(self, number: int) -> "Pair":
        return Pair(number, self)

    def run(self, pairs: list["Pair"]) -> list[ClientRow]:
        began_ns = time.monotonic_ns()
        moments_ns = [self.moments_ns(number, began_ns) for number in range(len(pairs))]
        with ThreadPoolExecutor(2 * len(pairs)) as pool:
            consumed = [
                pool.submit(pair.consume, self, began_ns, len(due_ns))
                for pair, due_ns in zip(pairs, moments_ns, strict=True)
            ]
            sent = [
                pool.submit(pair.send, self, began_ns, due_ns) for pair, due_ns in zip(pairs, moments_ns, strict=True)
            ]
        measured_from_ns = began_ns + round(self.warmup_s * 1e9)
        return [
            ClientRow(connection, number, None, due, sent_ns, arrived.get(number), 0, due >= measured_from_ns)
            for connection, (due_ns, send, consume) in enumerate(zip(moments_ns, sent, consumed, strict=True))
            for arrived in (consume.result(),)
            for number, (due, sent_ns) in enumerate(zip(due_ns, send.result(), strict=True))
        ]


class Pair:
    def __init__(self, number: int, job: PairJob) -> None:
        common = {"bootstrap.servers": job.address, "log_level": 2}  # librdkafka's log would mix with our output
        self._producer: Any = Producer({**common, "enable.idempotence": True, "linger.ms": 0}, logger=None)
        self._consumer: Any = Consumer({**common, "group.id": "pairs", "enable.auto.commit": False}, logger=None)
        self._number = number
        self._topic = job.topic
        self._connect()

    def _connect(self) -> None:
        # After this message both clients know the leader, and the consumer waits at the end of the partition.
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

    def send(self, job: PairJob, began_ns: int, moments_ns: list[int]) -> list[int]:
        """Send a message at each intended time, and return the actual times, in ns of the monotonic clock.

        Raises:
            RuntimeError: a message was not delivered.
        """
        produce, poll, clock = self._producer.produce, self._producer.poll, time.monotonic_ns
        padding = bytes(max(0, job.record_size - _HEAD.size))
        failed: list[str] = []
        sent_ns = []
        for number, due_ns in enumerate(moments_ns):
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

    def consume(self, job: PairJob, began_ns: int, messages: int) -> dict[int, int]:
        """Consume `messages` messages, or fewer if `hang_up_s` ends; return the time of arrival of each by its number.

        Raises:
            RuntimeError: the consumer reports an error.
        """
        poll, clock = self._consumer.poll, time.monotonic_ns
        until_ns = began_ns + round((job.seconds + job.hang_up_s) * 1e9)
        arrived_ns: dict[int, int] = {}
        while len(arrived_ns) < messages and clock() < until_ns:
            message = poll(_POLL_S)
            if message is None:
                continue
            now_ns = clock()
            if message.error() is not None:
                raise RuntimeError(f"the consumer reports an error: {message.error()}")
            run_ns, number = _HEAD.unpack_from(message.value())
            if run_ns == began_ns:  # other messages belong to an earlier run
                arrived_ns[number] = now_ns
        return arrived_ns
