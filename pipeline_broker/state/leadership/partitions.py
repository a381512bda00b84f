"""A partition at one broker: its role, which decides when it may be written and read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from pipeline_broker.state.leadership.records import NO_NODE, PartitionRecord

__all__ = ["ROLE_TRANSITIONS", "LocalPartition", "Role", "RoleEvent"]


class Role(enum.Enum):
    """The part of a broker in a partition.

    NONE: another broker leads it, or none. OPENING: its OPEN record is not durable yet. LOADING: a coordinator reads
    its records. LED: it is written and read. STOPPING: another leader is wanted; earlier commits become durable.
    HANDING: it was handed over.
    """

    NONE = enum.auto()
    OPENING = enum.auto()
    LOADING = enum.auto()
    LED = enum.auto()
    STOPPING = enum.auto()
    HANDING = enum.auto()


class RoleEvent(enum.Enum):
    """A fact that changes a role.

    LEADS: a record with a new epoch makes this broker the leader. LEADS_NOT: another broker leads. GIVE_UP:
    another leader is wanted. KEEP: no other leader is wanted any more. OPENED: the OPEN record is durable. LOADED: all
    records are read; for a partition without a coordinator at once. SETTLED: all own commits are durable.
    """

    LEADS = enum.auto()
    LEADS_NOT = enum.auto()
    GIVE_UP = enum.auto()
    KEEP = enum.auto()
    OPENED = enum.auto()
    LOADED = enum.auto()
    SETTLED = enum.auto()


ROLE_TRANSITIONS: Mapping[tuple[Role, RoleEvent], Role] = {
    **{(role, RoleEvent.LEADS): Role.OPENING for role in Role},
    **{(role, RoleEvent.LEADS_NOT): Role.NONE for role in Role},
    (Role.OPENING, RoleEvent.OPENED): Role.LOADING,
    (Role.LOADING, RoleEvent.LOADED): Role.LED,
    (Role.LED, RoleEvent.GIVE_UP): Role.STOPPING,
    (Role.STOPPING, RoleEvent.KEEP): Role.LED,
    # Only a record ends HANDING, because the hand-over may arrive at any time (C3).
    (Role.STOPPING, RoleEvent.SETTLED): Role.HANDING,
}
"""The next role. In all other cases the role stays."""


def _next(role: Role, event: RoleEvent) -> Role:
    return ROLE_TRANSITIONS.get((role, event), role)


class LocalPartition(NamedTuple):
    """A partition at one broker.

    Attributes:
        epoch: of the latest leadership of this broker; -1 before the first.
        handed: name of the object from which this leadership begins; empty without one.
        is_wanted_elsewhere: whether the applied metadata names another wanted leader.
    """

    role: Role = Role.NONE
    epoch: int = -1
    handed: str = ""
    is_wanted_elsewhere: bool = False

    def applied(self, record: PartitionRecord, node_id: int) -> LocalPartition:
        if record.leader != node_id:
            return self._replace(role=_next(self.role, RoleEvent.LEADS_NOT), is_wanted_elsewhere=False)
        is_wanted_elsewhere = record.wanted not in {NO_NODE, node_id}
        if record.epoch != self.epoch or self.role is Role.NONE:
            role = _next(self.role, RoleEvent.LEADS)
            return self._replace(
                role=role, epoch=record.epoch, handed=record.handed, is_wanted_elsewhere=is_wanted_elsewhere
            )
        role = _next(self.role, RoleEvent.GIVE_UP if is_wanted_elsewhere else RoleEvent.KEEP)
        return self._replace(role=role, is_wanted_elsewhere=is_wanted_elsewhere)

    def opened(self) -> LocalPartition:
        """Note that the OPEN record of the epoch is durable in the own journal."""
        return self._replace(role=_next(self.role, RoleEvent.OPENED))

    def loaded(self) -> LocalPartition:
        """Note that the records of a coordinator are read, or that none reads them."""
        role = _next(self.role, RoleEvent.LOADED)
        # The wish may have come while the records were read.
        return self._replace(role=_next(role, RoleEvent.GIVE_UP) if self.is_wanted_elsewhere else role)

    def settled(self) -> LocalPartition:
        """Note that all own commits are durable, so that the partition can be handed over."""
        return self._replace(role=_next(self.role, RoleEvent.SETTLED))

    @property
    def may_append(self) -> bool:
        """True if batches are accepted (C2). The process must also have joined (C1)."""
        return self.role is Role.LED

    @property
    def may_read(self) -> bool:
        """True if records are served. A hand-over ends this: the next leader may have newer records (C3)."""
        return self.role in {Role.LED, Role.STOPPING}
