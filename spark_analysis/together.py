"""Many small queries as one Spark job over cached tables.

The queries become one union, so Spark computes common parts once and their stages share the cores. Each query gets its
own rows back. Tables that several queries read are cached in memory, and on disk if memory is full, while the queries
run. A table that is too large for that is read by each query.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor, wait
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as f

from spark_analysis.run import TraceRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

KEPT_BYTES_MAX: Final = 64 << 20
"""Limit of a cached table, as Parquet. Unpacked it is ten to twenty times as large; the session has 2 GB in all."""
_SHARED: Final = ("runs", "requests", "commits", "client")
_PARTITION_BYTES: Final = 8 << 20  # of compressed Parquet: some hundred thousand rows, sorted in memory by one task
_PARTITIONS_MAX: Final = 2000
_PROGRESS_SECONDS: Final = 0.2


@contextlib.contextmanager
def shared(run: TraceRun) -> Iterator[TraceRun]:
    """Yield the same experiment for many queries, with cached tables and a shuffle width that fits their size.

    At the end of the block, the tables are released and Spark's settings restored.
    """
    conf = run.spark.conf
    sizes = {name: (run.traces / name).size_bytes() for name in _SHARED}
    narrowest = min(int(conf.get("spark.sql.shuffle.partitions") or 1), run.spark.sparkContext.defaultParallelism)
    width = max(narrowest, min(_PARTITIONS_MAX, sum(sizes.values()) // _PARTITION_BYTES))
    # Adaptive execution is off: every shuffle would become a job of its own, and it would only find out the known
    # sizes.
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": str(width)}
    before = {name: conf.get(name) for name in settings}
    # A new object: its tables are cached properties, so the cached frames must not outlive this block in `run`.
    same = TraceRun(run.traces)
    kept = [
        getattr(same, name).persist(StorageLevel.MEMORY_AND_DISK) for name in _SHARED if sizes[name] <= KEPT_BYTES_MAX
    ]
    try:
        for name, value in settings.items():
            conf.set(name, value)
        yield same
    finally:
        for frame in kept:
            frame.unpersist()
        for name, found in before.items():
            conf.set(name, str(found))


def together(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the union of the frames.

    Each frame becomes a struct column. A row fills the column of its own frame; the others are null.
    """
    named = [frame.select(f.struct("*").alias(name)) for name, frame in frames.items()]
    return reduce(lambda above, below: above.unionByName(below, allowMissingColumns=True), named)


def collect_together(
    frames: Mapping[str, DataFrame], progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, list[Row]]:
    """Collect the rows of each frame by one job.

    A failure cancels all jobs of the Spark session.

    Args:
        frames: small frames by name.
        progress: called with the number of finished tasks and their total.
    """
    union = together(frames)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(union.collect)
        try:
            while not job.done():
                wait([job], _PROGRESS_SECONDS)
                progress(*_tasks(union.sparkSession))
        except BaseException:
            union.sparkSession.sparkContext.cancelAllJobs()  # else Spark would finish a job that nothing waits for
            raise
        rows = job.result()
    progress(1, 1)
    return {name: [row[name] for row in rows if row[name] is not None] for name in frames}


def _tasks(spark: SparkSession) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), max(1, sum(stage.numTasks for stage in found))
