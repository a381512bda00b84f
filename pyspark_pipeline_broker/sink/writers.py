"""The sink for Spark: writers of batches and streams, with Arrow for streams from PySpark 4.1."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.running import run_client
from pipeline_broker.client.transaction_state import ProducerIdentity
from pyspark_pipeline_broker.sink.commit_plan import BatchId, task_transaction
from pyspark_pipeline_broker.sink.driver_commit import abort_batch, commit_batch
from pyspark_pipeline_broker.sink.sink_options import SinkOptions
from pyspark_pipeline_broker.sink.sink_rows import TopicRows, check_columns, topic_rows_of_batch, topic_rows_of_rows
from pyspark_pipeline_broker.sink.task import cluster_of, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["batch_writer", "stream_writer"]

BATCH_PROPERTY, QUERY_PROPERTY, RUN_PROPERTY = "streaming.sql.batchId", "sql.streaming.queryId", "spark.jobGroup.id"
"""Local properties of a stream's tasks (Spark's `MicroBatchExecution` and `StreamExecution`)."""
TAKES_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
"""True for PySpark 4.1 and newer, which pass streams as Arrow; PySpark 4.0 passes rows."""
StreamWriterBase: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class TaskDone(WriterCommitMessage):
    """The result of a task that wrote its rows.

    Attributes:
        count: the number of rows.
        batch: the batch of the stream; None outside a transactional stream.
        producer: the producer of the open transaction, if any.
    """

    def __init__(self, count: int, batch: BatchId | None, producer: ProducerIdentity | None) -> None:
        self.count = count
        self.batch = batch
        self.producer = producer


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer of a batch; raises ValueError for wrong options or columns, or if `overwrite` is True."""
    if overwrite:
        raise ValueError('a topic cannot be overwritten: use mode("append")')
    return BatchWriter(_checked(options, schema, is_streaming=False))


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of a stream; raises ValueError for wrong options or columns, or if `overwrite` is True."""
    if overwrite:
        raise ValueError('a topic cannot be overwritten: use outputMode("append") or outputMode("update")')
    return StreamWriter(_checked(options, schema, is_streaming=True))


def _checked(options: Mapping[str, str], schema: StructType, *, is_streaming: bool) -> SinkOptions:
    read = SinkOptions.read(options, is_streaming=is_streaming)
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, read.topic)
    return read


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        count, _ = run_client(functools.partial(write_rows, self._options, _chunks(iterator, self._options), None))
        return TaskDone(count, None, None)


class StreamWriter(StreamWriterBase):  # type: ignore[misc]  # depends on the version
    """A writer of streams: at least once, or exactly once with a transactional id."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskDone:
        if TAKES_ARROW:
            chunks = _chunks(iterator, self._options)
        else:
            chunks = iter([topic_rows_of_rows(iterator, self._options.topic, _now_ms())])
        sink_id = self._options.transactional_id
        batch = transactional_id = None
        if sink_id is not None:
            batch, task, attempt = _task()
            # The attempt is part of the id: a speculative or repeated attempt must not fence one that may be decided.
            transactional_id = task_transaction(sink_id, batch, task, attempt)
        count, producer = run_client(functools.partial(write_rows, self._options, chunks, transactional_id))
        return TaskDone(count, batch, producer)

    def commit(self, messages: Sequence[TaskDone | None], batchId: int) -> None:
        if self._options.transactional_id is None or not (producers := _producers(messages)):
            return
        # All tasks of a batch report the same batch; anything else is a bug in Spark.
        (batch,) = {message.batch for message in messages if message is not None and message.batch is not None}
        if batch.number != batchId:
            raise ClientError(f"the tasks of batch {batchId} report batch {batch.number}. Restart the query")

        async def commit(cluster: ClusterClient) -> None:
            await commit_batch(cluster, self._options, batch, producers)

        self._at_cluster(commit)

    def abort(self, messages: Sequence[TaskDone | None], batchId: int) -> None:  # noqa: ARG002 - of Spark's interface
        """Abort the transactions of a batch that failed, even during its commit.

        Failed tasks have aborted their own transactions.
        """
        if producers := _producers(messages):
            self._at_cluster(lambda cluster: abort_batch(cluster, self._options, producers))

    def _at_cluster(self, do: Callable[[ClusterClient], Awaitable[None]]) -> None:
        async def program() -> None:
            async with cluster_of(self._options) as cluster:
                await do(cluster)

        run_client(program)


def _chunks(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Iterator[Iterator[TopicRows]]:
    for batch in batches:
        yield topic_rows_of_batch(batch, options.topic, _now_ms())


def _producers(messages: Sequence[TaskDone | None]) -> list[ProducerIdentity]:
    return [message.producer for message in messages if message is not None and message.producer is not None]


def _task() -> tuple[BatchId, int, int]:
    context = TaskContext.get()
    assert context is not None, "Spark writes in tasks"
    found = [context.getLocalProperty(name) for name in (QUERY_PROPERTY, RUN_PROPERTY, BATCH_PROPERTY)]
    if not all(found):
        raise ClientError(
            "Spark does not name the batch and stream of this task. Remove transactional.id to write at least once"
        )
    query_id, run_id, number = (str(it) for it in found)
    return BatchId(query_id, run_id, int(number)), context.partitionId(), context.attemptNumber()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
