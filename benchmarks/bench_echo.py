"""What the stages alone cost: `python benchmarks/bench_echo.py [rounds] [seconds]`.

An echo server in a process of its own, a closed-loop client in this one, 100-byte requests. `none` answers at once (no
commit), `file` makes each request durable by fdatasync first. Rounds of both modes alternate; the figures are medians
in requests per second, with the smallest and the largest round.
"""

from __future__ import annotations

import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from stages.commit_storage import CommitStorage
from stages.listener import open_listener
from stages.mode import MODES
from stages.request import Close, Pending, Request, Result, Send
from stages.socket_server import SocketServer

FRAME = struct.pack(">i", 100) + bytes(100)
CASES = [
    ("none", 1, 1),
    ("none", 1, 64),
    ("none", 16, 16),
    ("file", 1, 1),
    ("file", 1, 5),
    ("file", 1, 64),
    ("file", 16, 16),
]


class Echo:
    """The application."""

    def __init__(self, *, is_durable: bool) -> None:
        self.is_durable = is_durable

    def handle(self, request: Request) -> Result:
        """Answer with the request."""
        if self.is_durable:
            return Pending([request.frame], Send(request.frame))
        return Send(request.frame)

    def failed(self, request: Request, error: Exception) -> Close:  # noqa: ARG002 - the interface is given
        return Close(str(error))

    def connection_closed(self, session: object) -> None:
        """Keep nothing."""


class File(CommitStorage):
    """The storage: one file, one sync per commit."""

    key_of, size_of = staticmethod(hash), staticmethod(len)

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self, entries: list[bytes]) -> None:
        """Append."""
        os.write(self.fd, b"".join(entries))

    def sync(self, ticket: None) -> None:  # noqa: ARG002 - the interface is given
        """Make durable."""
        os.fdatasync(self.fd)


def serve(mode: str, storage: str, path: str) -> None:
    listener = open_listener("ECHO", "127.0.0.1", 0)
    print(listener.port, flush=True)
    trio.run(SocketServer(MODES[mode], Echo(is_durable=storage == "file"), File(path)).run, [listener])


async def load(port: int, connections: int, in_flight: int, seconds: float) -> float:
    """Requests per second of clients that send one request for each answer."""
    answered = 0

    async def connection() -> None:
        nonlocal answered
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(FRAME * in_flight)
            received = 0
            while True:
                received += len(await stream.receive_some())
                count, received = divmod(received, len(FRAME))
                answered += count
                if count:
                    await stream.send_all(FRAME * count)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(connection)
    return answered / seconds


def measure(mode: str, storage: str, connections: int, in_flight: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        command = [sys.executable, __file__, "serve", mode, storage, str(Path(folder) / "echo.log")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                port = int(server.stdout.readline())
                trio.run(load, port, connections, in_flight, seconds / 4)  # warm-up
                return trio.run(load, port, connections, in_flight, seconds)
            finally:
                server.kill()


def main(rounds: int, seconds: float) -> None:
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {rounds} rounds of {seconds} s")
    print(f"{'storage':8} {'connections':>11} {'in flight':>9}  {'classic':>24}  {'pipelined':>24}  ratio")
    for storage, connections, in_flight in CASES:
        rates: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in range(rounds):
            for mode in MODES:
                rates[mode].append(measure(mode, storage, connections, in_flight, seconds))
        cells = [
            f"{statistics.median(rates[mode]):8.0f} ({min(rates[mode]):6.0f} .. {max(rates[mode]):6.0f})"
            for mode in MODES
        ]
        ratio = statistics.median(one / other for one, other in zip(rates["pipelined"], rates["classic"], strict=True))
        print(f"{storage:8} {connections:11} {in_flight:9}  {cells[0]:>24}  {cells[1]:>24}  {ratio:5.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 7, float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
