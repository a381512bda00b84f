"""Compaction of state batches."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.state.share_partitions.messages import StateBatch

__all__ = ["joined_from"]


def joined_from(start_offset: int, batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """Return the batches at and after an offset, with equal neighbours joined as in Kafka.

    Args:
        start_offset: drop offsets below it; -1 keeps all.
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
