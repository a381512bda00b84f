"""Notices that one connection alone commits, a few requests at a time, on a disk that is fast.

Rules of this file: it looks at commits that ended and knows nothing else. Such a commit may run on the event loop:
there is no other to share it with, and to hand it to a thread and back takes longer than the disk does. As soon as a
second connection commits this is wrong: on the loop each would pay for a sync of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stages.committer import Commit

__all__ = ["LoneConnection"]

COMMITS_MIN = 16
"""So many commits in a row make a connection a lone one."""
REQUESTS_MAX = 8
"""A commit of more is worth a thread: meanwhile the loop decides what else of the connection arrives."""
FAST_COMMIT_NS = 300_000
"""A commit that takes longer keeps the loop for too long, and makes the hand-over cheap beside it."""


class LoneConnection:
    """See the rules of the file."""

    def __init__(self) -> None:
        self._connection_id: object = None
        self._commits = 0

    def commit_ended(self, commit: Commit) -> None:
        """Take note of a commit, whether it ended well or not."""
        connection_id = _only_connection(commit)
        is_fast = commit.error is None and commit.durable_ns - commit.started_ns < FAST_COMMIT_NS
        if is_fast and connection_id is not None and connection_id == self._connection_id:
            self._commits += 1
        else:
            self._connection_id, self._commits = connection_id, 0

    @property
    def is_there(self) -> bool:
        """Whether the next commit is likely to be of that connection alone, too."""
        return self._commits >= COMMITS_MIN


def _only_connection(commit: Commit) -> object:
    """The id of the connection that all requests of a commit, which are few, came by; else None."""
    submissions = commit.submissions
    if len(submissions) > REQUESTS_MAX:
        return None
    ids = {None if one.request is None else one.request.connection.id for one in submissions}
    return ids.pop() if len(ids) == 1 else None
