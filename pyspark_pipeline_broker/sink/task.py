"""A writer of one Spark task's rows to a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import trio

from pipeline_broker.client.cluster_client import ClusterClient, connected
from pipeline_broker.client.produce_requests import ProducerOptions
from pipeline_broker.client.producer import Producer, producing
from pipeline_broker.client.transaction import Transaction, begin_transaction
from pipeline_broker.client.transaction_state import ProducerIdentity
from pyspark_pipeline_broker.sink.sink_options import SinkOptions
from pyspark_pipeline_broker.sink.sink_rows import TopicRows

__all__ = ["cluster_of", "write_rows"]

TOPICS_MAX = 1_000
"""Limit of a task's topics, because each topic has a producer."""


def cluster_of(options: SinkOptions) -> contextlib.AbstractAsyncContextManager[ClusterClient]:
    return connected(options.addresses, options.request_timeout_ms / 1000, options.security)


async def write_rows(
    options: SinkOptions, chunks: Iterator[Iterator[TopicRows]], transactional_id: str | None
) -> tuple[int, ProducerIdentity | None]:
    """Write all rows of a task. After any error, the transaction is aborted.

    Args:
        chunks: the rows. A thread fetches the next chunk while earlier ones are being sent.
        transactional_id: the id of this attempt of the task; its transaction stays open. None writes without one.

    Returns:
        The number of rows, and the producer of the open transaction, if any.

    Raises:
        ClientError: a row is not acknowledged.
        ValueError: a row has no topic, or the task writes to more than TOPICS_MAX topics.
    """
    async with cluster_of(options) as cluster:
        writing = _Writing(cluster, options, transactional_id)
        try:
            async with contextlib.AsyncExitStack() as stack:
                while (chunk := await trio.to_thread.run_sync(next, chunks, None)) is not None:
                    await writing.write(chunk, stack)
        except BaseException:
            # Readers of committed records wait for an open transaction, so a cancelled task must still abort it. The
            # error that ended the task is more useful than one of the abort.
            with trio.CancelScope(shield=True), contextlib.suppress(Exception):
                await writing.abort()
            raise
        return writing.count, writing.open_producer


class _Writing:
    def __init__(self, cluster: ClusterClient, options: SinkOptions, transactional_id: str | None) -> None:
        self._cluster = cluster
        self._options = options
        self._transactional_id = transactional_id
        self._transaction: Transaction | None = None
        self._producers: dict[str, Producer] = {}
        self.count = 0

    @property
    def open_producer(self) -> ProducerIdentity | None:
        if self._transaction is None or self._transaction.is_empty:
            return None
        return self._transaction.identity

    async def write(self, chunk: Iterator[TopicRows], stack: contextlib.AsyncExitStack) -> None:
        for topic, records, partitions in chunk:
            producer = self._producers.get(topic)
            if producer is None:
                producer = self._producers[topic] = await self._open(topic, stack)
            numbers = range(self.count, self.count + len(records))
            producer.add_all(records, numbers, partitions)
            self.count += len(records)
            await producer.wait_for_capacity()

    async def _open(self, topic: str, stack: contextlib.AsyncExitStack) -> Producer:
        if len(self._producers) >= TOPICS_MAX:
            raise ValueError(f"a task writes to at most {TOPICS_MAX} topics: repartition the rows by topic")
        # A task without rows begins no transaction.
        if self._transactional_id is not None and self._transaction is None:
            timeout_ms = self._options.transaction_timeout_ms
            self._transaction = await begin_transaction(self._cluster, self._transactional_id, timeout_ms)
        options = ProducerOptions(compression=self._options.compression)
        opening = producing(self._cluster, topic, options, _ignore, self._transaction)
        return await stack.enter_async_context(opening)

    async def abort(self) -> None:
        if self._transaction is not None:
            await self._transaction.end(is_committed=False)


def _ignore(*_: Any) -> None:  # the offsets of records are not needed
    pass
