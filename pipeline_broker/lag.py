"""How far a group lags behind what it reads: one formula for every part that shows it.

Rules of this file: numbers only. None stands for what is not known, which is not the same as no lag.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

__all__ = ["add_lag", "lag_of", "total_lag"]


def lag_of(committed: int | None, end: int | None) -> int | None:
    """The lag in a partition, as Kafka's ConsumerGroupCommand computes it: its end minus the committed offset.

    The start of the log has no part in it: records that were deleted before the group read them still count. It is
    negative where the group committed an offset beyond the end.

    Args:
        committed: the group's offset; None if it has committed none.
        end: the high watermark; None if the partition is not there.
    """
    return None if committed is None or end is None else end - committed


def add_lag(total: int | None, lag: int | None) -> int | None:
    """Add a lag to the sum of those that are known; None as long as none is.

    A negative lag counts as 0, so an offset beyond the end of one partition does not hide the lag of another.
    """
    return total if lag is None else max(lag, 0) + (total or 0)


def total_lag(lags: Iterable[int | None]) -> int | None:
    """The sum of the lags that are known; None if none is."""
    return functools.reduce(add_lag, lags, None)
