"""The driver's commit of a stream's batch: carries out the steps of `commit_plan` at the cluster."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import trio

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import NoSuchTransaction
from pipeline_broker.client.transaction import begin_transaction, end_transaction
from pipeline_broker.client.transaction_state import ProducerIdentity, TransactionDescription
from pipeline_broker.client.transactions import describe_transaction, list_transactions
from pyspark_pipeline_broker.sink.commit_plan import (
    OPEN_STATE,
    BatchId,
    LedgerEntry,
    Step,
    check_open,
    fate_of,
    plan,
    task_prefix,
)
from pyspark_pipeline_broker.sink.ledger import Ledger
from pyspark_pipeline_broker.sink.sink_options import SinkOptions

__all__ = ["abort_batch", "commit_batch"]

Item = TypeVar("Item")

AT_ONCE_MAX = 16
"""Limit of concurrent requests about transactions."""


async def commit_batch(
    cluster: ClusterClient, options: SinkOptions, batch: BatchId, producers: Sequence[ProducerIdentity]
) -> Step:
    """Commit a batch after its tasks are done, or abort its transactions if it is already committed.

    Also finishes the last decided batch, if necessary, and aborts open transactions of dead runs and attempts.

    Args:
        options: with a transactional id.
        producers: the producers of the tasks that wrote rows.

    Returns:
        The step that was taken.

    Raises:
        ClientError: the batch is not committed, or it is unknown whether it is.
    """
    ledger = await _fenced_ledger(cluster, options)
    last = await ledger.last()
    described = {} if last is None or last.is_complete else await _described(cluster, last.producers)
    step = plan(last, batch, {producer: fate_of(producer, it) for producer, it in described.items()})
    if last is not None and step in {Step.FINISH_AND_SKIP, Step.FINISH_AND_COMMIT}:
        await _finish(cluster, ledger, last)
    if step in {Step.SKIP, Step.FINISH_AND_SKIP}:
        # The batch is committed already, so the rows of this second attempt must not become visible.
        await _abort(cluster, producers)
    else:
        # The check comes before the ledger entry: once the batch is decided, all of its transactions must commit.
        check_open(producers, await _described(cluster, producers), time.time_ns() // 1_000_000)
        entry = LedgerEntry(batch, tuple(producers), is_complete=False)
        # This write decides the batch. If the driver dies after it, the next run finishes the batch.
        await ledger.store(entry)
        await _finish(cluster, ledger, entry)
    # Readers of committed records wait for transactions that dead runs and attempts left open.
    await _abort_leftovers(cluster, options)
    return step


async def abort_batch(cluster: ClusterClient, options: SinkOptions, producers: Sequence[ProducerIdentity]) -> None:
    """Abort a batch unless it was decided, and fence all other drivers of the sink.

    Spark also aborts after a commit that failed halfway.

    Raises:
        ClientError: a transaction cannot be ended now; the next commit or the broker aborts it.
    """
    ledger = await _fenced_ledger(cluster, options)
    last = await ledger.last()
    if last is None or set(last.producers).isdisjoint(producers):
        await _abort(cluster, producers)


async def _fenced_ledger(cluster: ClusterClient, options: SinkOptions) -> Ledger:
    sink_id = options.transactional_id
    assert sink_id is not None
    # InitProducerId bumps the epoch, so ledger writes of all other drivers of this sink fail.
    fence = await begin_transaction(cluster, sink_id, options.transaction_timeout_ms)
    return Ledger(cluster, options.transactions_topic, fence.identity)


async def _abort(cluster: ClusterClient, producers: Iterable[ProducerIdentity]) -> None:
    await _each(producers, lambda producer: end_transaction(cluster, producer, is_committed=False))


async def _finish(cluster: ClusterClient, ledger: Ledger, entry: LedgerEntry) -> None:
    await _each(entry.producers, lambda producer: end_transaction(cluster, producer, is_committed=True))
    await ledger.store(LedgerEntry(entry.batch, entry.producers, is_complete=True))


async def _abort_leftovers(cluster: ClusterClient, options: SinkOptions) -> None:
    assert options.transactional_id is not None
    prefix = task_prefix(options.transactional_id)
    found = await list_transactions(cluster, [OPEN_STATE])

    async def abort(transactional_id: str) -> None:
        # InitProducerId with the same transactional id aborts its open transaction.
        await begin_transaction(cluster, transactional_id, options.transaction_timeout_ms)

    await _each([it.transactional_id for it in found if it.transactional_id.startswith(prefix)], abort)


async def _described(
    cluster: ClusterClient, producers: Sequence[ProducerIdentity]
) -> dict[ProducerIdentity, TransactionDescription | None]:
    found: dict[ProducerIdentity, TransactionDescription | None] = {}

    async def describe(producer: ProducerIdentity) -> None:
        try:
            found[producer] = await describe_transaction(cluster, producer.transactional_id)
        except NoSuchTransaction:
            found[producer] = None

    await _each(producers, describe)
    return found


async def _each(items: Iterable[Item], do: Callable[[Item], Awaitable[None]]) -> None:
    limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def limited(item: Item) -> None:
        async with limit:
            await do(item)

    async with trio.open_nursery() as nursery:
        for item in items:
            nursery.start_soon(limited, item)
