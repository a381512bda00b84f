"""The columns of the source in Spark's types, as in Spark's Kafka source."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["schema_of"]


def schema_of(*, with_headers: bool) -> StructType:
    """Return a new schema, with the columns in the order of `rows.arrow_batches`.

    Args:
        with_headers: add the column `headers` at the end.
    """
    columns = StructType()
    columns.add("key", BinaryType()).add("value", BinaryType()).add("topic", StringType())
    columns.add("partition", IntegerType()).add("offset", LongType())
    columns.add("timestamp", TimestampType()).add("timestampType", IntegerType())
    if with_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        columns.add("headers", ArrayType(header))
    return columns
