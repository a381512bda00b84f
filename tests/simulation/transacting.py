"""Clients of transactions: producers that commit, abort, give up and fence each other, and those who read the result.

Rules of this file: as of `clients`. A producer commits only what was acknowledged, as Kafka's does; after an error it
aborts. If a connection is lost with batches in flight, it takes its transactional id anew; if it had asked for the end,
it asks again. It speaks either protocol of transactions: with AddPartitionsToTxn, or with the epoch that rises at each
end (KIP-890).
"""

from collections import deque

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.visible import visible_batches
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.simulation.asks import FAILED, FETCH_BYTES, partition_answer
from tests.simulation.environment import EPOCH_MS, MILLISECOND
from tests.simulation.scenario import Act
from tests.simulation.transfers import TRANSFERS, CommittedRead
from tests.simulation.wire_client import Ask, Gone

RETRY_SECONDS = 0.003
RETRIES_MAX = 400
LONG_MS = 60_000
COMMITTED = 1
LAST = Act("poll", wait=0)
RISING_FROM = 12
"""Produce since this version is that of transactions whose epoch rises at each end."""
FENCED = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE}
    | {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE}
)
"""What a producer is told whose transaction is not open, or not its own any more."""
SOON = frozenset({FAILED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS})
"""What is tried again."""


class Transactional:
    """A producer of transactions."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan
        self.acts = deque(plan.acts)
        self.transactional_id = plan.shared
        self.is_rising = plan.acts[0].version >= RISING_FROM
        self.producer = None
        self.sequences = {}
        self.is_unsure = False  # batches are not answered
        self.is_init_lost = False  # one over a connection that is gone may be served later, and fence what followed it
        self.ending = None  # (transaction, whether it was all written, whether to commit it): asked for, not answered

    async def go_on(self, client):
        if self.ending is not None:
            await self._end(client, *self.ending)
        elif self.is_unsure:
            self.producer = None  # what was written over a connection that is lost is aborted by the next instance
        while self.acts:
            if self.producer is None:
                await self._init(client)
            await self._transaction(client, self.acts.popleft())
            await trio.sleep(self.plan.pause)

    async def _init(self, client):
        was_lost, self.is_init_lost = self.is_init_lost, True  # until it is answered
        self.producer = await take_over(self.world, client, self.transactional_id, self.plan.timeout_ms)
        self.is_init_lost = was_lost
        self.sequences = {}

    async def _transaction(self, client, act):
        transaction = self.world.transfers.begin(self.plan.name)
        partitions = [(act.partition + index) % self.world.scenario.partitions for index in range(act.count)]
        is_written = await self._add(client, partitions) and await self._write(client, transaction, partitions)
        if not is_written and not any(batch.offset is not None for batch in transaction.batches):
            self.producer = None  # there may be nothing to abort
        elif act.kind == "abandon":
            self.producer = None
        else:
            await trio.sleep(act.wait * MILLISECOND)  # open, beside those of others
            await self._end(client, transaction, is_written, is_written and act.kind == "commit")

    async def _add(self, client, partitions):
        if self.is_rising:
            return True
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TRANSFERS, sorted(set(partitions)))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[topic],
        )
        for _ in range(RETRIES_MAX):
            owner = self.world.transfers.owners[self.transactional_id]
            (exchange,) = client.send(Ask(request, 3))
            answer = await client.wait_for(exchange)
            found = [found for topic in answer.results_by_topic_v3_and_below for found in topic.results_by_partition]
            codes = [one.partition_error_code for one in found]
            if not any(code in SOON or client.life.explains(code) for code in codes):
                return self._are_served(client, request, codes, owner)
            await pause(self.world)
        self.world.complain(f"{client!r}: AddPartitionsToTxn was answered {ErrorCode(codes[0]).name} for ever")
        return False

    async def _write(self, client, transaction, partitions):
        """All batches at once; whether all were taken."""
        owner = self.world.transfers.owners[self.transactional_id]
        batches = [transaction.send(partition, 1 + index % 2) for index, partition in enumerate(partitions)]
        self.is_unsure = True
        exchanges = client.send(*map(self._produce, batches))
        codes = []
        for exchange in exchanges:
            await client.wait_for(exchange)
            answer, batch = partition_answer(exchange), exchange.batch
            codes.append(answer.error_code)
            if not answer.error_code:
                batch.offset = answer.base_offset
                offsets = range(answer.base_offset, answer.base_offset + len(batch.values))
                client.life.watch.check_durable(f"{client!r} has written", batch.partition, offsets, TRANSFERS)
        self.is_unsure = False
        return self._are_served(client, exchanges[0].request, codes, owner)

    def _produce(self, batch):
        sequence = self.sequences.get(batch.partition, 0)
        self.sequences[batch.partition] = sequence + len(batch.values)
        producer_id, epoch = self.producer
        records = build_batch(
            [NewRecord(value, timestamp=EPOCH_MS) for value in batch.values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(batch.partition, records)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name=TRANSFERS, partition_data=[data])],
        )
        return Ask(request, 12 if self.is_rising else 9, batch=batch)

    async def _end(self, client, transaction, is_written, commits):
        """Commit or abort, asking until it is known."""
        request = EndTxnRequest(self.transactional_id, *self.producer, committed=commits)
        self.ending = transaction, is_written, commits
        for _ in range(RETRIES_MAX):
            owner = self.world.transfers.owners[self.transactional_id]
            may_be_committed = transaction.may_be_committed
            transaction.may_be_committed = may_be_committed or commits
            (exchange,) = client.send(Ask(request, 5 if self.is_rising else 3))
            answer = await client.wait_for(exchange)
            if answer.error_code in SOON or client.life.explains(answer.error_code):
                transaction.may_be_committed = may_be_committed
                await pause(self.world)
                continue
            self.ending = None
            if self._are_served(client, request, [answer.error_code], owner):
                transaction.is_committed = commits
                if self.is_rising:
                    self._rises(answer)
            else:
                transaction.may_be_committed = may_be_committed
                is_written = False
            if not is_written:
                self.producer = None  # it is not known which sequence numbers are free
            return
        self.world.complain(f"{client!r}: EndTxn was answered {ErrorCode(answer.error_code).name} for ever")

    def _rises(self, answer):
        self.producer = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        self.world.transfers.owns(self.transactional_id, self.producer)

    def _are_served(self, client, request, codes, owner):
        """Whether a transaction may go on; else its producer, or who shares its id, must begin anew.

        Args:
            client: the connection.
            request: one of those that were answered.
            codes: of the answers.
            owner: the latest that had been told to be the producer when they were sent.
        """
        name = f"{client!r}: {type(request).__name__} of {self.producer}"
        if 0 in codes and owner > self.producer:
            self.world.complain(f"{name} was served, although {owner} had fenced it")
        refusals = [code for code in codes if code]
        if not refusals:
            return True
        unexplained = {
            ErrorCode(code).name
            for code in refusals[:1]
            if code not in SOON | FENCED and not client.life.explains(code)
        }
        if unexplained:
            self.world.complain(f"{name} was answered {unexplained}")
        if not self._may_be_fenced and refusals[0] in FENCED:
            self.world.complain(f"{name} was answered {ErrorCode(refusals[0]).name}, and nobody has fenced it")
        return False

    @property
    def _may_be_fenced(self):
        """Whether another client has the same id, or an earlier connection of this one; or it may last too long."""
        sharing = [plan for plan in self.world.scenario.clients if plan.shared == self.transactional_id]
        return len(sharing) > 1 or self.is_init_lost or self.plan.timeout_ms < LONG_MS


async def pause(world):
    """Before what was refused for now is tried again."""
    await trio.sleep(max(RETRY_SECONDS, world.retry_seconds))


async def take_over(world, client, transactional_id, timeout_ms):
    """The producer id and epoch for a new instance, which fences all before it."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    for _ in range(RETRIES_MAX):
        before = world.transfers.owners.get(transactional_id)
        (exchange,) = client.send(Ask(request, 4))
        answer = await client.wait_for(exchange)
        if not answer.error_code:
            producer = answer.producer_id, answer.producer_epoch
            for text in world.transfers.taken_over(transactional_id, producer, before):
                world.complain(f"{client!r}: {text}")
            return producer
        if answer.error_code not in SOON and not client.life.explains(answer.error_code):
            world.complain(f"{client!r}: InitProducerId was answered {ErrorCode(answer.error_code).name}")
        await pause(world)
    world.complain(f"{client!r}: InitProducerId was answered {ErrorCode(answer.error_code).name} for ever")
    raise Gone


class CommittedReader:
    """Polls the committed records of one partition from where it is."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan
        self.acts = deque(plan.acts)
        self.partition = plan.acts[0].partition
        self.position = 0

    async def go_on(self, client):
        while self.acts:
            self.position, _ = await read_committed(self.world, client, self.partition, self.position, self.acts[0])
            self.acts.popleft()
            await trio.sleep(self.plan.pause)


async def read_committed(world, client, partition, position, act):
    """One fetch of committed records; where to go on, and the records.

    What is told must be durable, in front of the last stable offset, which never falls.
    """
    stable = world.transfers.stable[partition]
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=act.wait,
        min_bytes=1,
        isolation_level=COMMITTED,
        topics=[FetchRequest.FetchTopic(topic=TRANSFERS, partitions=[wanted])],
    )
    (exchange,) = client.send(Ask(request, 12))
    response = await client.wait_for(exchange)
    if response.error_code == FAILED:
        return position, []
    ((answer,),) = (topic.partitions for topic in response.responses)
    if client.life.explains(answer.error_code):
        return position, []
    if answer.error_code:
        world.complain(f"{client!r}: a fetch was answered {ErrorCode(answer.error_code).name}")
        return position, []
    if not stable <= answer.last_stable_offset <= answer.high_watermark:
        world.complain(
            f"{client!r}: the last stable offset is {answer.last_stable_offset}, was {stable}, and the high watermark"
            f" is {answer.high_watermark}"
        )
    world.transfers.stable[partition] = max(world.transfers.stable[partition], answer.last_stable_offset)
    world.transfers.ends[partition] = max(world.transfers.ends[partition], answer.high_watermark)
    aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()]
    batches = list(visible_batches(answer.records or b"", position, None, aborted))
    if not batches:
        return position, []
    end, records = batches[-1].next_offset, [(r.offset, bytes(r.value)) for batch in batches for r in batch.records]
    if end > answer.last_stable_offset:
        world.complain(f"{client!r}: records up to {end} are behind the stable offset {answer.last_stable_offset}")
    client.life.watch.check_durable(f"{client!r} read", partition, range(position, end), TRANSFERS)
    world.transfers.reads.append(CommittedRead(client.name, partition, position, end, tuple(records)))
    return end, records


async def read_transfers(world, client):
    """Partition -> [(offset, value)] of all that is committed, when nobody writes any more; what is open is aborted."""
    for transactional_id in sorted(world.transfers.owners):
        await take_over(world, client, transactional_id, LONG_MS)
    final = {}
    for partition in range(world.scenario.partitions if world.transfers.owners else 0):
        position, records = 0, []
        while True:
            end, more = await read_committed(world, client, partition, position, LAST)
            if end == position:
                break
            position, records = end, records + more
        if position != world.transfers.stable[partition]:
            world.complain(
                f"of {TRANSFERS}-{partition} {position} is read, and {world.transfers.stable[partition]} stable"
            )
        if world.transfers.stable[partition] != world.transfers.ends[partition]:
            world.complain(
                f"hanging: {TRANSFERS}-{partition} is decided up to {world.transfers.stable[partition]}, and ends at"
                f" {world.transfers.ends[partition]}"
            )
        final[partition] = records
    return final
