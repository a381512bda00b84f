"""Lines of the log, as text or JSON. Each has a time in UTC and a level."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

__all__ = ["LINES", "Line", "LogFormat", "announced", "announcement", "json_line", "of_broker", "text_line", "utc"]

LogFormat: TypeAlias = Literal["text", "json"]
Line: TypeAlias = Callable[[logging.LogRecord, str, str | None], str]
"""Makes a line of a record, its message and its traceback."""

NAME = "pipeline_broker"


def text_line(record: logging.LogRecord, message: str, traceback: str | None) -> str:
    line = f"{utc(record.created)} {record.levelname} {record.name}: {message}"
    return line if traceback is None else f"{line}\n{traceback}"


def json_line(record: logging.LogRecord, message: str, traceback: str | None) -> str:
    return _json(record.created, record.levelname, record.name, message, traceback)


LINES: dict[LogFormat, Line] = {"text": text_line, "json": json_line}


def announcement(line: str, log_format: LogFormat, level: str = "INFO") -> str:
    """Return a line that a broker prints at startup, such as its address; with JSON, as a line of the log."""
    return line if log_format == "text" else _json(time.time(), level, NAME, line, None)


def announced(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return str(json.loads(line)["message"])
    except (ValueError, KeyError, RecursionError):
        return line


def of_broker(line: str, node_id: int) -> str:
    if line.startswith("{"):
        return f'{{"broker": {node_id}, {line.removeprefix("{")}'
    return f"[{node_id}] {line}"


def _json(seconds: float, level: str, logger: str, message: str, traceback: str | None) -> str:
    fields = {"time": utc(seconds), "level": level, "logger": logger, "message": message}
    return json.dumps(fields if traceback is None else {**fields, "traceback": traceback})


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
