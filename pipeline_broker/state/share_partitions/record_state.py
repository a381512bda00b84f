"""Delivery states of a record in a share group, and their transitions.

Transitions that the diagram lacks are invalid:

    Available ──acquire──> Acquired ──accept──────────────────────> Acknowledged
        ^                    │  ^ └───renew (a longer lock)
        │                    │  └──────┘
        └──release, time-out─┤
                             └──reject, gap, too many deliveries──> Archived <── (aborted, or deleted from the log)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["AFTER", "TERMINAL", "AcknowledgeType", "RecordState"]


class RecordState(IntEnum):
    """Delivery states, with the numbers that Kafka writes to `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4  # 3 is Kafka's Archiving, which this broker never writes


class AcknowledgeType(IntEnum):
    """A member's acknowledgement of an acquired record; GAP is for an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


TERMINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""Final states."""
AFTER: Mapping[tuple[RecordState, AcknowledgeType], RecordState] = {
    (RecordState.ACQUIRED, AcknowledgeType.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, AcknowledgeType.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, AcknowledgeType.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, AcknowledgeType.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, AcknowledgeType.RENEW): RecordState.ACQUIRED,
}
"""(state, acknowledgement) -> next state. Other pairs are invalid: only acquired records can be acknowledged."""
