"""Turns the raw traces of an experiment into Parquet, one folder a table.

Rules: the new `traces` folder appears complete or not at all (written beside, then renamed); every table is written, an
empty one with its schema, so that readers never guess; one row group a run and chunk, so that Spark can share a table
between cores. A run that was interrupted (it has no `run.json`) is left out and named beside the tables; a run that is
damaged refuses the experiment.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_analysis.errors import TraceError
from spark_analysis.raw import RawRun, arrow_schema, read_run
from spark_analysis.run import LEFT_OUT_FILE, TRACES_FOLDER
from spark_analysis.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RAW_FOLDER: Final = "raw"
ROWS_A_PART: Final = 1 << 23
"""Rows after which a table goes on in another file: a cluster reads many files at once, and a copy can be resumed."""


def has_raw(directory: Path) -> bool:
    """Whether there are raw traces to convert."""
    return (directory / RAW_FOLDER).is_dir()


def convert(directory: Path, progress: Callable[[int, int], None] = lambda _done, _total: None) -> dict[str, int]:
    """Write `directory/traces` from `directory/raw`; returns the number of rows of each table.

    Args:
        directory: what `compare --out` was given.
        progress: called with the number of runs done and their total.

    Raises:
        TraceError: there is nothing to convert, or something is wrong with it.
    """
    runs = read_runs(directory / RAW_FOLDER)
    left_out = interrupted(directory / RAW_FOLDER)
    target = directory / TRACES_FOLDER
    fresh = directory / f"{TRACES_FOLDER}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        rows = _write(runs, fresh, progress)
        if left_out:
            (fresh / LEFT_OUT_FILE).write_text(json.dumps(left_out) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return rows


def read_runs(raw: Path) -> list[RawRun]:
    """The complete runs below a raw folder, headers checked, in the order of their numbers."""
    if not raw.is_dir():
        raise TraceError(f"{raw}: no such folder")
    folders = sorted(path for path in raw.glob("run-*") if path.is_dir())
    if not folders:
        raise TraceError(f"{raw}: no run-* folder in it; was the experiment interrupted?")
    left_out = interrupted(raw)
    if len(left_out) == len(folders):
        raise TraceError(f"{folders[0] / 'run.json'}: missing; no run of this experiment came to its end")
    runs = [read_run(folder) for folder in folders if folder.name not in left_out]
    seen: dict[int, Path] = {}
    for run in runs:
        number = run.row["run"]
        if number in seen:
            raise TraceError(f"{run.folder}: run {number} is also in {seen[number]}")
        seen[number] = run.folder
    return sorted(runs, key=lambda run: int(run.row["run"]))


def interrupted(raw: Path) -> list[str]:
    """The folders of runs that did not come to their end: `run.json` is written last."""
    return sorted(path.name for path in raw.glob("run-*") if path.is_dir() and not (path / "run.json").exists())


class _Writer:
    """The files of one table."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        folder.mkdir(parents=True)
        self._folder, self._schema = folder, schema
        self._parts = 0
        self.rows = 0
        self._begin()

    def _begin(self) -> None:
        path = self._folder / f"part-{self._parts:05}.parquet"
        self._file = pq.ParquetWriter(path, self._schema, compression="snappy")
        self._rows_of_part = 0
        self._parts += 1

    def write(self, batch: pa.RecordBatch) -> None:
        if self._rows_of_part >= ROWS_A_PART:
            self._file.close()
            self._begin()
        self._file.write_batch(batch)
        self._rows_of_part += batch.num_rows
        self.rows += batch.num_rows

    def close(self) -> None:
        self._file.close()


def _write(runs: list[RawRun], target: Path, progress: Callable[[int, int], None]) -> dict[str, int]:
    writers: dict[str, _Writer] = {}
    try:
        for table in TABLES:
            writers[table] = _Writer(target / table, arrow_schema(table))
        for batch in pa.Table.from_pylist([run.row for run in runs], schema=arrow_schema("runs")).to_batches():
            writers["runs"].write(batch)
        for done, run in enumerate(runs):
            progress(done, len(runs))
            for ring in run.rings:
                for batch in run.batches(ring):
                    writers[ring.table].write(batch)
        progress(len(runs), len(runs))
    finally:
        for writer in writers.values():
            writer.close()
    return {table: writer.rows for table, writer in writers.items()}
