"""Measure the cost of connections: idle ones beside an active one, a storm of short ones, bursts, and slow readers.

    python benchmarks/bench_connections.py [--mode pipelined] [--idle 10000] [--storm-rate 1000] [--storm-seconds 10]
                                           [--burst 1000] [--bursts 5] [--readers 100]

Idle connections send one ApiVersions request and nothing more. The active one sends one request at a time through a
bare socket, before the idle ones connect and while they are connected. Each connection of the storm connects, sends one
request and closes. Memory and descriptors of the broker are compared after a tenth of the storm, once all one-time
allocations are done. The connections of a burst connect at once; each sends one request. The active one is beside them.
Each slow reader requests 50 MB of existing records three times and reads nothing for a while. Then it reads the
responses.

Bounds: 0.5 s and 50 ms for the active one for a burst of 1,000, 25 KB per idle connection, no effect on the 99th
percentile of the active one beyond noise, and constant memory and descriptors. Responses that wait for slow readers
stay within `pipeline.unsent.response.bytes` (256 MB).
"""

import argparse
import contextlib
import itertools
import multiprocessing
import resource
import select
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import attrs
import trio

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.load.client import prepared
from pipeline_broker.measure.load.template import fetch_frame, produce_frame
from pipeline_broker.records.batch import NewRecord, build_batch

HELLO = struct.pack(">ihhih", 10, 18, 0, 1, -1)
STORM_THREADS = 4
SETTLE_SECONDS = 1.0
PAUSE_SECONDS = 0.002
SPARE_DESCRIPTORS = 200
RECORD_BYTES = 900_000
FETCH_BYTES = 50_000_000
FETCHES = 3
FETCH_VERSION = 12
SOURCES = 200
"""Number of loopback addresses that clients use; a single address would run out of ports."""


@attrs.frozen
class Process:
    """The broker as the operating system sees it."""

    pid: int
    port: int

    @property
    def kilobytes(self) -> int:
        return self._kilobytes("VmRSS")

    @property
    def peak_kilobytes(self) -> int:
        """The maximum of resident memory since `reset_peak`."""
        return self._kilobytes("VmHWM")

    def reset_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def _kilobytes(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(name)))

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def ask(client: socket.socket) -> None:
    client.sendall(HELLO)
    receive(client)


def receive(client: socket.socket) -> int:
    data = client.recv(65536)
    received, wanted = len(data), 4 + int.from_bytes(data[:4], "big")
    while received < wanted:
        received += len(client.recv(1 << 20))
    return wanted


def latencies(port: int, seconds: float) -> list[float]:
    """Return the milliseconds of each answer on a connection that sends one request at a time."""
    found, until = [], time.perf_counter() + seconds
    with connect(port) as client:
        ask(client)
        while (began := time.perf_counter()) < until:
            ask(client)
            found.append((time.perf_counter() - began) * 1000)
    return found


def p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[98]


def mid(found: list[float]) -> float:
    return statistics.median(found)


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    clients = []
    try:
        for number in range(count):
            clients.append(connect(port, f"127.0.0.{2 + number % SOURCES}"))
            ask(clients[-1])
        yield
    finally:
        for client in clients:
            client.close()


def measure_idle(broker: Process, count: int, seconds: float) -> None:
    before_ms = latencies(broker.port, seconds)
    kilobytes = broker.kilobytes
    began = time.perf_counter()
    with idle_connections(broker.port, count):
        opened_seconds = time.perf_counter() - began
        time.sleep(SETTLE_SECONDS)
        each = (broker.kilobytes - kilobytes) / count
        beside_ms = latencies(broker.port, seconds)
        again = latencies(broker.port, seconds)
    print(f"idle connections        {count:8,d}   opened in {opened_seconds:.1f} s")
    print(f"memory of each          {each:8.1f} KB, bound 25 KB")
    print(f"active one, alone       {p99(before_ms):8.3f} ms at the 99th percentile, median {mid(before_ms):.3f} ms")
    for name, found in (("beside them", beside_ms), ("repeated", again)):
        print(f"active one, {name:12s}{p99(found):8.3f} ms at the 99th percentile, median {mid(found):.3f} ms")


def storm(port: int, rate: float, seconds: float) -> tuple[int, float]:
    """Open `rate` short connections per second; return their number and the seconds that they took."""
    began, number, served = time.perf_counter(), itertools.count(), itertools.count()

    def run() -> None:
        while (index := next(number)) < rate * seconds:
            time.sleep(max(began + index / rate - time.perf_counter(), 0.0))
            with connect(port, f"127.0.0.{2 + index % SOURCES}") as client:
                ask(client)
            next(served)

    threads = [threading.Thread(target=run) for _ in range(STORM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(served), time.perf_counter() - began


def measure_storm(broker: Process, rate: float, seconds: float) -> None:
    storm(broker.port, rate, seconds / 10)
    time.sleep(SETTLE_SECONDS)
    kilobytes, descriptors = broker.kilobytes, broker.descriptors
    served, took = storm(broker.port, rate, seconds * 9 / 10)
    time.sleep(SETTLE_SECONDS)
    print(
        f"storm                   {served:8,d}   connections in {took:.1f} s: {served / took:,.0f}/s of {rate:,.0f}/s"
    )
    print(f"memory, storm           {kilobytes / 1024:8.1f} MB before, {broker.kilobytes / 1024:.1f} MB after")
    print(f"descriptors, storm      {descriptors:8d}   before, {broker.descriptors} after")


@contextlib.contextmanager
def burst(port: int, count: int) -> Iterator[float]:
    """Open `count` connections at once, send a request on each, and yield the seconds until all are answered."""
    clients: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack, select.epoll() as poll:
        began = time.perf_counter()
        for index in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.bind((f"127.0.0.{2 + index % SOURCES}", 0))
            client.connect_ex(("127.0.0.1", port))
            clients[client.fileno()] = client
            poll.register(client, select.EPOLLOUT)
        while clients:
            for descriptor, events in poll.poll():
                if events & select.EPOLLIN:
                    receive(clients.pop(descriptor))
                    poll.unregister(descriptor)
                else:
                    clients[descriptor].sendall(HELLO)
                    poll.modify(descriptor, select.EPOLLIN)
        yield time.perf_counter() - began


def slowest(port: int, is_over: "Synchronized[int]", longest: "Synchronized[float]") -> None:
    with connect(port) as client:
        while not is_over.value:
            began = time.perf_counter()
            ask(client)
            longest.value = max(longest.value, time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)


def measure_bursts(port: int, count: int, bursts: int) -> None:
    for _ in range(bursts):
        # A process, because a thread would wait for this one.
        is_over, longest = multiprocessing.Value("i", 0), multiprocessing.Value("d", 0.0)
        active = multiprocessing.Process(target=slowest, args=(port, is_over, longest))
        active.start()
        time.sleep(SETTLE_SECONDS)
        with burst(port, count) as took:
            is_over.value = 1
            active.join()
        print(f"burst                   {count:8,d}   connections answered in {took:.3f} s, bound 0.5 s for 1,000")
        print(f"active one, beside it   {longest.value * 1000:8.3f} ms at most, bound 50 ms")


def fill_topic(port: int) -> bytes:
    """Write as many records as one fetch may request; return the fetch request."""
    target = trio.run(prepared, "127.0.0.1", port, "large", 1, 30.0)
    batch = build_batch([NewRecord(bytes(RECORD_BYTES), timestamp=time.time_ns() // 1_000_000)])
    with connect(port) as writer:
        for _ in range(FETCH_BYTES // RECORD_BYTES + 1):
            writer.sendall(produce_frame(target, 0, batch))
            receive(writer)
    return fetch_frame(target.topic, 0, FETCH_BYTES, FETCH_VERSION)


def measure_slow_readers(broker: Process, count: int, seconds: float) -> None:
    fetch = fill_topic(broker.port)
    alone_ms = latencies(broker.port, seconds)
    before = broker.kilobytes
    broker.reset_peak()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(connect(broker.port)) for _ in range(count)]
        for reader in readers:
            reader.sendall(fetch * FETCHES)
        time.sleep(SETTLE_SECONDS)
        beside_ms = latencies(broker.port, seconds)
        peak = broker.peak_kilobytes
        began = time.perf_counter()
        sizes = [receive(reader) for reader in readers]
        took = time.perf_counter() - began
    time.sleep(SETTLE_SECONDS)
    asked = f"{FETCHES} times for {FETCH_BYTES / 1e6:.0f} MB"
    print(f"slow readers            {count:8,d}   that request {asked} and read nothing")
    print(f"memory, slow readers    {before / 1024:8.1f} MB before, {peak / 1024:.1f} MB at most, bound 256 MB more")
    for name, found in (("alone", alone_ms), ("beside them", beside_ms)):
        print(f"active one, {name:12s}{p99(found):8.3f} ms at the 99th percentile, median {mid(found):.3f} ms")
    print(f"their first responses   {min(sizes) / 1e6:8.1f} MB each and more, {sum(sizes) / took / 1e6:,.0f} MB/s")
    print(f"memory, after them      {broker.kilobytes / 1024:8.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--active-seconds", type=float, default=3.0)
    parser.add_argument("--storm-rate", type=float, default=1000.0)
    parser.add_argument("--storm-seconds", type=float, default=10.0)
    parser.add_argument("--burst", type=int, default=1000)
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--readers", type=int, default=100)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(options.idle, hard - SPARE_DESCRIPTORS)
    if count < options.idle:
        print(f"this system allows {hard} descriptors: reduced to {count} idle connections")
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        running([BrokerSettings(options.mode, Path(folder) / "data")]) as (started,),
    ):
        broker = Process(started.pid, started.port)
        measure_idle(broker, count, options.active_seconds)
        measure_storm(broker, options.storm_rate, options.storm_seconds)
        measure_bursts(broker.port, options.burst, options.bursts)
        measure_slow_readers(broker, options.readers, options.active_seconds)


if __name__ == "__main__":
    main()
