"""Measure how connections affect each other: `python benchmarks/bench_isolation.py [--rounds 9] [--seconds 0.4]`.

* 1,000 active connections with one request in flight: the responses of the busiest over those of the least busy one.
* 16 connections alone and beside a disturbance, in turn, round by round: the ratio of their 99th percentiles. The
  disturbances are a client that requests large fetches and never reads; in pipelined mode, connections of a shard whose
  handler is blocked, and the same with a full queue; in classic mode, a blocked handler.
* Requests/s over TLS and over plaintext, in turn: the ratio.

The load is durable produce requests of one 100-byte record. Brokers have their own processes, and this one is the
client. The broker's process blocks a handler for 20 ms before each turn of the first queue (pipelined), or before each
commit of one partition that no measured connection uses (classic).

Each line ends with its bound and a verdict. It is "unclear" if the ratio exceeds the bound, but its 95 % interval
includes it. The exit code is 1 if a line fails.
"""

import argparse
import contextlib
import functools
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import trio
from closed_loop import RECEIVE_BYTES, Client, drive

from pipeline_broker.cli import main as command_line
from pipeline_broker.client.control import Target
from pipeline_broker.measure.experiment.broker_process import python_environment
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import prepared
from pipeline_broker.measure.load.template import fetch_frame, produce_frame
from pipeline_broker.records.batch import NewRecord, build_batch
from stages.request import Pending, Request
from stages.request_channel import RequestQueue
from stages.request_handler import RequestHandlerPool

ACTIVE = 1000
FAIRNESS_SECONDS = 6.0
MEASURED = 16
DISTURBING = 8
CANDIDATES = 64
"""Connections to open so that some of them belong to the blocked shard: one in eight on average."""
PAUSE_SECONDS = 0.02
PARTITIONS = 4
SLOW_PARTITION = PARTITIONS
IN_FLIGHT_MAX = 64
DEPTH = 16
LARGE_RECORD_BYTES = 900_000
LARGE_RECORDS = 8
LARGE_FETCHES = 32
LARGE_FETCH_BYTES = 1 << 24
FETCH_VERSION = 12
# Code of the broker's process


def make_wait(what: str) -> None:
    """Block the handler of the first queue, or each commit of one partition."""
    if what == "queue":
        turn = RequestHandlerPool._turn  # noqa: SLF001 - no client can block a handler

        async def slow_turn(pool: RequestHandlerPool, queue: RequestQueue) -> None:
            if not queue.index:
                await trio.sleep(PAUSE_SECONDS)
            await turn(pool, queue)

        RequestHandlerPool._turn = slow_turn  # noqa: SLF001 - see above
    if what == "partition":
        commit = RequestHandlerPool._commit  # noqa: SLF001 - see above

        async def slow_commit(pool: RequestHandlerPool, request: Request, pending: Pending) -> None:
            if pending.entries and pending.entries[0].log.partition == SLOW_PARTITION:
                await trio.sleep(PAUSE_SECONDS)
            await commit(pool, request, pending)

        RequestHandlerPool._commit = slow_commit  # noqa: SLF001 - see above


@contextlib.contextmanager
def broker(mode: str, waits: str = "", tls: Path | None = None) -> Iterator[tuple[int, int]]:
    """Run a broker in its own process; yield its port and its TLS port."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        tls_port = probe.getsockname()[1]
        command = [sys.executable, __file__, "broker", waits, "serve", "--mode", mode, "--data", f"{folder}/data"]
        listeners = "PLAINTEXT://127.0.0.1:0"
        if tls is not None:
            probe.close()
            listeners += f",SSL://127.0.0.1:{tls_port}"
            command += ["--set", "ssl.keystore.type=PEM", "--set", f"ssl.keystore.location={tls}"]
        command += ["--set", f"listeners={listeners}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=python_environment()) as process:
            assert process.stdout is not None
            try:
                address = process.stdout.readline().split()[2]
                yield int(address.rpartition(":")[2]), tls_port
            finally:
                process.send_signal(signal.SIGTERM)


def key_store(folder: Path) -> Path:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-noenc",
        "-days",
        "1",
    ]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    store = folder / "store.pem"
    store.write_text(key.read_text() + certificate.read_text())
    return store


# Measurements


@contextlib.contextmanager
def connected(count: int, port: int, target: Target, *, is_tls: bool = False) -> Iterator[list[Client]]:
    with contextlib.ExitStack() as stack:
        clients = []
        for number in range(count):
            clients.append(Client(port, small_frame(target, number % PARTITIONS), is_tls=is_tls))
            stack.callback(clients[-1].socket.close)
        yield clients


def ready_topic(port: int) -> Target:
    return trio.run(prepared, "127.0.0.1", port, "isolation", PARTITIONS + 1, 30.0)


def small_frame(target: Target, partition: int) -> bytes:
    return produce_frame(target, partition, batch_of(100))


@functools.cache
def batch_of(size_bytes: int) -> bytes:
    return build_batch([NewRecord(bytes(size_bytes), timestamp=time.time_ns() // 1_000_000)])


@attrs.frozen
class Options:
    rounds: int
    seconds: float


def one_each(_client: Client) -> int:
    return 1


@attrs.frozen
class Bound:
    value: float
    is_largest: bool = True

    def holds(self, ratio: float) -> bool:
        return ratio <= self.value if self.is_largest else ratio >= self.value

    def __str__(self) -> str:
        return f"{'<=' if self.is_largest else '>='} {self.value:g}"


P99_RATIO, SERVED_RATIO, TLS_RATIO = Bound(1.2), Bound(2.0), Bound(0.5, is_largest=False)


def report(mode: str, what: str, figures: str, ratio: str, bound: Bound, verdict: str) -> bool:
    print(f"{mode:9} {what:28} {figures:36} {ratio:22} {bound!s:7} {verdict}", flush=True)
    return verdict != "FAIL"


def report_pairs(mode: str, what: str, figures: str, pairs: Sequence[tuple[float, float]], bound: Bound) -> bool:
    """Print a line for paired rounds; `figures` has placeholders for the two medians."""
    ratio = speedup(pairs)
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
    verdict = "FAIL"
    if bound.holds(ratio.ratio):
        verdict = "pass"
    elif bound.holds(ratio.low if bound.is_largest else ratio.high):
        verdict = "unclear"
    interval = f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    return report(mode, what, figures.format(a, b), interval, bound, verdict)


def fairness(mode: str) -> bool:
    with broker(mode) as (port, _), connected(ACTIVE, port, ready_topic(port)) as clients:
        drive(clients, FAIRNESS_SECONDS, one_each)
        served = [len(client.latencies) for client in clients]
    ratio, figures = max(served) / min(served), f"{min(served)} to {max(served)} requests each"
    verdict = "pass" if SERVED_RATIO.holds(ratio) else "FAIL"
    return report(mode, f"{ACTIVE:,} active connections", figures, f"{ratio:.2f}", SERVED_RATIO, verdict)


def p99_ms(clients: Sequence[Client]) -> float:
    return statistics.quantiles([latency for client in clients for latency in client.latencies], n=100)[98] * 1000


def in_turn(rounds: int, one: Callable[[], float], other: Callable[[], float]) -> list[tuple[float, float]]:
    """Return the results of both functions, round by round; the first one alternates."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = other()
            pairs.append((one(), second))
        else:
            first = one()
            pairs.append((first, other()))
    return pairs


def beside(mode: str, what: str, options: Options, measured: Sequence[Client], disturbed: Callable[[], None]) -> bool:
    """Compare the 99th percentile of the measured connections alone with that during `disturbed`."""

    def alone() -> float:
        drive(measured, options.seconds, one_each)
        return p99_ms(measured)

    def together() -> float:
        disturbed()
        return p99_ms(measured)

    alone()  # warm-up
    pairs = in_turn(options.rounds, alone, together)
    return report_pairs(mode, what, "p99 {:.2f} ms alone, {:.2f} beside", pairs, P99_RATIO)


def slow_reader(mode: str, options: Options) -> bool:
    """Connect a new slow reader, which is answered within the round."""
    with broker(mode) as (port, _):
        target = ready_topic(port)
        fetch = fetch_frame(target.topic, SLOW_PARTITION, LARGE_FETCH_BYTES, FETCH_VERSION)
        with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as writer:
            for _ in range(LARGE_RECORDS):
                writer.sendall(produce_frame(target, SLOW_PARTITION, batch_of(LARGE_RECORD_BYTES)))
                writer.recv(RECEIVE_BYTES)
        with connected(MEASURED, port, target) as measured:

            def disturbed() -> None:
                with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as reader:
                    reader.sendall(fetch * LARGE_FETCHES)
                    drive(measured, options.seconds, one_each)

            return beside(mode, "a reader that takes nothing", options, measured, disturbed)


def slow_shard(options: Options) -> list[bool]:
    with broker("pipelined", "queue") as (port, _), connected(CANDIDATES, port, ready_topic(port)) as clients:
        slow = [client for client in clients if client.first_seconds >= PAUSE_SECONDS][:DISTURBING]
        measured = [client for client in clients if client.first_seconds < PAUSE_SECONDS][:MEASURED]
        assert slow, "no connection came to the shard that waits"
        together = [*measured, *slow]

        def windows(in_flight: int, client: Client) -> int:
            return in_flight if client in slow else 1

        return [
            beside(
                "pipelined",
                what,
                options,
                measured,
                lambda in_flight=in_flight: drive(together, options.seconds, functools.partial(windows, in_flight)),
            )
            for what, in_flight in (("a shard that waits", 1), ("a full queue", IN_FLIGHT_MAX))
        ]


def waiting_handler(options: Options) -> bool:
    with broker("classic", "partition") as (port, _):
        target = ready_topic(port)
        with connected(MEASURED, port, target) as measured:
            slow = Client(port, small_frame(target, SLOW_PARTITION))
            with contextlib.closing(slow.socket):
                return beside(
                    "classic",
                    "a handler that waits",
                    options,
                    measured,
                    lambda: drive([*measured, slow], options.seconds, one_each),
                )


def over_tls(mode: str, options: Options, store: Path) -> bool:
    with broker(mode, tls=store) as (port, tls_port):
        target = ready_topic(port)
        with (
            connected(DEPTH, port, target) as plain,
            connected(DEPTH, tls_port, target, is_tls=True) as encrypted,
        ):

            def rate(clients: Sequence[Client]) -> float:
                began = time.perf_counter()
                drive(clients, options.seconds, lambda _client: DEPTH)
                return sum(len(client.latencies) for client in clients) / (time.perf_counter() - began)

            pairs = in_turn(options.rounds, lambda: rate(plain), lambda: rate(encrypted))
    return report_pairs(mode, "TLS at 16 x 16", "{:,.0f}/s plaintext, {:,.0f}/s TLS", pairs, TLS_RATIO)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4)
    parsed = parser.parse_args()
    options = Options(parsed.rounds, parsed.seconds)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = []
    with tempfile.TemporaryDirectory() as folder:
        store = key_store(Path(folder))
        for mode in ("classic", "pipelined"):
            held += [fairness(mode), slow_reader(mode, options), over_tls(mode, options, store)]
    held += [waiting_handler(options), *slow_shard(options)]
    sys.exit(not all(held))


if __name__ == "__main__":
    if sys.argv[1:2] == ["broker"]:
        make_wait(sys.argv[2])
        command_line(sys.argv[3:])
    else:
        main()
