"""Commits run on the event loop, at the times of a script.

Rules of this room: no thread, so a mock clock sees every wait; a commit is written when it begins, as the committer's
threads do it, becomes durable after the next delay of the script, and is reported to the committer at some later turn
of the loop: with several in flight they end in an order that the script decides. What follows a commit has several
turns now and then, however little it is.
"""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from stages.commit_pace import CommitPace
from stages.testing.schedules import Schedule

if TYPE_CHECKING:
    from stages.committer import Commit, Committer

__all__ = ["AnyPace", "ScriptedCommits"]

LOOKS_OF_A_TURN = 3
"""What follows commits ends its turn at each third place where it could."""


class AnyPace(CommitPace):
    """A group commit may begin beside others at any time, so that a script decides how many are in flight."""

    def next_begin_ns(self, last_begin_ns: int) -> int:
        return last_begin_ns


class ScriptedCommits:
    """A CommitExecutor; see `stages.committer`.

    Args:
        delays: seconds that commits take, one after the other, over and over.
        schedule: takes note of what begins and ends, if given.
    """

    def __init__(self, delays: Iterable[float] = (0.0,), schedule: Schedule | None = None) -> None:
        self._delays = itertools.cycle(delays)
        self._schedule = schedule
        self._committer: Committer | None = None
        self._running = self._looks = 0
        self.ended_between_looks = 1
        self._is_stopped = False

    def start(self, committer: "Committer") -> None:
        self._committer = committer

    def wake(self, count: int = 1) -> None:  # noqa: ARG002 - it looks until there is nothing to take
        committer = self._committer
        assert committer is not None
        while not self._is_stopped and self._running < committer.commits_in_flight:
            commit = committer.begin_commit()
            if commit is None:
                return
            self._running += 1
            if self._schedule is not None:
                self._schedule.note("commit began", commit.number, len(commit.entries))
            trio.lowlevel.spawn_system_task(self._run, committer, commit)

    async def _run(self, committer: "Committer", commit: "Commit") -> None:
        await trio.sleep(next(self._delays))
        if self._is_stopped:
            return
        committer.end_commit(commit)
        if self._schedule is not None:
            self._schedule.note("commit ended", commit.number)
        self._running -= 1
        self.wake()  # as a thread does, which takes the next commit before the loop knows of the last
        await trio.lowlevel.checkpoint()
        committer.complete(commit)

    def leaves_rest(self) -> bool:
        """See CommitExecutor."""
        self._looks += 1
        if self._looks % LOOKS_OF_A_TURN or self._is_stopped:
            return False
        if self._schedule is not None:
            self._schedule.note("rest left")
        trio.lowlevel.spawn_system_task(self._complete_rest)
        return True

    async def _complete_rest(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_stopped and self._committer is not None:
            self._committer.complete()

    def stop(self) -> None:
        """See CommitExecutor; what did not end by now never does."""
        self._is_stopped = True
