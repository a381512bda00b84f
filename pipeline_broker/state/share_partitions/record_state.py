"""What may become of one record in a share group: the table, and nothing else.

    Available ──acquire──> Acquired ──accept──────────────────────> Acknowledged
        ^                    │  ^ └───renew (a longer lock)
        │                    │  └──────┘
        └──release, time-out─┤
                             └──reject, gap, too many deliveries──> Archived <── (aborted, or gone from the log)

Rules of this file: states have the numbers that Kafka writes in `__share_group_state`; a move that the table lacks is
refused. Archiving, Kafka's 3, is reserved there and never written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["AFTER", "TERMINAL", "AcknowledgeType", "RecordState"]


class RecordState(IntEnum):
    """Where a record is."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a member says of a record that it has acquired; a gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


TERMINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""States that a record does not leave."""
AFTER: Mapping[tuple[RecordState, AcknowledgeType], RecordState] = {
    (RecordState.ACQUIRED, AcknowledgeType.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, AcknowledgeType.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, AcknowledgeType.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, AcknowledgeType.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, AcknowledgeType.RENEW): RecordState.ACQUIRED,
}
"""State and what is said of it: the state afterwards. Only what is acquired can be acknowledged."""
