"""The windows as files: one of Parquet for each window and mode, replaced whole when the window grows.

Rules: a file is written beside its place, synced and renamed, so that whoever reads sees a window before or after a
batch and nothing between, with any reader of Parquet. To write the same batch again changes nothing: that, and not a
promise of Spark's, is why a job that is killed anywhere and started again neither loses nor doubles anything.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_analysis.errors import TraceError
from spark_analysis.stage import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("window_start", _TIMESTAMP),
        ("window_end", _TIMESTAMP),
        ("mode", pa.string()),
        ("stage", pa.string()),
        ("requests", pa.int64()),
        ("mean_us", pa.float64()),
        *[(name, pa.float64()) for name in QUANTILES],
        ("lost", pa.int64()),
    ]
)
_MODE = re.compile(r"[a-z][a-z0-9-]{0,63}")


class WindowFiles:
    """See the rules of the file.

    Args:
        directory: of the files; made when missing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def replace(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put windows in the place of what there was of them; `rows` holds all stages of each window and mode."""
        groups: dict[tuple[datetime, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["window_start"], row["mode"]), []).append(row)
        for (start, mode), group in groups.items():
            if not _MODE.fullmatch(mode):
                raise TraceError(f"a record names the mode {mode!r}, which is none")
            self._write(self.directory / f"{start:%Y%m%dT%H%M%SZ}-{mode}.parquet", group)
        self._sync_directory()

    def _write(self, path: Path, rows: list[Mapping[str, Any]]) -> None:
        fresh = path.with_name(f".{path.name}.new")
        with fresh.open("wb") as file:
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)

    def _sync_directory(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> list[dict[str, Any]]:
        """All windows, the oldest first."""
        paths = sorted(self.directory.glob("[0-9]*.parquet"))
        return [row for path in paths for row in pq.read_table(path, schema=SCHEMA).to_pylist()]
