"""What goes into a share partition and what comes out of it.

Rules of this file: it is data.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.wire.error import KafkaError

__all__ = [
    "AcknowledgeError",
    "AcknowledgementBatch",
    "AcquireLimits",
    "AcquireMode",
    "Acquired",
    "DeliveryRules",
    "FetchedBatch",
    "StateBatch",
    "StateChange",
]


class AcknowledgeError(KafkaError):
    """Records cannot be acknowledged so."""


class AcquireMode(IntEnum):
    """How the limit of a fetch counts (KIP-1206): up to the end of a batch of the log, or exactly."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


@attrs.frozen(kw_only=True)
class DeliveryRules:
    """The settings of a group that count for its partitions.

    Attributes:
        delivery_count_max: after so many deliveries a record that comes back is archived.
        record_locks_max: how many offsets the window in flight may span before nothing new is acquired.
        lock_duration_ms: how long a member has acquired records.
    """

    delivery_count_max: int = 5
    record_locks_max: int = 2000
    lock_duration_ms: int = 30_000

    @property
    def throttled_from(self) -> int:
        """From how many deliveries on a run is handed out in parts, so that one bad record is found."""
        return max(2, (self.delivery_count_max + 1) // 2)


class FetchedBatch(NamedTuple):
    """A batch that was read: its offsets, and whether the group may see it (not a marker, not aborted)."""

    first: int
    last: int
    is_visible: bool = True


@attrs.frozen(kw_only=True)
class AcquireLimits:
    """What a fetch wants of a partition.

    Attributes:
        records_max: how many records.
        batch_size: how many of them are told as one, at least, where batches of the log end there.
        mode: how `records_max` counts.
    """

    records_max: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class Acquired(NamedTuple):
    """Records that a member has now, and how often they have been delivered, this time included."""

    first: int
    last: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """What a member says of neighbouring records: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    """Neighbouring records as `__share_group_state` says it."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


@attrs.frozen
class StateChange:
    """What must become durable.

    Attributes:
        start_offset: everything in front of it is done with.
        batches: the records that changed, where they are not in front of the start.
        delivery_complete_count: how many behind the start are done with.
    """

    start_offset: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int
