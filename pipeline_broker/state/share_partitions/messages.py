"""Arguments and results of a share partition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.base.error_code import KafkaError
from pipeline_broker.state.share_partitions.record_state import RecordState

__all__ = [
    "AcknowledgeError",
    "AcknowledgementBatch",
    "AcquireLimits",
    "AcquireMode",
    "Acquired",
    "FetchedBatch",
    "StateBatch",
    "StateChange",
    "Undelivered",
]


class AcknowledgeError(KafkaError):
    pass


class AcquireMode(IntEnum):
    """Meaning of a fetch's record limit (KIP-1206): up to the end of a batch of the log, or exact."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class FetchedBatch(NamedTuple):
    """The offsets of a batch from the log. Markers and aborted batches are not visible to the group."""

    first: int
    last: int
    is_visible: bool = True


@attrs.frozen(kw_only=True)
class AcquireLimits:
    """The limits of one acquisition.

    Attributes:
        records_max: maximum number of records.
        batch_size: minimum number of records of each span but the last; spans end where batches of the log end.
        mode: meaning of `records_max`.
    """

    records_max: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class Acquired(NamedTuple):
    """Records that a member has acquired, and their delivery count including this time."""

    first: int
    last: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """An acknowledgement of neighbouring records, with one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    """Neighbouring records with the same state, as `__share_group_state` stores them."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class Undelivered(NamedTuple):
    """Neighbouring records that were archived because no member accepts them, and Kafka's message of the reason."""

    first: int
    last: int
    delivery_count: int
    reason: str


@attrs.frozen
class StateChange:
    """A change that must become durable.

    Attributes:
        start_offset: records below it are complete.
        batches: the changed records at or after the start offset.
        delivery_complete_count: number of complete records after the start offset.
        undelivered: records for the dead-letter queue of the group.
    """

    start_offset: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int
    undelivered: tuple[Undelivered, ...] = ()
