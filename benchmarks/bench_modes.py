"""The speed of both modes, and of Apache Kafka beside them: paired, interleaved rounds in one run, with intervals.

    python benchmarks/bench_modes.py [--rounds 7] [--seconds 1.0] [--kafka PATH/kafka_oracle.sh]

Every line is a ratio of two brokers that were driven in turn, round by round; requests/s are medians. 100-byte records,
acks=all, 4 partitions, the native load client on the same machine. A ratio is worth something when its interval is
narrow; a single figure never is.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

KAFKA_PORT = 21571
KAFKA_START_SECONDS = 60.0


@attrs.frozen
class Address:
    """Where a broker listens."""

    host: str
    port: int


@attrs.frozen
class Side:
    """One broker under one load."""

    name: str
    connections: int
    in_flight: int


@attrs.frozen
class Comparison:
    """B over A, and what is expected of it."""

    a: Side
    b: Side
    target: str


GRID = (
    Comparison(Side("classic", 1, 1), Side("pipelined", 1, 1), ">= 0.95"),
    Comparison(Side("classic", 1, 5), Side("pipelined", 1, 5), ">= 3.5"),
    Comparison(Side("classic", 1, 64), Side("pipelined", 1, 64), ">= 15"),
    Comparison(Side("classic", 16, 16), Side("pipelined", 16, 16), ">= 6; pipelined >= 53,000/s"),
    Comparison(Side("classic", 1, 1), Side("classic", 1, 5), "0.9 to 1.3"),
    Comparison(Side("classic", 1, 64), Side("classic", 1, 5), "0.9 to 1.1"),
    Comparison(Side("pipelined", 16, 16), Side("pipelined flush=os", 16, 16), "flush=os >= 60,000/s"),
    Comparison(Side("classic delay=10ms", 1, 64), Side("pipelined delay=10ms", 1, 64), ">= 57"),
    Comparison(Side("pipelined delay=10ms commits=1", 1, 64), Side("pipelined delay=10ms", 1, 64), ">= 1.5"),
    Comparison(Side("pipelined delay=10ms commits=1", 16, 16), Side("pipelined delay=10ms", 16, 16), ">= 1.5"),
)
KAFKA_GRID = tuple(
    Comparison(Side(kafka, *load), Side(ours, *load), target)
    for load in ((1, 5), (1, 64), (16, 16))
    for kafka, ours, target in (
        ("kafka sync", "classic", ">= 0.75"),
        ("kafka sync", "pipelined", "> 1"),
        ("kafka page cache", "pipelined", "> 1"),
    )
)


def settings(folder: Path) -> dict[str, BrokerSettings]:
    """Our brokers, by the names above."""
    return {
        "classic": BrokerSettings("classic", folder / "classic"),
        "pipelined": BrokerSettings("pipelined", folder / "pipelined"),
        "pipelined flush=os": BrokerSettings("pipelined", folder / "os", flush="os"),
        "classic delay=10ms": BrokerSettings("classic", folder / "classic-delay", commit_delay_ms=10),
        "pipelined delay=10ms": BrokerSettings("pipelined", folder / "pipelined-delay", commit_delay_ms=10),
        "pipelined delay=10ms commits=1": BrokerSettings(
            "pipelined", folder / "pipelined-delay-1", commit_delay_ms=10, commits_in_flight=1
        ),
    }


@contextlib.contextmanager
def kafka(script: Path, folder: Path, port: int, *properties: str) -> Iterator[Address]:
    """Apache Kafka in its own process, stopped at the end."""
    process = subprocess.Popen(
        ["bash", str(script), "start", str(folder), str(port), "num.partitions=4", *properties],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + KAFKA_START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield Address("127.0.0.1", port)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def rate(address: Address, side: Side, seconds: float) -> float:
    """Requests per second of one round."""
    load = LoadOptions(address.host, address.port, side.connections, side.in_flight, seconds=seconds, warmup_s=0.2)
    return figures(run_load(load).rows).requests_per_s


def compare(comparison: Comparison, brokers: dict[str, Address], rounds: int, seconds: float) -> None:
    """Drive both sides in turn, and print one line."""
    pairs = []
    for number in range(rounds):
        order = (comparison.a, comparison.b) if number % 2 else (comparison.b, comparison.a)
        rates = {side: rate(brokers[side.name], side, seconds) for side in order}
        pairs.append((rates[comparison.a], rates[comparison.b]))
    ratio = speedup(pairs)
    assert ratio is not None
    a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
    names = [f"{side.name} {side.connections}x{side.in_flight}" for side in (comparison.b, comparison.a)]
    interval = f"{ratio.ratio:6.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    print(
        f"{names[0]:>38} {b:>9,.0f}/s over {names[1]:>24} {a:>9,.0f}/s = {interval:<24} {comparison.target}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--kafka", type=Path, help="script that starts Apache Kafka: `SCRIPT start DIR PORT KEY=VALUE...`"
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")))
        ours = settings(folder)
        started = stack.enter_context(running(list(ours.values())))
        brokers = {name: Address(one.host, one.port) for name, one in zip(ours, started, strict=True)}
        for comparison in GRID:
            compare(comparison, brokers, options.rounds, options.seconds)
        if options.kafka is not None:  # started only now: a JVM at rest is not quite at rest
            sync = ("log.flush.interval.messages=1",)
            brokers["kafka sync"] = stack.enter_context(kafka(options.kafka, folder / "ks", KAFKA_PORT, *sync))
            brokers["kafka page cache"] = stack.enter_context(kafka(options.kafka, folder / "kp", KAFKA_PORT + 1))
            for comparison in KAFKA_GRID:
                compare(comparison, brokers, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
