"""How far a group lags behind what it reads: one formula for every part that shows it.

Rules of this file: numbers only. None stands for what is not known, which is not the same as no lag.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["lag_of", "total_lag"]


def lag_of(committed: int | None, end: int | None) -> int | None:
    """The lag in a partition, as Kafka's ConsumerGroupCommand computes it: its end minus the committed offset.

    The start of the log has no part in it: records that were deleted before the group read them still count. It is
    negative where the group committed an offset beyond the end.

    Args:
        committed: the group's offset; None if it has committed none.
        end: the high watermark; None if the partition is not there.
    """
    return None if committed is None or end is None else end - committed


def total_lag(lags: Iterable[int | None]) -> int | None:
    """The sum of the lags that are known; None if none is.

    A negative lag counts as 0, so an offset beyond the end of one partition does not hide the lag of another.
    """
    known = [max(lag, 0) for lag in lags if lag is not None]
    return sum(known) if known else None
