"""The limits of a stream's batches, which PySpark supports since version 4.2."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["READS_LIMITS", "SupportsTriggerAvailableNow", "read_all", "read_at_most", "rows_max_of"]


class _Unsupported:  # the base class of readers if PySpark has no limits
    pass


try:
    _limits: Any = import_module("pyspark.sql.streaming.datasource")
except ImportError:
    _limits = None

READS_LIMITS = _limits is not None
SupportsTriggerAvailableNow: Any = _limits.SupportsTriggerAvailableNow if READS_LIMITS else _Unsupported


def read_all() -> Any:
    return _limits.ReadAllAvailable()


def read_at_most(rows_max: int) -> Any:
    return _limits.ReadMaxRows(rows_max)


def rows_max_of(limit: Any) -> int | None:
    """Return the number of rows that a limit allows; None for all rows."""
    return getattr(limit, "max_rows", None)
