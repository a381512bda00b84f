"""The replay of recorded flight departures as an open loop.

Each partition has one connection, so the departures of one aircraft keep their order. Requests are built before the
run.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from pipeline_broker.client.control import Target
from pipeline_broker.measure.load.client import (
    LoadResult,
    bounded,
    connections_to,
    load_rows,
    measuring,
    prepared,
    run_to_end,
)
from pipeline_broker.measure.load.conversation import converse
from pipeline_broker.measure.load.departures import Departure, intended_offsets_ns
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.options import IN_FLIGHT_MAX, LoadOptions
from pipeline_broker.measure.load.pace import OpenPace
from pipeline_broker.measure.load.recorders import RowRecorder
from pipeline_broker.measure.load.requests import ProduceInOrder, ProduceTemplate
from pipeline_broker.measure.load.template import error_position, produce_frame
from pipeline_broker.records.batch import build_batch

DEFAULT_DATA = Path(__file__).resolve().parents[3] / "data" / "departures-2013.csv.gz"
REPLAY_WEEK_S = 5.0
"""Seconds in which a week of departures is replayed."""
LEAD_NS = 50_000_000  # from the start of the clock to the first departure


@attrs.frozen(slots=True)
class ReplayOptions:
    """A replay of departures.

    Attributes:
        week_s: seconds in which a week of departures is replayed.
    """

    host: str
    port: int
    departures: Sequence[Departure]
    week_s: float = REPLAY_WEEK_S
    warmup_s: float = 0.1
    topic: str = "departures"
    partitions: int = 4
    timeout_s: float = 30.0


def run_replay(options: ReplayOptions) -> LoadResult:
    return run_to_end(open_loop, options)


async def open_loop(options: ReplayOptions) -> LoadResult:
    host, port, timeout_s = options.host, options.port, options.timeout_s
    if options.warmup_s > 0:  # on another topic, because the replayed one must contain departures only
        await load_rows(LoadOptions(host, port, seconds=options.warmup_s, topic="warm-up", timeout_s=timeout_s))
    target = await prepared(host, port, options.topic, options.partitions, timeout_s)
    frames, offsets_ns = _plan(options.departures, options.week_s, target)
    position = error_position(target)
    nodes = [node for partition in range(target.partitions) for node in target.nodes if partition in node.partitions]
    async with connections_to(nodes, timeout_s) as connections:
        with measuring() as clock:
            start_ns = time.monotonic_ns() + LEAD_NS
            recorders = [RowRecorder(is_open=True) for _ in frames]
            exchanges = [
                Exchange(
                    ProduceInOrder(ProduceTemplate(tuple(requests), position), iter(range(len(requests)))),
                    OpenPace((start_ns + offset for offset in offsets), IN_FLIGHT_MAX),
                    recorder,
                )
                for requests, offsets, recorder in zip(frames, offsets_ns, recorders, strict=True)
            ]
            last_ns = max(offsets[-1] for offsets in offsets_ns if offsets)
            with bounded((LEAD_NS + last_ns) / 1e9 + timeout_s, exchanges):
                await converse(connections, exchanges)
    rows = [row for index, recorder in enumerate(recorders) for row in recorder.rows(index)]
    return LoadResult(rows, start_ns, clock.ended_ns, clock.cpu_share)


def _plan(departures: Sequence[Departure], week_s: float, target: Target) -> tuple[list[list[bytes]], list[list[int]]]:
    frames: list[list[bytes]] = [[] for _ in range(target.partitions)]
    times: list[list[int]] = [[] for _ in range(target.partitions)]
    for departure, offset_ns in zip(departures, intended_offsets_ns(departures, week_s), strict=True):
        partition = departure.partition(target.partitions)
        frames[partition].append(produce_frame(target, partition, build_batch([departure.record()])))
        times[partition].append(offset_ns)
    return frames, times
