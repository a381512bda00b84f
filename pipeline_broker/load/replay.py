"""Replays recorded departures as an open loop.

Rules of this file: a request is sent at its time, whatever the answers do, and its latency counts from that
intended time (no coordinated omission); a partition is one connection, so that departures of one aircraft stay in
order; requests are built before the clock starts.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from pipeline_broker.load.client import (
    LoadOptions,
    LoadResult,
    bounded,
    closed_loop,
    connections_to,
    measuring,
    prepared,
    run_to_end,
)
from pipeline_broker.load.connection import Connection
from pipeline_broker.load.control import Target
from pipeline_broker.load.departures import Departure, intended_offsets_ns
from pipeline_broker.load.exchange import OpenLoop
from pipeline_broker.load.template import error_position, produce_frame
from pipeline_broker.load.timer import WaitUntil, precise_timer
from pipeline_broker.records.batch import build_batch

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "data" / "departures-2013.csv.gz"
LEAD_NS = 50_000_000  # from the start of the clock to the first departure


@attrs.frozen(slots=True)
class ReplayOptions:
    """An open loop over four partitions, a week of departures in `week_s` seconds."""

    host: str
    port: int
    departures: Sequence[Departure]
    week_s: float = 5.0
    warmup_s: float = 0.1
    topic: str = "departures"
    partitions: int = 4
    timeout_s: float = 30.0


def run_replay(options: ReplayOptions) -> LoadResult:
    """Replay to the end."""
    return run_to_end(open_loop, options)


async def open_loop(options: ReplayOptions) -> LoadResult:
    """Replay inside a running Trio program."""
    host, port, timeout_s = options.host, options.port, options.timeout_s
    if options.warmup_s > 0:  # on a topic of its own: the replayed one holds departures only
        await closed_loop(LoadOptions(host, port, seconds=options.warmup_s, topic="warm-up", timeout_s=timeout_s))
    target = await prepared(host, port, options.topic, options.partitions, timeout_s)
    frames, offsets_ns = _plan(options.departures, options.week_s, target)
    async with connections_to(host, port, target.partitions, timeout_s) as connections:
        with measuring() as finish, precise_timer() as wait_until:
            start_ns = time.monotonic_ns() + LEAD_NS
            position = error_position(target)
            exchanges = [
                OpenLoop(requests, [start_ns + offset for offset in offsets], position)
                for requests, offsets in zip(frames, offsets_ns, strict=True)
            ]
            last_ns = max(offsets[-1] for offsets in offsets_ns if offsets)
            with bounded((LEAD_NS + last_ns) / 1e9 + timeout_s, exchanges):
                async with trio.open_nursery() as nursery:
                    for connection, exchange in zip(connections, exchanges, strict=True):
                        nursery.start_soon(_receive_all, connection, exchange)
                    await _send_all(connections, exchanges, wait_until)
            return finish(exchanges, start_ns, start_ns)


def _plan(departures: Sequence[Departure], week_s: float, target: Target) -> tuple[list[list[bytes]], list[list[int]]]:
    """Framed requests and their times, per partition."""
    frames: list[list[bytes]] = [[] for _ in range(target.partitions)]
    times: list[list[int]] = [[] for _ in range(target.partitions)]
    for departure, offset_ns in zip(departures, intended_offsets_ns(departures, week_s), strict=True):
        partition = departure.partition(target.partitions)
        frames[partition].append(produce_frame(target, partition, build_batch([departure.record()])))
        times[partition].append(offset_ns)
    return frames, times


async def _send_all(connections: Sequence[Connection], exchanges: Sequence[OpenLoop], wait_until: WaitUntil) -> None:
    while True:
        now_ns = time.monotonic_ns()
        for connection, exchange in zip(connections, exchanges, strict=True):
            if data := exchange.due(now_ns):
                connection.send_nowait(data)
        waiting = [exchange.next_ns for exchange in exchanges if exchange.next_ns is not None]
        if not waiting:
            return
        await wait_until(min(waiting))


async def _receive_all(connection: Connection, exchange: OpenLoop) -> None:
    while exchange.next_ns is not None or exchange.in_flight:
        data = await connection.receive()
        exchange.receive(data, time.monotonic_ns())
