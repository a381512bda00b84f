"""How much of a stream one batch reads, in Spark's words, which PySpark has since version 4.2."""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:
    READS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing that this PySpark would ask for."""
else:
    READS_LIMITS = True

__all__ = ["READS_LIMITS", "SupportsTriggerAvailableNow", "read_all", "read_at_most", "rows_max_of"]


def read_all() -> Any:
    """The limit that is none."""
    return ReadAllAvailable()


def read_at_most(rows_max: int) -> Any:
    """The limit of a number of rows."""
    return ReadMaxRows(rows_max)


def rows_max_of(limit: Any) -> int | None:
    """The rows that a limit allows; None for all, which are the only two kinds that this source offers."""
    return getattr(limit, "max_rows", None)
