"""Measure transactions of version 2 per second: Produce and EndTxn, one record in one partition each.

    python benchmarks/bench_transactions.py [--seconds 3] [--producers 1 32] [--flush always] [--rounds 3]

The native load client has one connection per producer and runs one transaction at a time on each: a batch, then, after
its answer, the end. For comparison, one producer of confluent-kafka runs transactions of version 0, which need one more
request. The last figure is the cost of transactions for clients without them: Produce with and without an open
transaction in the same partition, in turn, by the load client.

Bounds, on 2 cores with flush=always: 500/s with one producer, 3,000/s with 32.
"""

import argparse
import contextlib
import functools
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from pipeline_broker.client.connection import connect
from pipeline_broker.client.control import open_control, prepare
from pipeline_broker.client.dialogue import Dialogue
from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.load.client import drive, load_rows, run_to_end
from pipeline_broker.measure.load.measurement import measured, summary
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.requests import IdempotentProduce
from pipeline_broker.measure.load.statistics import figures
from pipeline_broker.measure.load.template import in_turn, produce_template
from pipeline_broker.measure.load.transactions import Transactions
from pipeline_broker.measure.load.worker import recorder_of

HOST, TOPIC, PARTITIONS = "127.0.0.1", "transactions", 4
VALUE = b"x" * 100


def native(port: int, producers: int, seconds: float) -> float:
    options = LoadOptions(
        HOST,
        port,
        connections=producers,
        seconds=seconds,
        warmup_s=min(0.2, seconds / 10),
        topic=TOPIC,
        partitions=PARTITIONS,
        transaction_requests=1,
    )
    found = summary(measured(options, run_to_end(functools.partial(drive, record=recorder_of), options)))
    assert found["errors"] == 0, found["error_names"]
    return float(found["transactions_per_s"])


def confluent(port: int, seconds: float) -> float | None:
    """Return the transactions per second of one confluent-kafka producer; None if it is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an optional package
    except ImportError:
        return None
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"{HOST}:{port}", "transactional.id": "confluent", "linger.ms": 0}
    )
    producer.init_transactions(30)
    ended, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE, partition=0)
        producer.commit_transaction(30)
        ended += 1
    return ended / (time.perf_counter() - began)


async def plain(port: int, seconds: float) -> float:
    load = LoadOptions(HOST, port, connections=16, in_flight=16, seconds=seconds, topic=TOPIC)
    return float(figures((await load_rows(load)).rows).requests_per_s or 0)


@contextlib.asynccontextmanager
async def open_transaction(port: int, partition: int) -> AsyncIterator[None]:
    """Open a transaction with one batch in this partition, and commit it after the block."""
    target = await prepare(HOST, port, TOPIC, PARTITIONS)
    name = f"beside-{secrets.token_hex(8)}"
    options = LoadOptions(HOST, port, transaction_requests=1)
    template = produce_template(target, options, (partition,), name)
    transactions = Transactions(IdempotentProduce(template, in_turn(1, 0), 1), name, 1)
    async with open_control(HOST, port) as control:
        await control.coordinator(name)
        transactions.become(*await control.new_producer(name))
    async with connect(HOST, port) as connection:
        dialogue = Dialogue(connection)
        for number in (0, 1):  # the batch, then the end
            answer = await dialogue.ask_framed(transactions.frames(number, 1))
            error = transactions.read(number, memoryview(bytes(4) + answer))
            assert error == 0, error
            if number == 0:
                yield


async def cost(port: int, seconds: float, rounds: int) -> tuple[float, float]:
    """Return produce requests per second without open transactions, and with one in each partition, in turn."""
    without, beside = [], []
    for _ in range(rounds):
        without.append(await plain(port, seconds))
        async with contextlib.AsyncExitStack() as stack:
            for partition in range(PARTITIONS):
                await stack.enter_async_context(open_transaction(port, partition))
            beside.append(await plain(port, seconds))
    return statistics.median(without), statistics.median(beside)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--producers", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--flush", choices=["always", "os"], default="always")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("pipelined", "classic"):
            settings = BrokerSettings(mode, Path(folder) / mode, flush=options.flush)
            with running([settings]) as (broker,):
                for producers in options.producers:
                    rates = [native(broker.port, producers, options.seconds) for _ in range(options.rounds)]
                    print(f"{mode:10} {producers:3} producers  {statistics.median(rates):8,.0f} transactions/s")
                rate = confluent(broker.port, options.seconds)
                if rate is not None:
                    print(f"{mode:10} confluent-kafka{rate:11,.0f} transactions/s")
                without, beside = trio.run(cost, broker.port, options.seconds, options.rounds)
                print(f"{mode:10} Produce without transactions {without:,.0f}/s, beside open ones {beside:,.0f}/s")


if __name__ == "__main__":
    main()
