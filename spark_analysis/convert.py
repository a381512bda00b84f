"""Turns the raw traces of an experiment into Parquet, one folder a table, by jobs of Spark.

Rules: the new `traces` folder appears complete or not at all (written beside, then renamed); every table is written, an
empty one with its columns, so that readers never guess. A table of rows is partitioned by run, so that a job on some
runs opens the files of these alone. Workers decode the rings: a file is one task's, and needs their PyArrow but nothing
of ours, which travels with the job. A run that was interrupted (it has no `run.json`) is left out and named beside the
tables; a run that is damaged refuses the experiment.
"""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException

from spark_analysis.errors import TraceError
from spark_analysis.location import Location
from spark_analysis.raw import RawRun, read_runs
from spark_analysis.ring import RingFile, arrow_schema
from spark_analysis.run import LEFT_OUT_FILE, RAW_FOLDER, TRACES_FOLDER
from spark_analysis.tables import RING_TABLES, declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Decoder = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_TABLES_AT_ONCE: Final = 3
_ONE_RING_AT_A_TIME: Final = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}
"""A row is a whole file: more of them in one message to a worker would only add up in memory."""


def convert(
    directory: str | Path | Location,
    spark: SparkSession,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Write `directory/traces` from `directory/raw`.

    Args:
        directory: what `compare --out` was given, or where it was copied to.
        spark: the session.
        progress: called with the number of tables done and their total.

    Raises:
        TraceError: there is nothing to convert, or something is wrong with it.
    """
    place = directory if isinstance(directory, Location) else Location(spark, directory)
    raw = place / RAW_FOLDER
    if not raw.is_folder():
        raise TraceError(f"{raw}: no such folder")
    runs, left_out = read_runs(raw)
    fresh = place / f"{TRACES_FOLDER}.new"
    fresh.remove()
    try:
        with fresh.without_checksums():
            _write(raw, runs, fresh, progress)
        if left_out:
            (fresh / LEFT_OUT_FILE).write_text(json.dumps(left_out) + "\n")
        fresh.rename(place / TRACES_FOLDER)
    except BaseException:
        fresh.remove()
        raise


def _write(raw: Location, runs: list[RawRun], target: Location, progress: Callable[[int, int], None]) -> None:
    spark = target.spark
    described = pa.Table.from_pylist([run.row for run in runs], schema=arrow_schema("runs"))
    spark.createDataFrame(described).coalesce(1).write.parquet((target / "runs").uri)
    before = {name: str(spark.conf.get(name)) for name in _ONE_RING_AT_A_TIME}
    for name, value in _ONE_RING_AT_A_TIME.items():
        spark.conf.set(name, value)
    try:
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            running = [pool.submit(_write_table, raw, runs, table, target / table) for table in RING_TABLES]
            try:
                for done, future in enumerate(running):
                    progress(done, len(running))
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        progress(len(running), len(running))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _write_table(raw: Location, runs: list[RawRun], table: str, target: Location) -> None:
    spark = target.spark
    paths = [f"{(raw / run.folder).pattern}/{name}" for run in runs for name in run.rings.get(table, ())]
    if paths:
        files = spark.read.format("binaryFile").load(paths).select("path", "content")
        rows = _map_in_arrow(files, _decoder(str(raw), runs, table), declaration(table))
        try:
            rows.write.partitionBy("run").parquet(target.uri)
        except PySparkException as error:
            raise _reason(error) from None
    if not paths or not target.folders():
        spark.createDataFrame(arrow_schema(table).empty_table()).coalesce(1).write.mode("append").parquet(target.uri)


def _decoder(
    raw: str, runs: list[RawRun], table: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does with files: it knows of each run its number and its strings."""
    known = {run.folder: (int(run.row["run"]), run.strings.to_pylist()) for run in runs if table in run.rings}

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(*batch.columns, strict=True):
                folder, name = path.as_py().rsplit("/", 2)[1:]
                run, strings = known[folder]
                ring = RingFile(
                    f"{raw}/{folder}/{name}", table, run, pa.array(strings, pa.string()), content.as_buffer()
                )
                yield from ring.batches()

    return decode


def _map_in_arrow(frame: DataFrame, function: Any, columns: str) -> DataFrame:
    """`DataFrame.mapInArrow` without pandas, for which it asks up to Spark 4.1 at least, and which it does not use.

    It does what that method does. There is no public way without pandas, a package as large as all others together;
    the version of PySpark is pinned.
    """
    from pyspark.cloudpickle import register_pickle_by_value  # noqa: PLC0415 - an optional package
    from pyspark.sql import DataFrame as Frame  # noqa: PLC0415 - see above
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415 - see above
    from pyspark.util import PythonEvalType  # noqa: PLC0415 - see above

    register_pickle_by_value(sys.modules[__package__])  # type: ignore[no-untyped-call]  # workers need not have it installed
    mapped = UserDefinedFunction(function, columns, "decode", PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*[frame[name] for name in frame.columns])
    return Frame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001 - see above


def _reason(error: PySparkException) -> Exception:
    """What the worker said, if it was about a trace."""
    found = re.search(r"TraceError: (.*)", f"{error}\n{getattr(error, '_stackTrace', '')}")
    return TraceError(found[1]) if found else error
