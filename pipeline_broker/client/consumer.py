"""A reader of partitions: fetches from their leaders and passes visible records to a sink.

One task per leader holds at most one fetch response. Retriable errors are retried until no leader has answered for the
cluster's timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import attrs
import trio

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.base.error_code import RETRIABLE, ErrorCode
from pipeline_broker.client.cluster_client import PARTITION_CHECK_S, ClusterClient
from pipeline_broker.client.errors import ClientError, check, error_name
from pipeline_broker.client.offsets import READ_COMMITTED, bounds_of
from pipeline_broker.client.topology import TopicPartition, without_leader
from pipeline_broker.client.visible import VisibleBatch, visible_batches
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse

__all__ = ["Begin", "Position", "Reader", "Sink"]

FETCH_WAIT_MS_MAX = 500
"""Longest wait of a leader for new records (fetch.max.wait.ms), and so the longest delay of `Reader.stop`."""
FETCH_BYTES_MAX = 8 << 20
"""Largest fetch response, unless its first batch is larger."""
PARTITION_BYTES_MAX = 1 << 20
"""Most bytes of one partition in a fetch response, unless the first batch is larger."""
PAUSE_S = 0.1
"""Pause before a retry."""
_FETCH_VERSIONS = range(4, 13)  # those that name topics

LEADER_CHECK_S = 1.0  # for the partitions without a leader, while others are read

Begin = Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, "Position"]]]
Sink = Callable[[TopicPartition, VisibleBatch], Awaitable[int | None]]
"""Takes a batch of a partition and returns the offset to read next, or None if it did not take the batch. The reader
passes the next batch of the partition after the sink returns."""


@attrs.define
class Position:
    """The next offset to read in a partition.

    Attributes:
        offset: the next offset.
        stop: the offset before which reading ends; None: never.
    """

    offset: int
    stop: int | None = None

    @property
    def is_reached(self) -> bool:
        return self.stop is not None and self.offset >= self.stop


class Reader:
    """A reader of partitions.

    A position advances when the sink returns, never inside it, so positions are safe to commit.

    Args:
        positions: where to start and stop in each partition.
        sink: receives batches, for several partitions concurrently.
        isolation: READ_COMMITTED hides records of open and aborted transactions.
        warn: receives a line for each range of offsets that is skipped, and about partitions without a leader.
        grows: topics to check for added partitions, which are then read from their start.
        unserved: further partitions, without a leader.
        begin: returns the positions of unserved partitions once they have a leader.

    Attributes:
        positions: the positions after the batches that the sink has taken.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        positions: Mapping[TopicPartition, Position],
        sink: Sink,
        *,
        isolation: int = READ_COMMITTED,
        warn: Callable[[str], None] = lambda _: None,
        grows: Sequence[str] = (),
        unserved: Sequence[TopicPartition] = (),
        begin: Begin | None = None,
    ) -> None:
        self.positions = dict(positions)
        self._grows = tuple(grows)
        self._cluster = cluster
        self._sink = sink
        self._isolation = isolation
        self._warn = warn
        self._unserved = list(unserved)
        self._begin = begin
        self._without_leader: set[TopicPartition] = set()  # that `warn` has named
        self._is_stopped = False
        self._is_stale = self._has_grown = False
        self._growth_check_at = 0.0
        self._why = ""
        self._progress_at = 0.0

    def stop(self) -> None:
        """Stop reading; `run` returns when the sinks have returned."""
        self._is_stopped = True

    async def run(self) -> None:
        """Read until each position reaches its stop offset, or `stop()` is called.

        Raises:
            ClientError: a partition cannot be read, or no leader answered within the cluster's timeout.
        """
        self._progress_at = trio.current_time()
        self._growth_check_at = self._progress_at + PARTITION_CHECK_S
        while not self._is_stopped and (left := [*self._unfinished(self.positions), *self._unserved]):
            self._is_stale = self._has_grown = False
            topology = await self._cluster.refresh(sorted({topic for topic, _ in left}))
            led = topology.by_leader(left)
            missing = set(left).difference(*led.values())
            await self._begin_served(missing)
            if missing and not led:
                self._mark_stale(without_leader(missing))
            elif missing:
                self._warn_of(missing)
            await self._read(led, is_partial=bool(missing))
            if self._is_stale:
                if trio.current_time() - self._progress_at > self._cluster.timeout_s:
                    raise ClientError(f"nothing could be read for {self._cluster.timeout_s:g} s: {self._why}")
                await trio.sleep(PAUSE_S)

    async def _begin_served(self, missing: Collection[TopicPartition]) -> None:
        if served := [each for each in self._unserved if each not in missing]:
            assert self._begin is not None, "given with unserved partitions"
            try:
                self.positions.update(await self._begin(served))
            except ClientError as error:
                if not error.is_retriable:
                    raise
                self._mark_stale(str(error))
            else:
                self._unserved = [each for each in self._unserved if each in missing]

    def _warn_of(self, missing: set[TopicPartition]) -> None:
        # A reader that ends raises an error about these partitions after it has read the others.
        if missing <= self._without_leader or all(it.stop is not None for it in self.positions.values()):
            return
        self._without_leader |= missing
        self._warn(f"{without_leader(missing)}; the other partitions are read")

    async def _read(self, led: Mapping[int, Sequence[TopicPartition]], *, is_partial: bool) -> None:
        # Returns when `_is_stale`, `_has_grown` or `_is_stopped` is set, or every stop is reached.
        async with trio.open_nursery() as watching:
            if is_partial:
                watching.start_soon(self._check_leaders_later)
            if self._grows:
                watching.start_soon(self._watch)
            # A nursery of its own, so that the watcher does not keep `run` waiting.
            async with trio.open_nursery() as nursery:
                for node, partitions in led.items():
                    nursery.start_soon(self._read_from, node, partitions)
            watching.cancel_scope.cancel()

    async def _check_leaders_later(self) -> None:
        await trio.sleep(LEADER_CHECK_S)
        self._has_grown = True

    async def _watch(self) -> None:
        while not self._has_grown:
            await trio.sleep_until(self._growth_check_at)
            self._growth_check_at = trio.current_time() + PARTITION_CHECK_S
            try:
                topology = await self._cluster.refresh(self._grows)
                known = {*self.positions, *self._unserved}
                added = [it for it in topology.partitions(self._grows) if it not in known]
                bounds = await bounds_of(self._cluster, added)
            except ClientError as error:
                if not error.is_retriable:
                    raise
                continue  # the reading tasks meet the same error, and decide when it has lasted too long
            # From their start: all records of an added partition were written after reading began.
            self.positions.update({partition: Position(it.start) for partition, it in bounds.items()})
            self._has_grown = bool(added)

    def _unfinished(
        self, partitions: Mapping[TopicPartition, Position] | Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        return [partition for partition in partitions if not self.positions[partition].is_reached]

    def _mark_stale(self, why: str) -> None:
        # All `_read_from` tasks end; `run` refreshes the metadata and starts them again.
        self._is_stale = True
        self._why = why

    async def _read_from(self, node: int, partitions: Sequence[TopicPartition]) -> None:
        turn = 0
        while not (self._is_stopped or self._is_stale or self._has_grown) and (left := self._unfinished(partitions)):
            # The first partitions of a request may fill its response, so each request begins with another one.
            turn = (turn + 1) % len(left)
            request = self._request([*left[turn:], *left[:turn]])
            try:
                answer = await self._cluster.ask(
                    request, FetchResponse, node=node, versions=_FETCH_VERSIONS, wait_s=FETCH_WAIT_MS_MAX / 1000
                )
                check(answer.error_code, "reading")
            except ClientError as error:
                if not error.is_retriable:
                    raise
                self._mark_stale(str(error))
                return
            for topic in answer.responses:
                for it in topic.partitions:
                    if (topic.topic, it.partition_index) in self.positions:
                        await self._take((topic.topic, it.partition_index), it)

    def _request(self, partitions: Sequence[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for topic, partition in partitions:
            asked = topics.setdefault(topic, FetchRequest.FetchTopic(topic=topic))
            offset = self.positions[topic, partition].offset
            asked.partitions.append(
                FetchRequest.FetchPartition(
                    partition=partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX
                )
            )
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS_MAX,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )

    async def _take(self, partition: TopicPartition, answer: FetchResponse.PartitionData) -> None:
        name = f"{partition[0]}-{partition[1]}"
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_range(partition)
        elif answer.error_code in RETRIABLE:
            self._mark_stale(f"{name}: {error_name(answer.error_code)}")
        else:
            check(answer.error_code, f"reading {name}")
            records = answer.records
            await self._hand_over(partition, answer, records if isinstance(records, memoryview | bytes) else b"")
            # After the sink, not before: a sink such as a pager may block longer than the timeout.
            self._progress_at = trio.current_time()

    async def _hand_over(self, partition: TopicPartition, answer: FetchResponse.PartitionData, data: Buffer) -> None:
        position = self.positions[partition]
        aborted = None
        if self._isolation == READ_COMMITTED:
            aborted = [(it.producer_id, it.first_offset) for it in answer.aborted_transactions or ()]
        before = position.offset
        for batch in visible_batches(data, before, position.stop, aborted):
            # Between batches only: a batch that the sink has taken must move the position.
            if self._is_stopped:
                return
            following = await self._sink(partition, batch)
            if following is None:
                return
            position.offset = max(position.offset, following)
        if position.offset == before and not self._is_stopped:
            if len(data):
                raise ClientError(f"{partition[0]}-{partition[1]} has no complete batch at offset {before}")
            if position.stop is not None and answer.high_watermark < position.stop:
                # The log was truncated after `stop` was computed; without this, reading would never end.
                position.stop = min(position.stop, max(before, answer.high_watermark))

    async def _find_range(self, partition: TopicPartition) -> None:
        # Records may be deleted while they are read: continue at the new log start.
        position = self.positions[partition]
        bounds = (await bounds_of(self._cluster, [partition]))[partition]
        name = f"{partition[0]}-{partition[1]}"
        if position.offset >= bounds.start:
            raise ClientError(f"{name} has no offset {position.offset}: it ends before {bounds.end}")
        self._warn(f"{name}: offsets {position.offset} to {bounds.start - 1} were deleted, so they are skipped")
        position.offset = bounds.start
