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
_PART: Final = "part-00000.parquet"


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


def _write(runs: list[RawRun], target: Path, progress: Callable[[int, int], None]) -> dict[str, int]:
    schemas = {table: arrow_schema(table) for table in TABLES}
    writers: dict[str, pq.ParquetWriter] = {}
    rows = dict.fromkeys(TABLES, 0)
    try:
        for table, schema in schemas.items():
            (target / table).mkdir(parents=True)
            writers[table] = pq.ParquetWriter(target / table / _PART, schema, compression="snappy")
        described = pa.Table.from_pylist([run.row for run in runs], schema=schemas["runs"])
        writers["runs"].write_table(described)
        rows["runs"] = len(runs)
        for done, run in enumerate(runs):
            progress(done, len(runs))
            for ring in run.rings:
                for batch in run.batches(ring):
                    writers[ring.table].write_batch(batch)
                rows[ring.table] += ring.rows
        progress(len(runs), len(runs))
    finally:
        for writer in writers.values():
            writer.close()
    return rows
