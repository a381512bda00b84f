"""A producer for one topic.

The outbox decides the order of batches. The producer sends them like Kafka's Sender and InFlightRequests: a request has
a batch of every ready partition, and a leader may have several requests in flight.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import attrs
import trio

from pipeline_broker.base.error_code import RETRIABLE, ErrorCode
from pipeline_broker.client.cluster_client import INIT_PRODUCER_ID_VERSIONS, RETRY_S_MAX, RETRY_S_MIN, ClusterClient
from pipeline_broker.client.errors import BrokerRefused, ClientError, NoSuchPartition, check, describe_error
from pipeline_broker.client.link import Link
from pipeline_broker.client.outbox import Batch, Outbox, size_of
from pipeline_broker.client.partitioner import Partitioner
from pipeline_broker.client.produce_requests import Answers, ProducerOptions, send_batches
from pipeline_broker.client.topology import Topology, without_leader
from pipeline_broker.client.transaction import Transaction
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["Delivered", "Producer", "producing"]

UNACKNOWLEDGED_BYTES_MAX = 16 << 20
"""Most unacknowledged bytes before `Producer.wait_for_capacity` waits."""
REQUEST_BYTES_MAX = 8 << 20
"""Size of the batches in a request at which no further batch is added."""
Delivered = Callable[[Batch, int], None]
"""Receives each acknowledged batch with the offset of its first record; -1 if the broker does not report it."""


@attrs.frozen(slots=True)
class _Request:
    batches: list[Batch]
    answers: Callable[[], Awaitable[Answers]]


@attrs.define
class _Leader:
    """The requests in flight to one broker, all over one connection.

    Attributes:
        in_flight: unanswered requests, the oldest first.
        link: the connection of the requests in flight.
        is_sending: a task prepares the next request.
        settled: set while no request is in flight.
    """

    node: int
    in_flight: deque[_Request] = attrs.field(factory=deque)
    link: Link | None = None
    is_sending: bool = False
    settled: trio.Event = attrs.field(factory=trio.Event)


@contextlib.asynccontextmanager
async def producing(
    cluster: ClusterClient,
    topic: str,
    options: ProducerOptions,
    delivered: Delivered,
    transaction: Transaction | None = None,
) -> AsyncIterator[Producer]:
    """Open a producer, and wait at the end of the block until all records are acknowledged.

    Args:
        topic: the topic, which the broker may create.
        options: acks, compression, idempotence, requests in flight.
        delivered: called for each acknowledged batch.
        transaction: the transaction of the records; no other producer of it may write to this topic.

    Raises:
        ClientError: a record cannot be written.
    """
    topology = await cluster.ready([topic], creates=True)
    producer = Producer(cluster, topology, topic, options, delivered, transaction)
    await producer.init_producer_id()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer.run, nursery)
        yield producer
        await producer.flush()
        nursery.cancel_scope.cancel()


class Producer:
    """A producer; use `producing` to open one.

    Retries continue until no request has succeeded for the cluster's timeout. After an error that no retry can solve,
    `flush` and `wait_for_capacity` raise it.

    Attributes:
        partitions: the number of partitions of the topic.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        topology: Topology,
        topic: str,
        options: ProducerOptions,
        delivered: Delivered,
        transaction: Transaction | None = None,
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._topic = topic
        self._options = options
        self._delivered = delivered
        self._transaction = transaction
        self.partitions = len(topology.topic(topic).partitions)
        self._partitioner = Partitioner(self.partitions)
        self._outbox = Outbox(is_idempotent=options.is_idempotent, in_flight_max=options.in_flight_max)
        self._producer = (-1, -1)  # id, epoch
        self._leaders: dict[int, _Leader] = {}
        self._is_stale = False
        self._error: ClientError | None = None
        self._progress_at = 0.0
        self._pause_s = RETRY_S_MIN
        self._wake = trio.Event()
        self._changed = trio.Event()

    async def init_producer_id(self) -> None:
        """Set the producer id: that of the transaction, or a new one for an idempotent producer.

        Raises:
            ClientError: the broker rejects an idempotent producer, or cannot be reached.
        """
        if self._transaction is not None:
            self._producer = (self._transaction.identity.producer_id, self._transaction.identity.epoch)
        if self._transaction is not None or not self._options.is_idempotent:
            return
        request = InitProducerIdRequest(None, 0)

        async def attempt() -> tuple[int, int]:
            answer = await self._cluster.ask(request, InitProducerIdResponse, versions=INIT_PRODUCER_ID_VERSIONS)
            without = "" if answer.error_code in RETRIABLE else " (not needed with --no-idempotent)"
            check(answer.error_code, f"producer id{without}")
            return answer.producer_id, answer.producer_epoch

        self._producer = await self._cluster.retrying(attempt)

    @property
    def unacknowledged_bytes(self) -> int:
        return self._outbox.size_bytes

    def add(self, record: NewRecord, number: int, partition: int | None = None) -> None:
        self.add_all((record,), (number,), (partition,))

    def add_all(self, records: Sequence[NewRecord], numbers: Sequence[int], partitions: Sequence[int | None]) -> None:
        """Queue records to be sent as soon as possible. Call `wait_for_capacity` between calls.

        Args:
            records: the records, with their timestamps.
            numbers: their positions in the input.
            partitions: the partition of each record; None: chosen by the partitioner.

        Raises:
            NoSuchPartition: a partition is unknown; no record is queued.
        """
        by_partition: dict[int, tuple[list[NewRecord], list[int]]] = {}
        choose, count = self._partitioner.choose, self.partitions
        for record, number, wanted in zip(records, numbers, partitions, strict=True):
            if wanted is None:
                key = record.key
                partition = choose(None, size_of(record)) if key is None else choose(bytes(key), 0)
            elif 0 <= wanted < count:
                partition = wanted
            else:
                raise NoSuchPartition(self._topic, wanted, count)
            found = by_partition.get(partition)
            if found is None:
                found = by_partition[partition] = ([], [])
            found[0].append(record)
            found[1].append(number)
        # After an idle period the retry timeout starts again.
        if not self._outbox.count:
            self._progress_at = trio.current_time()
        for partition, (those, their_numbers) in by_partition.items():
            self._outbox.extend(partition, those, their_numbers)

    async def wait_for_capacity(self) -> None:
        """Send the queued records, and wait until less than UNACKNOWLEDGED_BYTES_MAX are unacknowledged.

        Raises:
            ClientError: a record cannot be written.
        """
        self._wake.set()
        await self._wait_until(lambda: self.unacknowledged_bytes < UNACKNOWLEDGED_BYTES_MAX)

    async def flush(self) -> None:
        """Wait until all records are acknowledged.

        Raises:
            ClientError: a record cannot be written.
        """
        self._wake.set()
        await self._wait_until(lambda: not self._outbox.count)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if is_so():
                return
            self._changed = trio.Event()
            await self._changed.wait()

    async def run(self, nursery: trio.Nursery) -> None:
        while self._error is None:
            self._wake = trio.Event()
            if self._is_stale:
                await trio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, RETRY_S_MAX)
                self._is_stale = False
                try:
                    self._topology = await self._cluster.refresh([self._topic])
                    self._topology.topic(self._topic)
                except ClientError as error:
                    self._fail(error)
                    return
            self._send_ready(nursery)
            if not self._is_stale:
                await self._wake.wait()

    def _send_ready(self, nursery: trio.Nursery) -> None:
        ready = [(self._topic, partition) for partition in self._outbox.ready()]
        led = self._topology.by_leader(ready)
        for node, partitions in led.items():
            leader = self._leaders.setdefault(node, _Leader(node))
            # One task prepares requests per leader: two could take batches of a partition in one order and send them in
            # another.
            if leader.is_sending or len(leader.in_flight) >= self._options.in_flight_max:
                continue
            if any(self._outbox.is_ready(partition, node) for _, partition in partitions):
                leader.is_sending = True
                nursery.start_soon(self._send, leader, nursery)
        if sum(map(len, led.values())) < len(ready):
            self._retry([], without_leader(set(ready).difference(*led.values())))

    async def _send(self, leader: _Leader, nursery: trio.Nursery) -> None:
        batches: list[Batch] = []
        try:
            link, partitions = await self._prepare(leader)
            # No checkpoint from here until the connection has the bytes: requests leave in the order of their batches.
            batches = self._take(leader.node, partitions)
            if batches:
                request = _Request(batches, self._request(leader.node, link, batches))
                if not leader.in_flight:
                    leader.link, leader.settled = link, trio.Event()
                    nursery.start_soon(self._receive, leader)
                leader.in_flight.append(request)
        except ClientError as error:
            self._retry_or_fail(batches, error)
        leader.is_sending = False
        self._wake.set()

    async def _prepare(self, leader: _Leader) -> tuple[Link, Sequence[int]]:
        """Return a connection to a leader, and the partitions that may be written over it.

        Waits until no batch is in flight over an earlier connection: after a reconnect those batches are in the outbox
        again, and must be sent first.
        """
        while True:
            link = await self._cluster.link(leader.node)
            # The connection was reopened: wait until the lost batches are in the outbox again.
            if leader.in_flight and leader.link is not link:
                await leader.settled.wait()
                continue
            ready = [(self._topic, partition) for partition in self._outbox.ready()]
            partitions = self._topology.by_leader(ready).get(leader.node, [])
            if self._transaction is not None:
                await self._transaction.add(partitions)
            # Adding to the transaction took time, in which the connection may have broken.
            if not link.is_broken:
                return link, [partition for _, partition in partitions]

    def _take(self, node: int, partitions: Sequence[int]) -> list[Batch]:
        batches: list[Batch] = []
        size = 0
        for partition in partitions:
            if self._outbox.is_ready(partition, node) and size < REQUEST_BYTES_MAX:
                batches.append(self._outbox.take(partition, node))
                size += batches[-1].size_bytes
        return batches

    def _request(self, node: int, link: Link, batches: Sequence[Batch]) -> Callable[[], Awaitable[Answers]]:
        encoded = {batch.partition: self._encoded(batch) for batch in batches}
        transactional_id = None if self._transaction is None else self._transaction.identity.transactional_id
        return send_batches(self._cluster, node, link, self._topic, encoded, self._options.acks, transactional_id)

    async def _receive(self, leader: _Leader) -> None:
        while leader.in_flight:
            request = leader.in_flight[0]
            try:
                answers = await request.answers()
            except (
                ClientError
            ) as error:  # later requests are lost with the connection; all are retried, the oldest first
                lost = [batch for each in leader.in_flight for batch in each.batches]
                leader.in_flight.clear()
                self._retry_or_fail(lost, error)
            else:
                leader.in_flight.popleft()
                for batch in request.batches:
                    self._settle(batch, *answers.get(batch.partition, (ErrorCode.UNKNOWN_SERVER_ERROR, -1, None)))
            self._wake.set()
            self._changed.set()
        leader.settled.set()

    def _retry_or_fail(self, batches: Sequence[Batch], error: ClientError) -> None:
        if error.is_retriable:
            self._retry(batches, str(error))
        else:
            self._fail(error)

    def _encoded(self, batch: Batch) -> bytes:
        if batch.encoded is None:
            producer_id, epoch = self._producer
            batch.encoded = build_batch(
                batch.body,
                compression=self._options.compression,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.sequence,
                transactional=self._transaction is not None,
            )
        return batch.encoded

    def _settle(self, batch: Batch, code: int, offset: int, words: str | None) -> None:
        # A duplicate was stored by an earlier attempt, whose response was lost.
        if code in {0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            self._progress_at = trio.current_time()
            self._pause_s = RETRY_S_MIN
            self._outbox.complete(batch)
            self._delivered(batch, offset if code == 0 else -1)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and self._outbox.split(batch):
            self._progress_at = trio.current_time()
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.has_older_in_flight:
            # The gap in the sequence is an older batch that was rejected, or still travels over another connection.
            self._retry([batch], describe_error(code))
        # The same bytes would be corrupt again.
        elif code in RETRIABLE and code != ErrorCode.CORRUPT_MESSAGE:
            self._retry([batch], describe_error(code))
        else:
            first, last = batch.numbers[0], batch.numbers[-1]
            records = f"record {first}" if len(batch.numbers) == 1 else f"records {first} to {last}"
            what = f"{records} for {self._topic}-{batch.partition}"
            try:
                check(code, what, words)
            except BrokerRefused as error:
                self._fail(error)

    def _retry(self, batches: Sequence[Batch], why: str) -> None:
        for batch in batches:
            self._outbox.requeue(batch)
        self._is_stale = True
        if trio.current_time() - self._progress_at > self._cluster.timeout_s:
            timeout_s = self._cluster.timeout_s
            self._fail(ClientError(f"nothing could be written to {self._topic} for {timeout_s:g} s: {why}"))

    def _fail(self, error: ClientError) -> None:
        # The first error is the cause; later ones follow from it.
        if self._error is None:
            left = self._outbox.count
            self._error = ClientError(f"{error}; {left} records were not acknowledged" if left > 1 else str(error))
        self._wake.set()
        self._changed.set()
