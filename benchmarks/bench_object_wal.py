"""Measure the journal in an object store: both modes at a store's latency, and bulk beside raw PUTs, in paired rounds.

    python benchmarks/bench_object_wal.py [--rounds 5] [--seconds 2] [--delay 50ms] [--bulk-store URL]

A round starts new brokers and drives them in turn. For latency, requests to an in-memory store take `--delay` longer,
so everything above the time of a PUT is the broker's share. Its figures are the rate of pipelined over classic with one
connection and 64 requests in flight, and the p50 at 1 x 1 minus the median PUT of the same round.

For bulk, the store is `--bulk-store` (default: a new directory on this disk; a bucket needs the usual environment). The
figure is the throughput of requests of 1 MiB over that of raw PUTs of 4 MiB, 8 at a time, just before and just after.
Goals: 50 times, 6 ms, 60 %.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.base.duration import milliseconds
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment.broker_process import BrokerSettings, RunningBroker, running
from pipeline_broker.measure.experiment.compared_store import PROPERTIES, ComparedStore
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures
from pipeline_broker.objects.delayed_store import DelayedStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.opening import open_store
from pipeline_broker.objects.store import ObjectStore, delete_all
from spark_analysis.interval import mean_interval

MODES = ("classic", "pipelined")
PUT_BYTES, PUTS_AT_ONCE = 4 << 20, 8
RECORD_BYTES, BATCH_RECORDS = 64 << 10, 15
BULK_LOAD = (4, 4)
"""Connections and requests in flight, together 15 MiB."""
RATIO_GOAL, ABOVE_PUT_MS_GOAL, BULK_GOAL = 50, 6, 0.6


@contextlib.contextmanager
def brokers(folder: Path, store: ComparedStore, *modes: str) -> Iterator[list[RunningBroker]]:
    """Run a broker of each mode on an empty part of the store."""
    settings = [
        BrokerSettings(
            mode,
            folder / mode,
            store=store.address(f"{folder.name}-{mode}"),
            store_delay_ms=store.delay_ms,
            properties=tuple(PROPERTIES.items()),
        )
        for mode in modes
    ]
    with running(settings) as found:
        yield found


def driven(
    broker: RunningBroker, connections: int, in_flight: int, seconds: float, **options: int
) -> tuple[float, float]:
    load = LoadOptions(broker.host, broker.port, connections, in_flight, seconds=seconds, warmup_s=0.4, **options)
    found = figures(run_load(load).rows)
    return found.requests / found.seconds, statistics.median(found.latencies_ns) / 1e6


def put_ms(delay_seconds: float) -> float:
    """Return the median time of a PUT to such a store, from a thread as in the broker."""
    store, times = DelayedStore(MemoryStore(), delay_seconds), []
    for number in range(10):
        began = time.monotonic()
        store.create(str(number), [b"x" * 300])
        times.append((time.monotonic() - began) * 1000)
    return statistics.median(times)


def raw_bytes_per_s(store: ObjectStore, prefix: str, seconds: float) -> float:
    content, names = os.urandom(PUT_BYTES), []
    end = time.monotonic() + seconds

    def put(thread: int) -> None:
        for number in range(1 << 30):
            if time.monotonic() >= end:
                return
            store.create(name := f"{prefix}/{thread}-{number}", [content])
            names.append(name)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(PUTS_AT_ONCE)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(names) * PUT_BYTES / (time.monotonic() - began)
    delete_all(store, names)
    return rate


def latency(folder: Path, options: argparse.Namespace) -> None:
    delay_ms = milliseconds(options.delay)
    assert delay_ms is not None, options.delay
    store = ComparedStore("memory://", delay_ms)
    rates, above = [], {mode: [] for mode in MODES}
    for number in range(options.rounds):
        put = put_ms(delay_ms / 1000)
        with brokers(folder / f"latency-{number}", store, *MODES) as found:
            sides = dict(zip(MODES, found, strict=True))
            order = MODES if number % 2 else MODES[::-1]
            for mode in order:
                driven(sides[mode], 1, 4, 0.5)  # creates the topic and warms up the code
                above[mode].append(driven(sides[mode], 1, 1, options.seconds)[1] - put)
            deep = {mode: driven(sides[mode], 1, 64, options.seconds)[0] for mode in order}
            rates.append((deep["classic"], deep["pipelined"]))
    print(
        f"a PUT takes {delay_ms:g} ms; {options.rounds} rounds of {options.seconds:g} s; load {os.getloadavg()[0]:.1f}"
    )
    gain = speedup(rates)
    assert gain is not None
    classic, pipelined = (statistics.median(side) for side in zip(*rates, strict=True))
    print(
        f"1 x 64: classic {classic:,.0f}/s, pipelined {pipelined:,.0f}/s, {gain.ratio:.1f} times "
        f"({gain.low or 0:.1f} to {gain.high or 0:.1f}); goal {RATIO_GOAL}"
    )
    for mode, values in above.items():
        mean = mean_interval(values)
        assert mean is not None
        print(
            f"1 x 1, {mode}: p50 above a PUT {mean.value:.2f} ms ({mean.low or 0:.2f} to {mean.high or 0:.2f}); "
            f"goal {ABOVE_PUT_MS_GOAL} ms"
        )


def bulk(folder: Path, options: argparse.Namespace) -> None:
    url = options.bulk_store or (folder / "store").absolute().as_uri()
    store = ComparedStore(url)
    pairs = []
    try:
        objects = open_store(store.address("raw"), SystemFileSystem())
        for number in range(options.rounds):
            before = raw_bytes_per_s(objects, f"{number}-before", options.seconds / 2)
            with brokers(folder / f"bulk-{number}", store, "pipelined") as (broker,):
                driven(broker, 1, 4, 0.5)
                rate, _ = driven(
                    broker,
                    *BULK_LOAD,
                    2 * options.seconds,
                    record_size=RECORD_BYTES,
                    batch_records=BATCH_RECORDS,
                )
            after = raw_bytes_per_s(objects, f"{number}-after", options.seconds / 2)
            pairs.append(((before * after) ** 0.5, rate * RECORD_BYTES * BATCH_RECORDS))
    finally:
        store.clear()
    share = speedup(pairs)
    assert share is not None
    raw, produced = (statistics.median(side) / 1e6 for side in zip(*pairs, strict=True))
    print(
        f"bulk, {store.kind}: raw PUTs {raw:,.0f} MB/s, produced {produced:,.0f} MB/s, {share.ratio:.0%} "
        f"({share.low or 0:.0%} to {share.high or 0:.0%}); goal {BULK_GOAL:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--delay", default="50ms")
    parser.add_argument("--bulk-store")
    parser.add_argument("--only", choices=["latency", "bulk"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        for measure in (latency, bulk):
            if options.only in {None, measure.__name__}:
                measure(Path(name), options)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
