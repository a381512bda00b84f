"""Merging of state batches with overlaps, by Kafka's rules."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.state_batches import joined_from

__all__ = ["combine"]


def combine(known: Iterable[StateBatch], added: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return the known batches updated by added ones, in offset order and without overlaps.

    Where two batches overlap, the one with more deliveries wins, then the one with the higher state. Equal neighbours
    become one batch. Kafka applies the same rules, so both read the same state from a log.

    Args:
        known: in offset order, without overlaps.
        added: in any order, possibly with overlaps.
        start_offset: drop offsets below it; -1 keeps all.
    """
    batches = list(known)
    for batch in added:
        batches = _overlay(batches, batch)
    return joined_from(start_offset, batches)


def _overlay(batches: list[StateBatch], added: StateBatch) -> list[StateBatch]:
    result: list[StateBatch] = []
    position = added.first  # `added` is in the result up to this offset, exclusive
    for batch in batches:
        if batch.last < added.first:
            result.append(batch)
            continue
        if position <= added.last and position < batch.first:
            result.append(added._replace(first=position, last=min(added.last, batch.first - 1)))
            position = batch.first
        if batch.first > added.last:
            result.append(batch)
            continue
        if batch.first < added.first:
            result.append(batch._replace(last=added.first - 1))
        first, last = max(batch.first, added.first), min(batch.last, added.last)
        winner = max(batch, added, key=_weight)
        result.append(winner._replace(first=first, last=last))
        position = last + 1
        if batch.last > added.last:
            result.append(batch._replace(first=added.last + 1))
    if position <= added.last:
        result.append(added._replace(first=position))
    return result


def _weight(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state
