"""Parquet traces of one experiment.

A table is read when it is first used. Its columns are checked before any computation, so that a wrong file gives one
clear line instead of a failed job. Tables may be partitioned by run or not.
"""

from __future__ import annotations

import atexit
import contextlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_analysis.errors import TraceError
from spark_analysis.location import Location
from spark_analysis.session import spark_session
from spark_analysis.tables import LATER_COLUMNS, LATER_STAMPS, LATER_TABLES, OPTIONAL_COLUMNS, TABLES, declaration

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

RAW_FOLDER: Final = "raw"
TRACES_FOLDER: Final = "traces"
LEFT_OUT_FILE: Final = "left-out.json"
"""The file beside the tables with the folders of runs that `convert` left out. Without such runs it is missing."""


_LATER: Final = {
    "runs": {column: "null" if value is None else f"'{value}'" for column, value in LATER_COLUMNS.items()},
    "requests": LATER_STAMPS,
    **{table: dict.fromkeys(columns, "null") for table, columns in OPTIONAL_COLUMNS.items()},
}
"""SQL expressions for columns that older tables lack."""


class TraceRun:
    """The tables of one experiment as Spark data frames. Runs without traces have rows only in `runs` and `client`.

    The first use of a table raises TraceError if the table has no file, or a column is missing or of another type.
    """

    def __init__(self, traces: Location) -> None:
        self.spark = traces.spark
        self.traces = traces

    @property
    def left_out(self) -> tuple[str, ...]:
        """The folders of interrupted runs, which are in no table. Raises TraceError if the list of names is damaged."""
        path = self.traces / LEFT_OUT_FILE
        text = path.read_text()
        try:
            return () if text is None else tuple(str(name) for name in json.loads(text))
        except (ValueError, TypeError) as error:
            raise TraceError(f"{path} is not a JSON list of names: {error}") from None

    @cached_property
    def runs(self) -> DataFrame:
        return self._table("runs")

    @cached_property
    def requests(self) -> DataFrame:
        return self._table("requests")

    @cached_property
    def appends(self) -> DataFrame:
        return self._table("appends")

    @cached_property
    def commits(self) -> DataFrame:
        return self._table("commits")

    @cached_property
    def mutes(self) -> DataFrame:
        """A row per span in which a connection was not read."""
        return self._table("mutes")

    @cached_property
    def queues(self) -> DataFrame:
        return self._table("queues")

    @cached_property
    def store(self) -> DataFrame:
        """A row per request of the broker to its object store."""
        return self._table("store")

    @property
    def has_store(self) -> bool:
        folder = self.traces / "store"
        return folder.is_folder() and bool(folder.folders())

    @cached_property
    def client(self) -> DataFrame:
        """A row per request as the client saw it, or per message of confluent-kafka; all runs."""
        return self._table("client")

    def _table(self, name: str) -> DataFrame:
        folder = self.traces / name
        if name in LATER_TABLES and not folder.is_folder():
            return self.spark.createDataFrame([], declaration(name))
        found = folder.parquet_columns()
        if found is None:
            raise TraceError(f"{folder} has no Parquet file, so the traces are incomplete. Run the experiment again")
        later = {column: expression for column, expression in _LATER.get(name, {}).items() if column not in found}
        for column, kind in TABLES[name].items():
            is_partition = column == "run" and column not in found and name != "runs"
            if found.get(column) != kind and column not in later and not is_partition:
                raise TraceError(f"{folder}: column {column} is {found.get(column, 'missing')}, not {kind}")
        # With a given schema Spark need not open files to infer it.
        frame = self.spark.read.schema(declaration(name)).parquet(folder.pattern)
        return frame.withColumns(
            {column: f.expr(f"cast({expression} as {TABLES[name][column]})") for column, expression in later.items()}
        )


def load_run(directory: str | Path | Location, spark: SparkSession | None = None) -> TraceRun:
    """Open the Parquet traces of an experiment.

    Args:
        directory: the directory of `compare --out`, or its `traces` folder; a path of this machine, or an address that
            Spark reads, such as `s3a://bucket/out`.
        spark: the session to use; without one, the active session or a new local one that ends with this process.

    Raises:
        TraceError: the directory has no traces.
    """
    place = directory if isinstance(directory, Location) else Location(spark or _session(), directory)
    traces = place / TRACES_FOLDER if (place / TRACES_FOLDER).is_folder() else place
    existing = traces.folders() if traces.is_folder() else []
    missing = [name for name in TABLES if name not in (*existing, *LATER_TABLES)]
    if missing:
        raise TraceError(f"{place} has no traces of {', '.join(missing)}. Give the directory of `compare --out`")
    return TraceRun(traces)


def _session() -> Any:
    if active := SparkSession.getActiveSession():
        return active
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(spark_session())
