"""A batch that Spark writes in transactions is there exactly once, wherever its driver dies, at Kafka and both modes.

No Spark runs here: tasks and drivers are called as Spark calls them. A driver dies before and after each of its
requests; the next run of the query writes the batch again, as Spark does.
"""

import contextlib
import functools
import secrets
from collections import Counter

import pytest
import trio

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.consumer import Position, Reader
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.offsets import READ_COMMITTED, bounds_of
from pipeline_broker.client.security import PLAINTEXT
from pipeline_broker.client.topics import create_topic
from pipeline_broker.client.transaction import begin_transaction, end_transaction
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pyspark_pipeline_broker.sink.commit_plan import BatchId, Step, task_transaction
from pyspark_pipeline_broker.sink.driver_commit import abort_batch, commit_batch
from pyspark_pipeline_broker.sink.sink_options import SinkOptions
from pyspark_pipeline_broker.sink.sink_rows import TopicRows
from pyspark_pipeline_broker.sink.task import write_rows

PARTITIONS, TASKS, ROWS = 2, 2, 3
SECONDS_MAX = 20.0
REQUESTS_MAX = 60
"""Of one commit, more than there are."""


class Killed(Exception):
    """The driver dies here."""


class MortalCluster(ClusterClient):
    """A cluster whose user dies before or after a request.

    Args:
        dies_at: the number of the request; None: at none.
        dies_after: not before it is sent, but when it was answered.
        counted: the kind of requests that have a number.
    """

    def __init__(self, port, nursery, dies_at=None, *, dies_after=False, counted=object):
        super().__init__([("127.0.0.1", port)], SECONDS_MAX, PLAINTEXT, nursery)
        self.dies_at, self.dies_after, self.counted = dies_at, dies_after, counted
        self.asked = 0

    async def ask(self, request, response_type, **options):
        if not isinstance(request, self.counted):
            return await super().ask(request, response_type, **options)
        number = self.asked
        self.asked += 1
        if number == self.dies_at and not self.dies_after:
            raise Killed
        answer = await super().ask(request, response_type, **options)
        if number == self.dies_at:
            raise Killed
        return answer


@contextlib.asynccontextmanager
async def clustered(port, dies_at=None, **death):
    async with trio.open_nursery() as nursery:
        yield MortalCluster(port, nursery, dies_at, **death)
        nursery.cancel_scope.cancel()


class Query:
    """A streaming query whose batches have known rows."""

    def __init__(self, port, **options):
        self.port = port
        self.name = f"sink-{secrets.token_hex(6)}"
        said = {"kafka.bootstrap.servers": f"127.0.0.1:{port}", "topic": self.name, "transactional.id": self.name}
        self.options = SinkOptions.read({**said, **options}, is_streaming=True)
        self.query_id = "query"
        self.run_id = self.number = 0
        self.expected = Counter()

    def restart(self):
        self.run_id += 1

    @property
    def batch(self):
        return BatchId(self.query_id, str(self.run_id), self.number)

    def rows(self, task):
        return [b"%d %d %d" % (self.number, task, row) for row in range(ROWS)]

    async def write(self, attempt=0):
        """Have all tasks of the current batch write; gives their producers."""
        self.expected.update({row: 0 for task in range(TASKS) for row in self.rows(task)})
        producers = []
        for task in range(TASKS):
            records = [NewRecord(value) for value in self.rows(task)]
            rows = TopicRows(self.name, records, [row % PARTITIONS for row in range(ROWS)])
            name = task_transaction(self.options.transactional_id, self.batch, task, attempt)
            count, producer = await write_rows(self.options, iter([iter([rows])]), name)
            assert count == ROWS
            producers.append(producer)
        return producers

    async def commit(self, producers, dies_at=None, **death):
        async with clustered(self.port, dies_at, **death) as cluster:
            return await commit_batch(cluster, self.options, self.batch, producers)

    async def dies(self, producers, dies_at, **death):
        """Have the driver die in a commit; whether it was still at it."""
        try:
            await self.commit(producers, dies_at, **death)
        except* Killed:
            died = True
        else:
            died = False
        return died

    async def dies_decided(self, producers):
        """Have the driver die before it ends the first task's transaction, when that of its progress has ended."""
        # By kind: on a busy machine Apache Kafka refuses some requests, and then their number is greater.
        return await self.dies(producers, 1, counted=EndTxnRequest)

    async def read(self):
        """Count each row that a reader of committed records sees."""
        found = Counter()

        async def take(_partition, batch):
            found.update(bytes(record.value) for record in batch.records)
            return batch.next_offset

        async with clustered(self.port) as cluster:
            partitions = [(self.name, number) for number in range(PARTITIONS)]
            bounds = await bounds_of(cluster, partitions, READ_COMMITTED)
            every = await bounds_of(cluster, partitions)
            assert bounds == every, "no transaction is open"
            await Reader(cluster, {it: Position(at.start, at.end) for it, at in bounds.items()}, take).run()
        return found

    def all_once(self):
        return Counter(dict.fromkeys(self.expected, 1))


def refused(reason):
    return pytest.RaisesGroup(pytest.RaisesExc(ClientError, match=reason), flatten_subgroups=True)


async def opened(port, **options):
    query = Query(port, **options)
    async with clustered(port) as cluster:
        await create_topic(cluster, query.name, PARTITIONS, 1)
    return query


@pytest.fixture(params=["kafka", "classic", "pipelined"])
def port(request, sides):
    return next(side.port for side in sides.all if side.name == request.param)


@pytest.mark.parametrize("aborts", [False, True], ids=["dead", "aborting"])
@pytest.mark.parametrize("dies_after", [False, True], ids=["before", "after"])
def test_a_driver_that_dies_at_any_request_of_a_commit_leaves_each_row_once(port, dies_after, aborts):
    """Or it lives on, and Spark has it abort the batch whose commit has failed."""

    async def main():
        query = await opened(port)
        steps = Counter()
        for dies_at in range(REQUESTS_MAX):
            producers = await query.write()
            if not await query.dies(producers, dies_at, dies_after=dies_after):
                break
            if aborts:
                async with clustered(port) as cluster:
                    await abort_batch(cluster, query.options, producers)
            query.restart()
            steps[await query.commit(await query.write())] += 1
            query.number += 1
        assert dies_at > 10  # a commit has so many requests, and dies at each of them
        assert await query.read() == query.all_once()
        assert {Step.COMMIT, Step.FINISH_AND_SKIP} <= steps.keys()
        if dies_after:
            assert steps[Step.SKIP]  # Spark has not noted what was complete

    trio.run(main)


def test_a_second_try_of_a_batch_that_is_complete_is_aborted(port):
    async def main():
        query = await opened(port)
        assert await query.commit(await query.write()) is Step.COMMIT
        query.restart()
        assert await query.commit(await query.write()) is Step.SKIP
        query.number += 1
        assert await query.commit(await query.write(attempt=1)) is Step.COMMIT
        assert await query.read() == query.all_once()

    trio.run(main)


def test_a_driver_that_was_replaced_cannot_decide_any_more(port):
    async def main():
        query = await opened(port)
        old, old_batch = await query.write(), query.batch
        query.restart()
        assert await query.commit(await query.write()) is Step.COMMIT
        async with clustered(port) as cluster:
            with pytest.raises(ClientError, match="was ended by the broker"):  # the new run has aborted what it left
                await commit_batch(cluster, query.options, BatchId("query", "other", 1), old)
            assert await commit_batch(cluster, query.options, old_batch, []) is Step.SKIP
        assert await query.read() == query.all_once()

    trio.run(main)


def test_transactions_of_dead_runs_and_attempts_are_aborted_with_the_next_commit(port):
    async def main():
        query = await opened(port)
        await query.write()
        await query.write(attempt=1)
        query.restart()
        await query.write(attempt=2)
        await query.commit(await query.write())
        assert await query.read() == query.all_once()
        query.number += 1
        await query.write(attempt=1)
        await query.commit(await query.write())
        assert await query.read() == query.all_once()

    trio.run(main)


@pytest.mark.parametrize("aborted", [1, TASKS])
def test_a_decided_batch_whose_transactions_the_broker_aborted_is_written_again_or_ends_the_query(port, aborted):
    """The first when no reader can have seen a row of it, else the second."""

    async def main():
        query = await opened(port)
        producers = await query.write()
        async with clustered(port) as cluster:
            fence = functools.partial(begin_transaction, cluster, timeout_ms=60_000)
            assert await query.dies_decided(producers)
            for producer in producers[:aborted]:
                await fence(producer.transactional_id)
            for producer in producers[aborted:]:
                await end_transaction(cluster, producer, is_committed=True)
        query.restart()
        if aborted == TASKS:
            assert await query.commit(await query.write()) is Step.COMMIT
            assert await query.read() == query.all_once()
        else:
            with refused(r"1 committed, 1 aborted.*partly written"):
                await query.commit(await query.write())

    trio.run(main)


def test_another_query_finishes_a_decided_batch_and_an_old_checkpoint_is_refused(port):
    async def main():
        query = await opened(port)
        query.number = 5
        producers = await query.write()
        assert await query.dies_decided(producers)
        query.query_id, query.number = "another", 0
        query.restart()
        assert await query.commit(await query.write()) is Step.FINISH_AND_COMMIT
        assert await query.read() == query.all_once()
        query.number = 3
        assert await query.commit(await query.write()) is Step.COMMIT
        query.number = 2
        with refused("has reached batch 3 of this query, but the checkpoint is at batch 2"):
            await query.commit(await query.write())

    trio.run(main)
