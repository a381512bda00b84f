"""Conversion of an experiment's raw traces to Parquet, one folder per table, by Spark jobs.

A damaged run fails the whole conversion. An interrupted run (without `run.json`) is left out, and its name is stored
beside the tables.
"""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from spark_analysis.errors import TraceError
from spark_analysis.location import Location
from spark_analysis.raw import RawRun, read_runs
from spark_analysis.ring import RingFile, arrow_schema
from spark_analysis.run import LEFT_OUT_FILE, RAW_FOLDER, TRACES_FOLDER
from spark_analysis.tables import RING_TABLES, declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    Decoder = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_TABLES_AT_ONCE: Final = 3
# A row is a whole file, so a batch of several rows would only need more memory.
_ONE_RING_AT_A_TIME: Final = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}


def convert(
    directory: str | Path | Location,
    spark: SparkSession,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Write `directory/traces` from `directory/raw`, completely or not at all.

    Args:
        directory: the directory of `compare --out`, or a copy of it.
        progress: called with the number of finished tables and their total.

    Raises:
        TraceError: no complete run was found, or a run is damaged.
    """
    place = directory if isinstance(directory, Location) else Location(spark, directory)
    raw = place / RAW_FOLDER
    if not raw.is_folder():
        raise TraceError(f"the folder {raw} does not exist. Give the directory of `compare --out`")
    runs, left_out = read_runs(raw)
    # Readers never see half of the tables: they are written elsewhere and renamed at the end.
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
            # A job on some runs then opens only the files of these runs.
            rows.write.partitionBy("run").parquet(target.uri)
        except PySparkException as error:
            raise _reason(error) from None
    # An empty table is written with its columns, so that readers need no special case.
    if not paths or not target.folders():
        spark.createDataFrame(arrow_schema(table).empty_table()).coalesce(1).write.mode("append").parquet(target.uri)


def _decoder(
    raw: str, runs: list[RawRun], table: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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
    """Do the same as `DataFrame.mapInArrow`, without pandas.

    The method requires pandas up to Spark 4.1 at least, but does not use it. Pandas is as large as all other
    dependencies together. This function uses private names, so the version of PySpark is pinned.
    """
    register_pickle_by_value(sys.modules[__package__])  # type: ignore[no-untyped-call]  # workers may lack this package
    mapped = UserDefinedFunction(function, columns, "decode", PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001 - see above


def _reason(error: PySparkException) -> Exception:
    found = re.search(r"TraceError: (.*)", f"{error}\n{getattr(error, '_stackTrace', '')}")
    return TraceError(found[1]) if found else error
