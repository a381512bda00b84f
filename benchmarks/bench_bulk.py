"""Compare large requests with Apache Kafka, in interleaved rounds. Run from the repository's root:

    make compiled && PYTHONPATH=build/compiled python benchmarks/bench_bulk.py [--rounds 5] [--seconds 3]

| measured | unit | goal of the pipelined mode |
|---|---|---|
| produce: 4 connections with 4 requests in flight, each a batch of 900 records of 1 KiB, acks=all, durable | MB/s | >= 1.5 of synced Kafka |
| fetch: 2 connections with 2 in flight, responses of 1 MB from the page cache, not decoded | MB/s | >= 0.8 of Kafka |
| consume: one consumer of confluent-kafka, all of these partitions | records/s | >= 1.0 of Kafka |
| share: one share consumer of confluent-kafka | records/s | |
| transactions: one request of 100 bytes each, 8 connections with 5 in flight | requests/s | |

All sides have the same clients, which share the machine's cores with the broker, so consume is limited by the client.
Our brokers are started for each round. Apache Kafka runs for the whole benchmark, because its rate takes long to settle.
In each round, each side fills a new topic and reads it. Before each measurement it may finish deferred work. Each line
also shows the broker's processor time per unit: a megabyte, 1,000 records, or a request. The benchmark needs Java,
Maven and confluent-kafka.
"""  # noqa: E501 - a table

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import trio
from confluent_kafka import Consumer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from large_exchange import MEGABYTE, Exchange, exchange
from processor_time import processor_ns

from pipeline_broker.client.control import Target, prepare
from pipeline_broker.measure.experiment.broker_process import Brokers, BrokerSettings
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.experiment.kafka_process import KafkaSettings
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures
from pipeline_broker.measure.load.template import fetch_frame, produce_frame
from pipeline_broker.records.batch import NewRecord, build_batch

HOST = "127.0.0.1"
PARTITIONS, IN_FLIGHT = 4, 4
RECORD_BYTES, BATCH_RECORDS = 1024, 900
FETCH_CONNECTIONS, FETCH_IN_FLIGHT, FETCH_VERSION = 2, 2, 12
JOIN_SECONDS_MAX = 20.0
WARM_UP_ROUNDS = 2  # for Apache Kafka
SIDES = ("classic", "pipelined", "kafka-synced", "kafka")
UNITS = {
    "produce": "MB/s",
    "fetch": "MB/s",
    "consume": "records/s",
    "share": "records/s",
    "transactions": "requests/s",
}
IDLE_WAIT_SECONDS_MAX, IDLE_INTERVAL_SECONDS, IDLE_SHARE_MAX = 10.0, 0.25, 0.05
"""A broker is idle if it uses less than this share of a processor during the interval."""
WANTED = {("produce", "kafka-synced"): 1.5, ("fetch", "kafka"): 0.8, ("consume", "kafka"): 1.0}


@attrs.frozen
class Side:
    """A running broker and its own topic."""

    port: int
    pid: int
    target: Target

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@attrs.frozen
class Found:
    """A rate, and the broker's processor time in microseconds per unit."""

    per_second: float
    processor_us: float


def large_batch() -> bytes:
    draw = random.Random(1).randbytes  # random bytes do not compress
    now_ms = time.time_ns() // 1_000_000
    return build_batch([NewRecord(draw(RECORD_BYTES), timestamp=now_ms) for _ in range(BATCH_RECORDS)])


def produce(side: Side, seconds: float) -> float:
    batch = large_batch()
    frames = [produce_frame(side.target, partition, batch) for partition in range(PARTITIONS)]
    return exchange([Exchange(side.port, frame) for frame in frames], IN_FLIGHT, seconds) * len(batch) / 1e6


def fetch(side: Side, seconds: float) -> float:
    frames = [fetch_frame(side.target.topic, it, MEGABYTE, FETCH_VERSION) for it in range(FETCH_CONNECTIONS)]
    exchanges = [Exchange(side.port, frame) for frame in frames]
    rate = exchange(exchanges, FETCH_IN_FLIGHT, seconds)
    if min(it.response_bytes for it in exchanges) < MEGABYTE // 2:
        raise RuntimeError(f"responses of {[it.response_bytes for it in exchanges]} bytes")
    return rate * exchanges[0].response_bytes / 1e6


def consume(side: Side, seconds: float) -> float:
    """Return the records per second that a consumer delivers, counted after the first one."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": side.target.topic,
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
        }
    )
    with contextlib.closing(consumer):
        partitions = range(PARTITIONS)
        consumer.assign([TopicPartition(side.target.topic, partition, 0) for partition in partitions])
        return rate_of(lambda: len(consumer.consume(10_000, 0.2)), seconds)


def share(side: Side, seconds: float) -> float:
    """Return the records per second that a share consumer delivers.

    Each poll accepts the records of the previous one.
    """
    group = f"share-{side.target.topic}"
    start = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[start])
    admin = AdminClient({"bootstrap.servers": side.address})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(JOIN_SECONDS_MAX)
    with ShareConsumer({"bootstrap.servers": side.address, "group.id": group}) as consumer:
        consumer.subscribe([side.target.topic])
        return rate_of(lambda: len(consumer.poll(0.2)), seconds)


def rate_of(poll: Callable[[], int], seconds: float) -> float:
    """Return records per second, counted after the first ones."""
    latest = time.perf_counter() + JOIN_SECONDS_MAX
    while not poll():
        if time.perf_counter() > latest:
            raise RuntimeError(f"no record within {JOIN_SECONDS_MAX:g} s")
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        count += poll()
    return count / spent


def transactions(side: Side, seconds: float) -> float:
    load = LoadOptions(
        HOST, side.port, 8, 5, seconds=seconds, warmup_s=0.2, topic="transactions", transaction_requests=1
    )
    return figures(run_load(load).rows).requests_per_s


MEASURES = {"produce": produce, "fetch": fetch, "consume": consume, "share": share, "transactions": transactions}


def measured(side: Side, seconds: float, only: str | None) -> dict[str, Found]:
    """Run all measurements of one side, in the order of `MEASURES`: later ones read the records of earlier ones."""
    found = {}
    for name, measure in MEASURES.items():
        if name not in {only or name, "produce"}:
            continue
        wait_until_idle(side.pid)
        before = processor_ns(side.pid)
        began = time.perf_counter()
        rate = measure(side, seconds)
        spent = time.perf_counter() - began
        per_unit = (processor_ns(side.pid) - before) / 1e3 / (rate * spent)
        found[name] = Found(rate, per_unit * (1000 if "records" in UNITS[name] else 1))
    return found


def wait_until_idle(pid: int) -> None:
    """Wait until a broker has finished deferred work such as archiving, which would distort the next measurement."""
    deadline = time.monotonic() + IDLE_WAIT_SECONDS_MAX
    is_busy = True
    while is_busy and time.monotonic() < deadline:
        before = processor_ns(pid)
        time.sleep(IDLE_INTERVAL_SECONDS)
        is_busy = processor_ns(pid) - before > IDLE_SHARE_MAX * IDLE_INTERVAL_SECONDS * 1e9


@contextlib.contextmanager
def topic(name: str, port: int, pid: int) -> Iterator[Side]:
    yield Side(port, pid, trio.run(prepare, HOST, port, name, PARTITIONS))
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{port}"})
    for done in admin.delete_topics([name]).values():
        done.result(JOIN_SECONDS_MAX)


def show(found: dict[str, list[dict[str, Found]]], only: str | None) -> None:
    """Print a line for each side and measurement, with the ratios over Apache Kafka."""
    for name, unit in UNITS.items():
        if only not in {None, name}:
            continue
        for side in SIDES:
            rate = statistics.median(it[name].per_second for it in found[side])
            spent = statistics.median(it[name].processor_us for it in found[side])
            line = f"{name:13}{side:14}{rate:12,.0f} {unit:11}{spent:10,.1f} us"
            for other in SIDES[2:] if side in SIDES[:2] else ():
                pairs = [
                    (a[name].per_second, b[name].per_second) for a, b in zip(found[other], found[side], strict=True)
                ]
                ratio = speedup(pairs)
                assert ratio is not None
                line += f"  over {other} {ratio.ratio:.2f}"
                if ratio.low is not None:
                    line += f" ({ratio.low:.2f} to {ratio.high:.2f})"
                wanted = WANTED.get((name, other))
                if side == "pipelined" and wanted:
                    line += f", goal {wanted}: {'holds' if ratio.ratio >= wanted else 'MISSED'}"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", choices=tuple(MEASURES))
    options = parser.parse_args()
    found: dict[str, list[dict[str, Found]]] = {side: [] for side in SIDES}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")))
        starts = [KafkaSettings(name, folder / name, is_synced=name == "kafka-synced") for name in SIDES[2:]]
        kafka = dict(zip(SIDES[2:], stack.enter_context(Brokers()).add(starts), strict=True))
        for number in range(-WARM_UP_ROUNDS, options.rounds):
            order = SIDES[2:] if number < 0 else SIDES if number % 2 else tuple(reversed(SIDES))
            for name in order:
                with tempfile.TemporaryDirectory(dir=folder) as data, contextlib.ExitStack() as one:
                    ours = one.enter_context(Brokers())
                    broker = kafka.get(name) or ours.add([BrokerSettings(name, Path(data) / "data")])[0]
                    side = one.enter_context(topic(f"bulk-{number + WARM_UP_ROUNDS}", broker.port, broker.pid))
                    results = measured(side, options.seconds, options.only)
                if number >= 0:
                    found[name].append(results)
    show(found, options.only)


if __name__ == "__main__":
    main()
