"""Traces of a server with a given response order: the `broken` preset, or the real order.

The server is that of `stages`, with the broker's trace files and the load client's ring file. Only the network and the
disk are in memory, so a whole run takes milliseconds and its trace is a real one.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from pipeline_broker.telemetry.trace_files import TraceFiles
from pipeline_broker.traces.client_rows import ClientRow, write_client
from stages.mode import PIPELINED
from stages.mute import MuteReason
from stages.request import Close, Pending, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.scripted_commits import ScriptedCommits
from stages.timeline import now_ns

REQUESTS = 24
CONNECTIONS = 2


@attrs.frozen
class Log:
    topic: str
    partition: int


@attrs.frozen
class Entry:
    log: Log
    base_offset: int
    last_offset: int

    def __len__(self):
        return 100


class Application:
    """Every third request of a connection writes and waits for its commit; the others are answered at once."""

    def __init__(self):
        self.appended = 0

    def handle(self, request):
        (number,) = struct.unpack(">i", request.frame)
        request.api, request.version, request.correlation_id, request.acks = 0, 9, number, -1
        if number % 3:
            return Send(bytes(request.frame))
        self.appended += 1
        return Pending([Entry(Log("events", 0), self.appended, self.appended)], Send(bytes(request.frame)))

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        pass


def write_run(folder: Path, response_order) -> list[list[int]]:
    """Drive a server and write its run into `folder`; return the ids that each client received, in that order."""
    files = TraceFiles(folder, {reason.value: reason.name.lower() for reason in MuteReason})
    received: list[list[int]] = [[] for _ in range(CONNECTIONS)]
    rows: list[ClientRow] = []

    async def drive(server, connection):
        client = await server.connect()
        sent_ns = now_ns()
        client.send(*(struct.pack(">i", number) for number in range(REQUESTS)))
        for place in range(REQUESTS):
            (number,) = struct.unpack(">i", await client.receive())
            received[connection].append(number)
            rows.append(ClientRow(connection, place, number, None, sent_ns, now_ns(), 0, True))

    async def main():
        executor = ScriptedCommits([0.002])
        async with (
            open_memory_server(
                PIPELINED, Application(), timeline=files, executor=executor, response_order=response_order
            ) as server,
            trio.open_nursery() as nursery,
        ):
            for connection in range(CONNECTIONS):
                nursery.start_soon(drive, server, connection)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    files.close()
    write_client(folder / "client-0.ring", rows)
    return received


def describe(folder: Path, number: int, **columns) -> None:
    """Write `run.json`, which makes the run complete."""
    row = {"run": number, "round": 0, "traced": True, "mode": "pipelined", "side": 1, "client": "raw"}
    row |= {"in_flight": REQUESTS, "connections": CONNECTIONS, "commit_delay_ms": 0, "flush": "always", "schema": 2}
    row |= {"settings": {}, "machine": {}, "client_cpu_share": 0.5, "lost_rows": 0, "experiment": "grid", **columns}
    (folder / "run.json").write_text(json.dumps(row))
