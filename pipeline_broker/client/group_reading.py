"""A reader that is a member of a group: joins, reads, commits and rejoins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.consumer import Position, Reader, Sink
from pipeline_broker.client.group_member import GroupMember
from pipeline_broker.client.groups import committed_offsets
from pipeline_broker.client.offsets import BEGINNING, END, Place, bounds_of, offsets_at
from pipeline_broker.client.topology import TopicPartition

__all__ = ["GroupReading", "GroupReadingOptions"]

COMMIT_S = 5.0
"""Kafka's default of auto.commit.interval.ms."""
LEAVE_S_MAX = 5.0
"""Longest time for the last commit, and for leaving the group."""


@attrs.frozen(slots=True)
class GroupReadingOptions:
    """The options of a `GroupReading`.

    Attributes:
        topics: the subscription.
        start: the first position in partitions without a committed offset.
        follows: wait for more records at the end of a partition.
        commits: commit the offsets of records that the sink has taken.
        isolation: READ_COMMITTED or READ_UNCOMMITTED of `offsets`.
    """

    group: str
    topics: Sequence[str]
    start: Place
    follows: bool
    commits: bool
    isolation: int


class GroupReading:
    """A group member that passes records to a sink.

    It commits an offset only after the sink has taken the records before it, and at the end of each generation. So the
    next member may read some records again, but none is lost.

    Args:
        sink: receives batches.
        warn: receives messages for the user, one line each.
    """

    def __init__(
        self, cluster: ClusterClient, options: GroupReadingOptions, sink: Sink, warn: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._sink = sink
        self._warn = warn
        self._member = GroupMember(cluster, options.group, options.topics)
        self._reader: Reader | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._first: frozenset[TopicPartition] = frozenset()
        self._is_stopped = False
        self._idle = trio.Event()

    def stop(self) -> None:
        self._is_stopped = True
        self._idle.set()
        if self._reader is not None:
            self._reader.stop()

    async def run(self) -> None:
        """Join the group, and read until all assigned partitions are at their end, or `stop` is called. Then leave.

        Raises:
            ClientError: the group or a partition cannot be read.
        """
        is_done = False
        topology = await self._cluster.refresh(self._options.topics)
        self._first = frozenset(topology.partitions(self._options.topics))
        try:
            while not is_done and not self._is_stopped:
                is_done = await self._read_generation(await self._member.join())
        finally:
            # Shielded: without a LeaveGroup the partitions would idle until the session timeout.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LEAVE_S_MAX):
                await self._member.leave()

    async def _read_generation(self, partitions: Sequence[TopicPartition]) -> bool:
        self._committed = {}

        async def begin(served: Sequence[TopicPartition]) -> dict[TopicPartition, Position]:
            positions = await self._positions(served)
            self._committed |= {partition: position.offset for partition, position in positions.items()}
            return positions

        topology = await self._cluster.refresh(sorted({topic for topic, _ in partitions}))
        served, unserved = topology.divided(partitions)
        reader = self._reader = Reader(
            self._cluster,
            await begin(served),
            self._sink,
            isolation=self._options.isolation,
            warn=self._warn,
            unserved=unserved,
            begin=begin,
        )
        self._idle = trio.Event()
        # `stop` may have been called before the reader existed.
        if self._is_stopped:
            return True
        is_changed = False

        async def stay() -> None:
            nonlocal is_changed
            await self._member.stay()
            is_changed = True
            reader.stop()
            self._idle.set()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stay)
                nursery.start_soon(self._commit_periodically, reader)
                await self._read(reader)
                nursery.cancel_scope.cancel()
        finally:
            # Shielded: the sink has taken these records, so the next member must not read them again.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LEAVE_S_MAX):
                await self._commit(reader)
        return not is_changed

    async def _read(self, reader: Reader) -> None:
        if reader.positions:
            await reader.run()
        elif self._options.follows:
            await self._idle.wait()  # other members have all partitions; the next rebalance may assign some

    async def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Position]:
        options = self._options
        committed = await committed_offsets(self._cluster, options.group)
        bounds = await bounds_of(self._cluster, partitions, options.isolation)
        fresh = {partition: it for partition, it in bounds.items() if partition not in committed}
        first = {partition: it for partition, it in fresh.items() if partition in self._first}
        # Partitions that are added later are read from their beginning, whatever `start` is, so no record is skipped.
        starts = await offsets_at(self._cluster, BEGINNING, fresh)
        starts.update(await offsets_at(self._cluster, options.start, first, is_exact=False))
        starts.update({partition: committed[partition].offset for partition in bounds if partition in committed})
        ends = await offsets_at(self._cluster, END, bounds)
        return {
            partition: Position(starts[partition], None if options.follows else ends[partition])
            for partition in partitions
        }

    async def _commit_periodically(self, reader: Reader) -> None:
        while True:
            await trio.sleep(COMMIT_S)
            await self._commit(reader)

    async def _commit(self, reader: Reader) -> None:
        if not self._options.commits:
            return
        read = {partition: position.offset for partition, position in reader.positions.items()}
        new = {partition: offset for partition, offset in read.items() if offset != self._committed.get(partition)}
        if not new:
            return
        if await self._member.commit(new):
            self._committed.update(new)
        else:
            self._warn(f"group {self._options.group} rebalanced before the last commit: some records may be read again")
