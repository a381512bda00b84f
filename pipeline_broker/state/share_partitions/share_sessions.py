"""Share sessions: a member of a share group names its partitions once, and afterwards only changes.

The epoch of a request selects its kind:

    epoch  0   opens a session with the named partitions; closes the member's previous one
    epoch -1   closes the session
    epoch  n   n-th request of a session: names added and forgotten partitions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from pipeline_broker.base.error_code import ErrorCode, KafkaError
from pipeline_broker.state.fetch_sessions import PARTITIONS_MAX, next_epoch

__all__ = ["EPOCH_FINAL", "EPOCH_INITIAL", "ShareSession", "ShareSessionError", "ShareSessions", "TopicIdPartition"]

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
TopicIdPartition: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""


class ShareSessionError(KafkaError):
    pass


@attrs.define(eq=False)
class ShareSession:
    """The session of one member.

    Attributes:
        connection: the connection that opened the session, and with which the session ends.
        epoch: epoch of the next request.
        partitions: its partitions; True if the next response lists the partition in any case.
    """

    group_id: str
    member_id: str
    connection: object
    epoch: int = 1
    partitions: dict[TopicIdPartition, bool] = attrs.Factory(dict)

    def must_list(self, partition: TopicIdPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response lists a partition, and remember an error for the next response.

        A partition with an error is listed once more after the error is over, so that the member learns it.
        """
        if partition not in self.partitions:
            return True
        was_marked = self.partitions[partition]
        self.partitions[partition] = has_error
        return was_marked or has_records or has_error


class ShareSessions:
    """The share sessions of all groups: at most one for each member.

    Args:
        sessions_max: maximum number of sessions.
        partitions_max: maximum number of partitions of all sessions together.

    Attributes:
        partitions: number of partitions of all sessions.
    """

    def __init__(self, sessions_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self.partitions_max = partitions_max
        self.partitions = 0
        self._sessions_max = sessions_max
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_members(self, group_id: str) -> bool:
        return group_id in self._members

    def open(
        self, group_id: str, member_id: str, connection: object, partitions: Iterable[TopicIdPartition]
    ) -> ShareSession:
        """Open a session and close the member's previous one.

        Raises:
            ShareSessionError: the limit of sessions or partitions is reached (SHARE_SESSION_LIMIT_REACHED). The
                previous session is closed nevertheless.
        """
        # First, so that a member can replace its own session at the limit.
        self.remove(group_id, member_id)
        listed = dict.fromkeys(partitions, True)
        if len(self._sessions) >= self._sessions_max:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._add_partitions(len(listed))
        session = ShareSession(group_id, member_id, connection, partitions=listed)
        self._sessions[group_id, member_id] = session
        self._members[group_id] = self._members.get(group_id, 0) + 1
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession:
        """Return the session of a member.

        Raises:
            ShareSessionError: the member has no session (SHARE_SESSION_NOT_FOUND).
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def proceed(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        added: Iterable[TopicIdPartition] = (),
        forgotten: Iterable[TopicIdPartition] = (),
    ) -> ShareSession:
        """Apply the next request of a session.

        Raises:
            ShareSessionError: the session is unknown (SHARE_SESSION_NOT_FOUND), the epoch is not the next one
                (INVALID_SHARE_SESSION_EPOCH), or too many partitions are added (SHARE_SESSION_LIMIT_REACHED).
        """
        session = self.find(group_id, member_id)
        if epoch != session.epoch:
            raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        new = dict.fromkeys((partition for partition in added if partition not in session.partitions), True)
        self._add_partitions(len(new))
        session.partitions.update(new)
        for partition in forgotten:
            if session.partitions.pop(partition, None) is not None:
                self.partitions -= 1
        session.epoch = next_epoch(epoch)
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self.partitions -= len(session.partitions)
            self._members[group_id] -= 1
            if not self._members[group_id]:
                del self._members[group_id]
        return session

    def _add_partitions(self, count: int) -> None:
        if self.partitions + count > self.partitions_max:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.partitions += count

    def of_connection(self, connection: object) -> list[ShareSession]:
        return [session for session in self._sessions.values() if session.connection is connection]

    def listed(self) -> Mapping[tuple[str, str], ShareSession]:
        return self._sessions
