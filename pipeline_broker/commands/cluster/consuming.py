"""The run of `consume`: reads records, prints them, and commits their offsets."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
import trio

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.consumer import Position, Reader
from pipeline_broker.client.group_reading import LEAVE_S_MAX, GroupReading, GroupReadingOptions
from pipeline_broker.client.offsets import bounds_of, offsets_at
from pipeline_broker.client.rights import note_needed
from pipeline_broker.client.topology import TopicPartition, Topology
from pipeline_broker.client.visible import VisibleBatch
from pipeline_broker.commands.cluster.consume_options import ConsumeOptions
from pipeline_broker.commands.cluster.progress import Meter, metered
from pipeline_broker.commands.cluster.streams import Output
from pipeline_broker.records.record import Record

if TYPE_CHECKING:
    from pipeline_broker.client.remote_schemas import RemoteSchemas

__all__ = ["Consumption"]

SIGNALLED = 128
"""The exit code after a signal is this plus the number of the signal, as in shells."""


class Consumption:
    def __init__(self, options: ConsumeOptions) -> None:
        self._options = options
        self._left = options.count
        self._lock = trio.Lock()
        self._output = Output()
        self._stop: Callable[[], None] = lambda: None
        self._meter: Meter | None = None

    async def run(self, cluster: ClusterClient) -> int:
        """Print the records, and return the exit code: 0, or 128 plus the number of the signal that ended the command.

        Raises:
            ClientError: records cannot be read or printed.
            BrokenPipeError: the reader of the output closed it.
        """
        code = 0
        note_needed("read", *(() if self._options.group is None else ("group",)), "topic")

        async def watch(*, task_status: trio.TaskStatus[None]) -> None:
            nonlocal code
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for number in signals:
                    # Without a group the first signal ends the command at once. A group member first commits and
                    # leaves; a second signal ends it at once.
                    if code or self._options.group is None:
                        nursery.cancel_scope.cancel()
                    nursery.cancel_scope.deadline = trio.current_time() + LEAVE_S_MAX
                    code = SIGNALLED + number
                    self._stop()

        async with trio.open_nursery() as nursery:
            await nursery.start(watch)
            await (
                self._read(cluster)
                if self._options.group is None
                else self._read_as_member(cluster, self._options.group)
            )
            nursery.cancel_scope.cancel()
        return code

    async def _read(self, cluster: ClusterClient) -> None:
        options = self._options

        async def begin(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Position]:
            bounds = await bounds_of(cluster, partitions, options.isolation)
            starts = await offsets_at(cluster, options.start, bounds)
            stops = None if options.until is None else await offsets_at(cluster, options.until, bounds, is_exact=False)
            return {
                partition: Position(start, None if stops is None else stops[partition])
                for partition, start in starts.items()
            }

        topology = await cluster.ready(options.topics)
        served, unserved = topology.divided(self._partitions(topology))
        positions = await begin(served)
        total = options.count
        if options.until is not None:
            there = sum(max(0, it.stop - it.offset) for it in positions.values() if it.stop is not None)
            total = there if total is None else min(there, total)
        grows = options.topics if options.until is None and not options.partitions else ()
        reader = Reader(
            cluster,
            positions,
            self._print,
            isolation=options.isolation,
            warn=self._warn,
            grows=grows,
            unserved=unserved,
            begin=begin,
        )
        self._stop = reader.stop
        is_shown = not (options.is_quiet or self._output.is_terminal)
        with metered(f"reading {', '.join(options.topics)}", total, is_shown=is_shown) as self._meter:
            await reader.run()

    def _partitions(self, topology: Topology) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for topic in self._options.topics:
            there = topology.topic(topic)
            wanted = [there.partition(number) for number in self._options.partitions] or there.partitions
            found += [(topic, partition.index) for partition in wanted]
        return found

    async def _read_as_member(self, cluster: ClusterClient, group: str) -> None:
        options = self._options
        await cluster.ready(options.topics)
        reading_options = GroupReadingOptions(
            group=group,
            topics=options.topics,
            start=options.start,
            follows=options.until is None,
            commits=options.commits,
            isolation=options.isolation,
        )
        reading = GroupReading(cluster, reading_options, self._print, self._warn)
        self._stop = reading.stop
        await reading.run()

    async def _print(self, partition: TopicPartition, batch: VisibleBatch) -> int | None:
        # Several partitions are read concurrently; each batch is printed without interruption.
        async with self._lock:
            if self._left == 0:
                return None
            records, following = batch.records, batch.next_offset
            if self._left is not None:
                if len(records) > self._left:
                    # With --count the committed offset must not pass records that were not printed.
                    following = records[self._left].offset
                    records = records[: self._left]
                self._left -= len(records)
            if self._options.schemas is not None:
                records = await trio.to_thread.run_sync(_decoded, self._options.schemas, records)
            printer, is_append_time = self._options.printer, batch.is_append_time
            await self._output.write(b"".join(printer(partition, record, is_append_time) for record in records))
            if self._meter is not None:
                self._meter.advance(len(records))
            if self._left == 0:
                self._stop()
            return following

    def _warn(self, line: str) -> None:
        if not self._options.is_quiet:
            click.echo(f"Warning: {line}", err=True)


def _decoded(schemas: RemoteSchemas, records: Sequence[Record]) -> list[Record]:
    return [schemas.decoded(record) for record in records]
