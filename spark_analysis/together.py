"""Runs many small data frames as one job of Spark, over tables that are read once.

Rules: the frames become one union, so that what they have in common is exchanged once, and all their stages share the
cores; each comes back as its own rows. A table that several of them read is kept in Spark's memory, and on its disk
where that is full, as long as they run; one that is too large for that is read again by each. Nothing stays behind.
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
"""Of Parquet; ten to twenty times as much when it is unpacked, with 2 GB for the whole session."""
_SHARED: Final = ("runs", "requests", "commits", "client")
_PARTITION_BYTES: Final = 8 << 20  # of compressed Parquet: some hundred thousand rows, sorted in memory by one task
_PARTITIONS_MAX: Final = 2000
_LOOK_SECONDS: Final = 0.2


@contextlib.contextmanager
def shared(run: TraceRun) -> Iterator[TraceRun]:
    """The same experiment for many jobs: its tables are kept, and a shuffle is as wide as they are large.

    Plans are not revised while they run (Spark's adaptive execution): every shuffle would be a job of its own, and what
    it finds out, how large the tables are, is known.
    """
    conf = run.spark.conf
    sizes = {name: (run.traces / name).size_bytes() for name in _SHARED}
    narrowest = min(int(conf.get("spark.sql.shuffle.partitions") or 1), run.spark.sparkContext.defaultParallelism)
    width = max(narrowest, min(_PARTITIONS_MAX, sum(sizes.values()) // _PARTITION_BYTES))
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": str(width)}
    before = {name: conf.get(name) for name in settings}
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
    """One frame with a column for each of them, of which a row has one: a row of that frame."""
    named = [frame.select(f.struct("*").alias(name)) for name, frame in frames.items()]
    return reduce(lambda above, below: above.unionByName(below, allowMissingColumns=True), named)


def collect_together(
    frames: Mapping[str, DataFrame], progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, list[Row]]:
    """The rows of each frame, by one job.

    Args:
        frames: small ones, by names.
        progress: called with the number of tasks done and their total.
    """
    union = together(frames)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(union.collect)
        try:
            while not job.done():
                wait([job], _LOOK_SECONDS)
                progress(*_tasks(union.sparkSession))
        except BaseException:
            union.sparkSession.sparkContext.cancelAllJobs()  # what was interrupted needs no further answers
            raise
        rows = job.result()
    progress(1, 1)
    return {name: [row[name] for row in rows if row[name] is not None] for name in frames}


def _tasks(spark: SparkSession) -> tuple[int, int]:
    """Done and all, of the jobs that run now."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), max(1, sum(stage.numTasks for stage in found))
