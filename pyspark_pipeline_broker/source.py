"""The data source as Spark sees it: names, schema, readers.

Rules of this file: Spark's interface and nothing that decides; objects of it are pickled and sent to other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from pipeline_broker.inspect.stored_range import StoredRange
from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.options import ReadOptions
from pyspark_pipeline_broker.planning import Offsets, batch_ranges, offsets_at, stream_ranges
from pyspark_pipeline_broker.position import LATEST, Position
from pyspark_pipeline_broker.rows import SCHEMA, SCHEMA_WITH_HEADERS, arrow_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["FORMAT", "DefaultSource"]

FORMAT = "pipeline-broker"


class StoredRangePartition(InputPartition):
    """What one task reads."""

    value: StoredRange


def _read(options: ReadOptions, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    if partition is not None:  # Spark has one task where there is nothing to read
        yield from arrow_batches(
            partition.value, options.stored, with_headers=options.with_headers, skips_gone=options.skips_gone
        )


class BatchReader(DataSourceReader):
    """Reads once what is there."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def pushFilters(self, filters: Sequence[Any]) -> Sequence[Any]:  # noqa: N802 - Spark's name, since 4.1
        """Leave out what cannot matter; all filters are left to Spark, because files hold more than they want."""
        self._bounds = self._bounds.narrowed(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [StoredRangePartition(stored) for stored in batch_ranges(self._options, self._bounds)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader):
    """Reads on as the contents of the directory grow."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return offsets_at(self._options, self._options.starting)

    def latestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return offsets_at(self._options, Position(LATEST))

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return [StoredRangePartition(stored) for stored in stream_ranges(self._options, start, end)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class DefaultSource(DataSource):
    """`spark.read.format("pipeline-broker")`, `spark.readStream.format("pipeline-broker")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        # what a batch may have as options a stream may not, but neither changes the columns
        return SCHEMA_WITH_HEADERS if ReadOptions.read(self.options).with_headers else SCHEMA

    def reader(self, schema: StructType) -> BatchReader:  # noqa: ARG002 - columns cannot be left out, Spark does it
        return BatchReader(ReadOptions.read(self.options))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802 - as above; Spark's name
        return StreamReader(ReadOptions.read(self.options, is_streaming=True))
