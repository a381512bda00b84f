"""Rows of a data directory as Spark's tasks read them, one task after the other, without Spark."""

import pickle

from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.options import ReadOptions
from pyspark_pipeline_broker.planning import batch_ranges
from pyspark_pipeline_broker.rows import arrow_batches

NO_BOUNDS = Bounds()


def planned(directory, bounds=NO_BOUNDS, **options):
    """Return the options and the planned ranges, pickled and unpickled as if sent to other processes."""
    where = {"store": directory} if "://" in str(directory) else {"path": str(directory)}
    read = ReadOptions.read({**where, **{name.replace("__", "."): it for name, it in options.items()}})
    return read, pickle.loads(pickle.dumps(batch_ranges(read, bounds)))


def rows_of(options, ranges):
    return [
        row
        for stored in ranges
        for batch in arrow_batches(
            stored, options.stored, with_headers=options.with_headers, skips_gone=options.skips_gone
        )
        for row in batch.to_pylist()
    ]


def rows(directory, bounds=NO_BOUNDS, **options):
    return rows_of(*planned(directory, bounds, **options))


def offsets(found, partition=0):
    return [row["offset"] for row in found if row["partition"] == partition]
