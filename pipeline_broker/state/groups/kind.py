"""The interface between the group coordinator and each kind of group."""

from __future__ import annotations

from typing import Any, Protocol

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.outcome import Outcome, StateRecord

__all__ = ["DUE_AT_ONCE_MAX", "GroupKind"]

DUE_AT_ONCE_MAX = 100
"""Largest number of timers that expire in one turn, about 1 ms of work. The rest expire in the next turns."""


class GroupKind(Protocol):
    """All groups of one kind. Groups are passed as `Any` because each kind has its own class.

    Attributes:
        changes: the classes of `Write.change` that belong to this kind.
    """

    changes: tuple[type, ...]
    config: BrokerConfig

    def replay(self, change: Any) -> None:
        """Apply one durable record, decoded by `state/groups/records.py`.

        Raises:
            MisplacedRecordError: the record contradicts the records before it; nothing has changed.
        """

    def loaded(self, now_ms: int) -> Outcome:
        """Start the sessions of all members, after the last record was replayed."""

    def unload(self, now_ms: int) -> Outcome: ...

    def next_deadline_ms(self) -> int | None:
        """Return the latest time to call `advance`; None if no timer runs."""

    def advance(self, now_ms: int) -> Outcome:
        """Run expired timers, or some of them; the rest keep their deadlines."""

    def durable(self, change: Any, now_ms: int) -> Outcome: ...

    def failed(self, change: Any, error: ErrorCode, now_ms: int) -> Outcome:
        """Undo a change after its records could not be stored."""

    def committed(self, group: Any, member_id: str, now_ms: int) -> None:
        """Restart the session of a member whose commit was accepted."""

    def expire_member(self, group: Any, member_id: str, now_ms: int) -> Outcome: ...

    def force_rebalance(self, group: Any, now_ms: int) -> Outcome:
        """Start a rebalance although nothing has changed."""

    def delete(self, group: Any, now_ms: int) -> tuple[StateRecord, ...]: ...

    def deleted(self, group: Any) -> None: ...

    def not_deleted(self, group: Any, now_ms: int) -> None:
        """Restore a group after its tombstones could not be stored."""

    def topic_changed(self) -> None:
        """Note that a topic was created or deleted, or got more partitions."""
