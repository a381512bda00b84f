"""The data source for Spark: its format name, schema and readers.

The classes implement Spark's interface and leave every decision to other modules. Spark pickles their objects and sends
them to other processes. The same classes serve PySpark 4.0 and later versions, which call more of their methods.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from pipeline_broker.inspect.stored_range import StoredRange
from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.columns import schema_of
from pyspark_pipeline_broker.options import OFFSETS_MAX, ReadOptions, has_headers, table_options
from pyspark_pipeline_broker.planning import (
    Offsets,
    batch_ranges,
    initial_offsets,
    latest_offsets,
    limited,
    stream_ranges,
)
from pyspark_pipeline_broker.rows import arrow_batches
from pyspark_pipeline_broker.stream_limits import (
    READS_LIMITS,
    SupportsTriggerAvailableNow,
    read_all,
    read_at_most,
    rows_max_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["FORMAT", "DefaultSource"]

FORMAT = "pipeline-broker"


class StoredRangePartition(InputPartition):
    value: StoredRange


def _read(options: ReadOptions, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, StoredRangePartition):  # with nothing to read, Spark runs one task without a range
        yield from arrow_batches(
            partition.value, options.stored, with_headers=options.with_headers, skips_gone=options.skips_gone
        )


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        return [StoredRangePartition(stored) for stored in batch_ranges(self._options, self._bounds)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class FilteredBatchReader(BatchReader):
    """A batch reader that skips files and offsets without matches for the query's filters.

    It is a class of its own because PySpark 4.1 and later reject every reader with a `pushFilters` while Spark's
    setting for filters is off. A reader cannot see that setting.
    """

    def pushFilters(self, filters: Sequence[Any]) -> Sequence[Any]:
        """Narrow the read and return all filters. Spark must apply them again: the files contain other rows too."""
        self._bounds = self._bounds.narrowed(filters)
        return filters


class StreamReader(SupportsTriggerAvailableNow, DataSourceStreamReader):  # type: ignore[misc]  # depends on the version
    """A reader of new records as the directory grows.

    Args:
        options: from Spark. They are parsed at the first method call, because PySpark 4.0 replaces the error of
            a constructor with its own.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._latest: Offsets | None = None
        self._target: Offsets | None = None

    @functools.cached_property
    def _options(self) -> ReadOptions:
        options = ReadOptions.read(self._given, is_streaming=True)
        if options.offsets_max is not None and not READS_LIMITS:
            raise ValueError(f"{OFFSETS_MAX} needs PySpark 4.2 or newer. Remove the option, or upgrade PySpark")
        return options

    def initialOffset(self) -> dict[str, dict[str, int]]:
        return initial_offsets(self._options)

    def latestOffset(self, start: Offsets | None = None, limit: Any = None) -> Any:
        """Return the end of the next batch. PySpark before 4.2 passes no arguments."""
        self._latest = latest_offsets(self._options)
        # With Trigger.AvailableNow the stream stops at the offsets of its start.
        end = self._latest if self._target is None else self._target
        rows_max = rows_max_of(limit)
        return end if start is None or rows_max is None else limited(self._options, start, end, rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the stream at the current end offsets."""
        self._target = latest_offsets(self._options)

    def getDefaultReadLimit(self) -> Any:
        offsets_max = self._options.offsets_max
        return read_all() if offsets_max is None else read_at_most(offsets_max)

    def reportLatestOffset(self) -> Any:
        """Return the end offsets that `latestOffset` last found, for the query's progress report; None before that."""
        return self._latest

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return [StoredRangePartition(stored) for stored in stream_ranges(self._options, start, end)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns. The first column of a table has the table's options as metadata.

        Spark passes the options of a table nowhere else.
        """
        options = table_options(self.options)
        columns = schema_of(with_headers=has_headers(self.options if options is None else options))
        if options is not None:
            columns.fields[0].metadata[FORMAT] = options
        return columns

    def reader(self, schema: StructType) -> BatchReader:
        options = ReadOptions.read(self._all_options(schema))
        return (FilteredBatchReader if options.takes_filters else BatchReader)(options)

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(self._all_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_pipeline_broker.sink.writers import batch_writer  # noqa: PLC0415 - readers need no client

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyspark_pipeline_broker.sink.writers import stream_writer  # noqa: PLC0415 - readers need no client

        return stream_writer(self.options, schema, overwrite=overwrite)

    def _all_options(self, schema: StructType) -> dict[str, str]:
        of_table: dict[str, str] = schema.fields[0].metadata.get(FORMAT, {}) if schema.fields else {}
        return of_table | dict(self.options)
