"""Administrative changes of share groups without members.

A change is one commit: the states of the share partitions first, then the group's own records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended, in_one_commit
from pipeline_broker.state.groups.share.messages import ShareGroupError
from pipeline_broker.state.outcome import Outcome
from stages.request import Result, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline_broker.broker.group_shard import GroupShard
    from pipeline_broker.state.groups.share.share_group import ShareGroup
    from pipeline_broker.state.outcome import StateRecord

__all__ = ["UNKNOWN_TEXT", "check_empty", "commit"]

UNKNOWN_TEXT = "This server does not host this topic-partition."


def check_empty(group: ShareGroup | None) -> None:
    """Raise ShareGroupError if the group has members. A missing group is accepted."""
    if group is not None and not group.is_empty:
        raise ShareGroupError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def commit(
    groups: GroupShard,
    group: ShareGroup,
    records: Sequence[StateRecord],
    appended: Appended,
    answer: Send,
    now_ms: int,
) -> Result:
    """Append the group's records, and return a result that sends `answer` once they are durable.

    Args:
        groups: coordinator of the group.
        appended: the states of the share partitions, committed before the records.
    """
    write = groups.coordinator.share.write(group, list(records))
    result = groups.answer_when_durable(Outcome(writes=[] if write is None else [write]), now_ms, answer)
    return in_one_commit(appended, result, answer)
