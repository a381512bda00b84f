"""The coordinator of classic groups and of their committed offsets.

Rules of this room: see `state/outcome.py`. A request that cannot be answered at once is parked under the caller's token,
and its answer comes out of whichever call makes it possible. The caller

    * appends the records of every `Write` in the outcome, in order, and calls `durable` (or `failed`) with it after;
    * calls `advance` when `next_deadline_ms` has come;
    * after a restart calls `replay` for every durable record in order, then `loaded`.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pipeline_broker.state.classic_groups import joining, membership, rebalancing
from pipeline_broker.state.classic_groups.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.classic_groups.commits import CommitRequest, CommitResult, OffsetDesk
from pipeline_broker.state.classic_groups.joining import StaticMemberStored
from pipeline_broker.state.classic_groups.membership import AssignmentStored
from pipeline_broker.state.classic_groups.messages import (
    DescribedGroup,
    DescribedMember,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    LeftMember,
    ListedGroup,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.classic_groups.turn import Timer, TimerKind, Turn
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.group_records import CommittedOffset, GroupKey, OffsetKey, group_from_value
from pipeline_broker.state.group_records import group_tombstone, offset_from_value, read_key
from pipeline_broker.state.offsets import OffsetChange
from pipeline_broker.state.outcome import Outcome, Write
from pipeline_broker.wire.error import ErrorCode

__all__ = ["GroupCoordinator"]


@attrs.frozen(eq=False)
class GroupDeleted:
    """A group and its offsets: gone once their tombstones are durable."""

    group: ClassicGroup
    offsets: OffsetChange


class GroupCoordinator:
    """All classic groups of a broker."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self._groups: dict[str, ClassicGroup] = {}
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._desk = OffsetDesk(settings)
