"""What the coordinator asks of each kind of group.

Rules of this room: see `group.py` and `state/outcome.py`. A kind owns its groups' members, timers and records; what is
about groups of all kinds (their ids, their offsets, lists, deletion) is the coordinator's.
"""

from __future__ import annotations

from typing import Any, Protocol

from pipeline_broker.state.groups.settings import GroupSettings
from pipeline_broker.state.outcome import Outcome, StateRecord
from pipeline_broker.wire.error import ErrorCode

__all__ = ["DUE_AT_ONCE_MAX", "GroupKind"]

DUE_AT_ONCE_MAX = 100
"""Timers that go off in one turn, each a change of its own: about 1 ms; the others are due in the next ones."""


class GroupKind(Protocol):
    """All groups of one kind; groups are passed as `Any`, since each kind knows its own.

    Attributes:
        changes: the classes of `Write.change` that are this kind's.
    """

    changes: tuple[type, ...]
    settings: GroupSettings

    def replay(self, change: Any) -> None:
        """Take over one durable record as `state/groups/records.py` has read it.

        Raises:
            MisplacedRecordError: it cannot be; nothing has changed.
        """

    def loaded(self, now_ms: int) -> Outcome:
        """All records are replayed: sessions start now."""

    def unload(self, now_ms: int) -> Outcome:
        """The groups are gone: who waits is told to look for another coordinator."""

    def next_deadline_ms(self) -> int | None:
        """When `advance` must be called at the latest; None: not until something else happens."""

    def advance(self, now_ms: int) -> Outcome:
        """Do what is due, or some of it: the rest is due at once."""

    def durable(self, change: Any, now_ms: int) -> Outcome:
        """The records of a change are durable."""

    def failed(self, change: Any, error: ErrorCode, now_ms: int) -> Outcome:
        """The records of a change will never be durable."""

    def committed(self, group: Any, member_id: str, now_ms: int) -> None:
        """A commit of a member was accepted, so it lives."""

    def expire_member(self, group: Any, member_id: str, now_ms: int) -> Outcome:
        """Take out a member as if its session were over."""

    def force_rebalance(self, group: Any, now_ms: int) -> Outcome:
        """Have all members come to a new agreement, although nothing changed."""

    def delete(self, group: Any, now_ms: int) -> tuple[StateRecord, ...]:
        """Begin to delete an empty group; the records that do."""

    def deleted(self, group: Any) -> None:
        """That a group is deleted is durable."""

    def not_deleted(self, group: Any, now_ms: int) -> None:
        """That a group is deleted will never be durable."""

    def topic_changed(self) -> None:
        """A topic came, grew or went."""
