"""Opens the Parquet traces of one experiment.

Rules: a table is read when it is first used; its columns are checked against the declaration before anything is
computed, so that a wrong file is one clear line and not a failed job.
"""

from __future__ import annotations

import atexit
import contextlib
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_analysis.errors import TraceError
from spark_analysis.tables import LATER_COLUMNS, LATER_STAMPS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACES_FOLDER: Final = "traces"
LEFT_OUT_FILE: Final = "left-out.json"
"""Beside the tables: the folders of runs that `convert` left out; absent where there were none."""


class TraceRun:
    """The tables of one experiment as Spark data frames, one attribute a table."""

    def __init__(self, spark: SparkSession, traces: Path) -> None:
        self.spark = spark
        self.traces = traces

    @property
    def left_out(self) -> tuple[str, ...]:
        """Folders of runs that were interrupted, and are in no table."""
        path = self.traces / LEFT_OUT_FILE
        try:
            return tuple(str(name) for name in json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError) as error:
            raise TraceError(f"{path}: not a JSON list of names: {error}") from None

    @cached_property
    def runs(self) -> DataFrame:
        """One row a run."""
        return self._table("runs")

    @cached_property
    def requests(self) -> DataFrame:
        """One row a request, as the broker saw it; traced runs only."""
        return self._table("requests")

    @cached_property
    def appends(self) -> DataFrame:
        """One row a batch appended to a partition; traced runs only."""
        return self._table("appends")

    @cached_property
    def commits(self) -> DataFrame:
        """One row a commit; traced runs only."""
        return self._table("commits")

    @cached_property
    def mutes(self) -> DataFrame:
        """One row a time during which a connection was not read; traced runs only."""
        return self._table("mutes")

    @cached_property
    def queues(self) -> DataFrame:
        """One row a sample of a request queue's depth; traced runs only."""
        return self._table("queues")

    @cached_property
    def client(self) -> DataFrame:
        """One row a request (confluent-kafka: a message), as the client saw it; all runs."""
        return self._table("client")

    def _table(self, name: str) -> DataFrame:
        folder = self.traces / name
        if not any(folder.glob("*.parquet")):
            raise TraceError(f"{folder}: no Parquet file")
        frame = self.spark.read.parquet(str(folder.resolve()))
        if name == "runs":
            for column, value in LATER_COLUMNS.items():
                if column not in frame.columns:
                    literal = "null" if value is None else f"'{value}'"
                    frame = frame.selectExpr("*", f"cast({literal} as {TABLES[name][column]}) as {column}")
        for column, earlier in LATER_STAMPS.items() if name == "requests" else ():
            if column not in frame.columns:
                frame = frame.selectExpr("*", f"{earlier} as {column}")
        found = dict(frame.dtypes)
        for column, kind in TABLES[name].items():
            if found.get(column) != kind:
                raise TraceError(f"{folder}: column {column} is {found.get(column, 'missing')}, not {kind}")
        return frame


def load_run(directory: str | Path, spark: SparkSession | None = None) -> TraceRun:
    """Open the Parquet traces of an experiment.

    Args:
        directory: what `compare --out` was given, or its `traces` folder.
        spark: the session to use; without one, the active session or a new local one that ends with this process.

    Raises:
        TraceError: there are no traces in it.
    """
    directory = Path(directory)
    traces = directory / TRACES_FOLDER if (directory / TRACES_FOLDER).is_dir() else directory
    missing = [name for name in TABLES if not (traces / name).is_dir()]
    if missing:
        raise TraceError(f"{directory}: no traces here ({', '.join(missing)} missing)")
    return TraceRun(spark or _session(), traces)


def _session() -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional package

    from spark_analysis.session import spark_session  # noqa: PLC0415 - needed only without a session

    if active := SparkSession.getActiveSession():
        return active
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(spark_session())
