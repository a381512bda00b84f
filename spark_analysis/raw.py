"""Metadata of raw traces: `run.json`, `strings.jsonl`, `lost.json`, and the names of the ring files.

One Spark job reads all small files; otherwise hundreds of runs would need a thousand sequential requests. `run.json`
is written last, so a folder without it is an interrupted run.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from spark_analysis.errors import TraceError
from spark_analysis.ring import arrow_schema, check_schema
from spark_analysis.tables import LATER_COLUMNS, RING_TABLES, SCHEMAS_READ, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_analysis.location import Location

RUN_FILE: Final = "run.json"
_STRINGS_FILE: Final = "strings.jsonl"
_LOST_FILE: Final = "lost.json"
# A table may have several files, numbered.
_RING: Final = re.compile(r"(?P<table>[a-z]+)(?:-\d+)?\.ring")


@attrs.frozen
class RawRun:
    """A folder `run-*`: its row of the `runs` table, and the data that its ring files need for decoding."""

    folder: str
    row: dict[str, Any]
    rings: dict[str, tuple[str, ...]]
    """Names of the ring files by table."""
    strings: pa.Array


def read_runs(raw: Location) -> tuple[list[RawRun], list[str]]:
    """Return the complete runs of a raw folder by number, and the names of the interrupted runs.

    Raises:
        TraceError: no run is complete, or a file is missing, damaged or of another schema version.
    """
    folders = [name for name in raw.folders() if name.startswith("run-")]
    if not folders:
        raise TraceError(f"{raw} has no run-* folder. Run the experiment again")
    files = _files(raw, folders)
    left_out = [name for name in folders if RUN_FILE not in files[name]]
    if len(left_out) == len(folders):
        raise TraceError(f"{raw / folders[0] / RUN_FILE} is missing, so no run finished. Run the experiment again")
    runs = [_read_run(raw / name, files[name]) for name in folders if name not in left_out]
    seen: dict[int, str] = {}
    for run in runs:
        number = run.row["run"]
        if number in seen:
            raise TraceError(
                f"run {number} is in both {raw / run.folder} and {raw / seen[number]}. Remove one of these folders"
            )
        seen[number] = run.folder
    return sorted(runs, key=lambda run: int(run.row["run"])), left_out


def _files(raw: Location, folders: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """Return the files of each folder by name, with the content of the small ones; b"" stands for the others."""
    found: dict[str, dict[str, bytes]] = {folder: {} for folder in folders}
    for path, size in raw.files().items():
        folder, _, name = path.partition("/")
        if folder in found and "/" not in name:
            if name.endswith(".ring") and not size:
                raise TraceError(f"{raw / path} is empty, so the run is incomplete. Remove the folder of the run")
            found[folder][name] = b""
    small = raw.spark.read.format("binaryFile").option("pathGlobFilter", "*.{json,jsonl}").load(f"{raw.pattern}/run-*")
    for row in small.select("path", "content").collect():  # Spark leaves out empty files
        folder, name = row["path"].rsplit("/", 2)[1:]
        if folder in found:
            found[folder][name] = bytes(row["content"])
    return found


def _read_run(folder: Location, files: Mapping[str, bytes]) -> RawRun:
    row = _run_row(folder, files)
    rings: dict[str, tuple[str, ...]] = {}
    for name in sorted(files):
        if not name.endswith(".ring"):
            continue
        ring = _RING.fullmatch(name)
        if ring is None or ring["table"] not in RING_TABLES:
            raise TraceError(f"{folder / name} is not named after a table. Move the file to another folder")
        rings[ring["table"]] = (*rings.get(ring["table"], ()), name)
    wanted = ("client", "requests", "appends", "commits") if row["traced"] else ("client",)
    for table in wanted:
        if table not in rings:
            raise TraceError(f"{folder} has no {table} ring file, so the run is incomplete. Remove the folder")
    return RawRun(folder.name, row, rings, _strings(folder / _STRINGS_FILE, files.get(_STRINGS_FILE, b"")))


def _json(path: Location, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise TraceError(f"{path} is not readable as JSON: {error}. Remove the folder of the run") from None


def _run_row(folder: Location, files: Mapping[str, bytes]) -> dict[str, Any]:
    path = folder / RUN_FILE
    declared = _json(path, files[RUN_FILE])
    if not isinstance(declared, dict):
        raise TraceError(f"{path} is not a JSON object. Remove the folder of the run")
    check_schema(path, declared.get("schema", SCHEMAS_READ[-1]))
    declared = {**LATER_COLUMNS, **declared}
    missing = [name for name in TABLES["runs"] if name not in declared]
    if missing:
        raise TraceError(f"{path} lacks {', '.join(missing)}. Remove the folder of the run")
    row = {name: declared[name] for name in TABLES["runs"]}
    settings = row["settings"] if isinstance(row["settings"], dict) else {"text": row["settings"]}
    # The `runs` table has no column for the part of the experiment, so `settings` carries it.
    if "experiment" in declared:
        settings = {**settings, "experiment": declared["experiment"]}
    row["settings"] = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    for name in ("machine", "factors"):
        if not isinstance(row[name], str):
            row[name] = json.dumps(row[name], sort_keys=True, ensure_ascii=False)
    row["lost_rows"] = max(row["lost_rows"] or 0, _lost_rows(folder / _LOST_FILE, files.get(_LOST_FILE)))
    try:
        pa.RecordBatch.from_pylist([row], schema=arrow_schema("runs"))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TraceError(f"{path}: {error}") from None
    return row


def _lost_rows(path: Location, content: bytes | None) -> int:
    if content is None:
        return 0
    lost = _json(path, content)
    if not isinstance(lost, dict) or not all(type(count) is int for count in lost.values()):
        raise TraceError(f"{path} is not an object of whole numbers. Remove the folder of the run")
    return sum(lost.values())


def _strings(path: Location, content: bytes) -> pa.Array:
    try:
        return pa.array([json.loads(line) for line in content.splitlines()], pa.string())
    except (ValueError, pa.ArrowException) as error:
        raise TraceError(
            f"{path} has a line that is not a JSON string: {error}. Remove the folder of the run"
        ) from None
