"""Consumer group lag: the one formula of the dashboard, the metrics and the command line.

None means an unknown lag, which is not the same as 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

__all__ = ["add_lag", "lag_of", "total_lag"]


def lag_of(committed: int | None, end: int | None) -> int | None:
    """Return the lag of a partition, the end minus the committed offset, like Kafka's ConsumerGroupCommand.

    The lag is None if either offset is unknown, and negative if the group committed an offset beyond the end. Records
    that were deleted before the group read them count.

    Args:
        committed: the committed offset; None if the group has none.
        end: the high watermark; None if the partition is unknown.
    """
    return None if committed is None or end is None else end - committed


def add_lag(total: int | None, lag: int | None) -> int | None:
    """Return the sum of known lags with another lag added; None if none of them is known.

    A negative lag counts as 0, so an offset beyond the end of one partition does not hide the lag of another.
    """
    return total if lag is None else max(lag, 0) + (total or 0)


def total_lag(lags: Iterable[int | None]) -> int | None:
    return functools.reduce(add_lag, lags, None)
