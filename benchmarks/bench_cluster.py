"""Compare a broker with several brokers of one machine: paired, interleaved rounds in one run, with intervals.

    python benchmarks/bench_cluster.py [--rounds 7] [--seconds 1.0] [--kills 20]

The brokers are pipelined and share the cores with the load client. Loads have 100-byte records, acks=all and 12
partitions. CreateTopics asks the controller, one topic after the other. Other lines are the processor time of three
idle brokers, the processor time per request of N brokers at N times half of one broker's capacity (with flush=os; one
broker serves one half), and the times from a SIGKILL of one broker until it acknowledges a record again.
"""

import argparse
import contextlib
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_groups import Connection, ask
from bench_turns import create
from processor_time import processor_ns

from pipeline_broker.measure.experiment.broker_process import BrokerProcess, BrokerSettings, running
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.measure.load.statistics import RunFigures, figures
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest

IDLE_SECONDS = 5.0
KILL_SECONDS = 8.0  # between kills: a broker that ends five times in a minute stays down
PARTITIONS = 12
OPEN_IN_FLIGHT = 1_000  # more than the pace needs
CREATED = 20
"""Topics that a round creates."""
LARGE = 10_000


def settings(folder: Path, brokers: int, flush: str = "always") -> BrokerSettings:
    return BrokerSettings("pipelined", folder / f"brokers-{brokers}-{flush}", flush=flush, brokers=brokers)


def drive(broker: BrokerProcess, connections: int, in_flight: int, seconds: float) -> RunFigures:
    load = LoadOptions(
        broker.host, broker.port, connections, in_flight, seconds=seconds, warmup_s=0.2, partitions=PARTITIONS
    )
    return figures(run_load(load).rows)


def rate(found: RunFigures) -> float:
    return found.requests_per_s


def median_ns(found: RunFigures) -> float:
    return statistics.median(found.latencies_ns)


def compare(
    brokers: tuple[BrokerProcess, BrokerProcess],
    load: tuple[int, int],
    rounds: int,
    seconds: float,
    value: Callable[[RunFigures], float],
) -> str:
    pairs = []
    for number in range(rounds):
        found = {}
        for broker in brokers if number % 2 else reversed(brokers):
            found[broker] = value(drive(broker, *load, seconds))
        pairs.append((found[brokers[0]], found[brokers[1]]))
    ratio = speedup(pairs)
    assert ratio is not None
    a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
    return f"{b:,.0f} over {a:,.0f} = {ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def request_cost_ns(broker: BrokerProcess, pids: list[int], rate_per_s: float, seconds: float) -> float:
    """Return the processor time of some processes per request of an open loop on 48 connections."""
    load = LoadOptions(
        broker.host, broker.port, 48, OPEN_IN_FLIGHT, seconds=seconds, warmup_s=0, partitions=PARTITIONS,
        rate_per_s=rate_per_s, arrivals=Arrivals.POISSON,
    )  # fmt: skip
    before = sum(map(processor_ns, pids))
    rows = run_load(load).rows
    return (sum(map(processor_ns, pids)) - before) / sum(row.answered_ns is not None for row in rows)


def costs(brokers: dict[int, BrokerProcess], rounds: int, seconds: float) -> Iterator[str]:
    """Yield a line for each number of brokers, compared with one broker."""
    pids = {number: [broker.pid, *children(broker)] for number, broker in brokers.items()}
    half_per_s = rate(drive(brokers[1], 16, 16, seconds)) / 2
    found: dict[int, list[float]] = {number: [] for number in brokers}
    for place in range(rounds):
        for number in sorted(brokers, reverse=place % 2 == 1):
            found[number].append(request_cost_ns(brokers[number], pids[number], number * half_per_s, seconds))
    for number in list(brokers)[1:]:
        ratio = speedup(list(zip(found[1], found[number], strict=True)))
        assert ratio is not None
        a, b = (statistics.median(found[it]) / 1e3 for it in (1, number))
        yield (
            f"CPU a request, {number} brokers at {number} x {half_per_s:,.0f}/s: {b:.1f} over {a:.1f} us = "
            f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f}); goal 1.05"
        )


def creation_ms(broker: BrokerProcess, number: int) -> float:
    """Return the median time of a CreateTopics request for one topic of 3 partitions."""
    connection, times = Connection(broker.port), []
    for topic in range(CREATED):
        began = time.perf_counter()
        create(connection, f"created-{number}-{topic}", 3)
        times.append((time.perf_counter() - began) * 1e3)
    connection.socket.close()
    return statistics.median(times)


def compare_creation(one: BrokerProcess, three: BrokerProcess, rounds: int) -> str:
    pairs = [(creation_ms(one, number), creation_ms(three, number)) for number in range(rounds + 1)][1:]
    more = sorted(b - a for a, b in pairs)
    a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
    return f"{b:.1f} over {a:.1f}: {statistics.median(more):.1f} more ({more[0]:.1f} to {more[-1]:.1f})"


def longest_waits_ms(broker: BrokerProcess) -> str:
    """Return the longest waits of another client of broker 1 while a large topic is created, and then deleted."""
    client, other, waits = Connection(broker.port), Connection(broker.port), []
    create(client, "small", 1)
    deletion = DeleteTopicsRequest(topic_names=["large"], timeout_ms=30_000)
    for change in (lambda: create(client, "large", LARGE), lambda: ask(client, deletion, 4)):
        changing = threading.Thread(target=change)
        changing.start()
        longest = 0.0
        while changing.is_alive():
            began = time.perf_counter()
            ask(other, MetadataRequest(topics=[]), 5)
            longest = max(longest, time.perf_counter() - began)
            time.sleep(0.001)
        waits.append(f"{longest * 1e3:.0f}")
    return " and ".join(waits)


def children(supervisor: BrokerProcess) -> list[int]:
    # Each child belongs to the thread that started it.
    tasks = Path(f"/proc/{supervisor.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text(encoding="ascii").split()]


def idle_share(supervisor: BrokerProcess) -> float:
    """Return the processor time of all processes over the time that passes, in cores."""
    pids = [supervisor.pid, *children(supervisor)]
    before = sum(map(processor_ns, pids))
    time.sleep(IDLE_SECONDS)
    return (sum(map(processor_ns, pids)) - before) / (IDLE_SECONDS * 1e9)


def restart_seconds(supervisor: BrokerProcess, data: Path, node_id: int) -> float:
    """Kill a broker and return the seconds until all partitions acknowledge records again."""
    time.sleep(KILL_SECONDS)
    pid = int((data / str(node_id) / ".lock").read_text(encoding="ascii"))
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while True:
        with contextlib.suppress(Exception):  # the load fails until all leaders are back
            drive(supervisor, PARTITIONS, 1, 0.3)
            return time.perf_counter() - began - 0.3
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")))
        ours = [settings(folder, brokers) for brokers in (1, 2, 3)]
        one, two, three = stack.enter_context(running(ours))
        rounds, seconds = options.rounds, options.seconds
        with running([settings(folder, number, "os") for number in (1, 2, 3)]) as written:
            for line in costs(dict(enumerate(written, 1)), rounds, seconds):
                print(line, flush=True)
        print(f"three idle brokers: {idle_share(three):.1%} of a core; goal 2 %", flush=True)
        print(f"requests/s, 16 x 16: 2 brokers {compare((one, two), (16, 16), rounds, seconds, rate)}; goal 1.3")
        print(f"median ns, 1 x 1: 3 brokers {compare((one, three), (1, 1), rounds, seconds, median_ns)}; goal 1.10")
        print(f"median ms of CreateTopics: 3 brokers {compare_creation(one, three, rounds)}; goal 3 more", flush=True)
        print(
            f"longest ms of another client while a topic of {LARGE:,} partitions is created and deleted: 1 broker"
            f" {longest_waits_ms(one)}, 3 brokers {longest_waits_ms(three)}",
            flush=True,
        )
        times = sorted(restart_seconds(three, ours[2].data, number % 2 + 2) for number in range(options.kills))
        print(f"after a kill: median {statistics.median(times):.2f} s, worst {times[-1]:.2f} s; goals 1.5 s, 3 s")


if __name__ == "__main__":
    main()
