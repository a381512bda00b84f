"""Batches of state as they are written and kept: as few as tell the same.

Rules of this file: Kafka's, so that both read the same from one log: neighbours that agree become one batch; what is in
front of the start is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.state.share_partitions.messages import StateBatch

__all__ = ["joined_from"]


def joined_from(start_offset: int, batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """The batches from an offset on, neighbours that agree as one.

    Args:
        start_offset: the first offset that matters; all do where it is -1.
        batches: in offset order, without overlaps.
    """
    joined: list[StateBatch] = []
    for batch in batches:
        if batch.last < start_offset:
            continue
        now = batch._replace(first=max(batch.first, start_offset))
        last = joined[-1] if joined else None
        if last is not None and (last.last + 1, last[2:]) == (now.first, now[2:]):
            joined[-1] = last._replace(last=now.last)
        else:
            joined.append(now)
    return tuple(joined)
