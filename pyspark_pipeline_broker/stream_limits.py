"""How much of a stream one batch reads, in Spark's words, which PySpark has since version 4.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    READS_LIMITS: bool

    class StreamTarget:
        """A stream whose end can be fixed: `SupportsTriggerAvailableNow` of PySpark, where it has that."""
else:
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as StreamTarget

        READS_LIMITS = True
    except ImportError:
        READS_LIMITS = False

        class StreamTarget:
            """Nothing that PySpark would ask for."""


__all__ = ["READS_LIMITS", "StreamTarget", "read_all", "read_at_most", "rows_max_of"]


def read_all() -> Any:
    """The limit that is none."""
    return ReadAllAvailable()


def read_at_most(rows_max: int) -> Any:
    """The limit of a number of rows."""
    return ReadMaxRows(rows_max)


def rows_max_of(limit: Any) -> int | None:
    """The rows that a limit allows; None for all, which are the only two kinds that this source offers."""
    return getattr(limit, "max_rows", None)
