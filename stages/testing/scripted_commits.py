"""Commits that run on the event loop and take the times of a script."""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from stages.commit_pace import CommitPace
from stages.testing.schedules import Schedule

if TYPE_CHECKING:
    from stages.committer import Commit, Committer

__all__ = ["AnyPace", "ScriptedCommits"]

CHECKS_PER_TURN = 3
"""The completion of commits stops at each third call of `should_yield`, to continue in a later turn."""


class AnyPace(CommitPace):
    """A pace that lets a group commit start at any time, so that a script decides how many are in flight."""

    def next_begin_ns(self, last_begin_ns: int) -> int:
        return last_begin_ns


class ScriptedCommits:
    """A `CommitExecutor` without threads, so that a mock clock sees every wait.

    A commit is written when it starts, like in the committer's threads, and becomes durable after the next delay. The
    committer learns of it in some later turn, so several commits in flight end in the order that the script decides.

    Args:
        delays: seconds that commits take, one after the other, repeated.
        schedule: records starts and ends of commits.
    """

    def __init__(self, delays: Iterable[float] = (0.0,), schedule: Schedule | None = None) -> None:
        self._delays = itertools.cycle(delays)
        self._schedule = schedule
        self._committer: Committer | None = None
        self._running = self._checks = 0
        self.ended_between_checks = 1
        self._is_stopped = False

    def start(self, committer: "Committer") -> None:
        self._committer = committer

    def wake(self, count: int = 1) -> None:  # noqa: ARG002 - takes all commits
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
        self.wake()  # like a thread, which takes the next commit before the event loop completes the last one
        await trio.lowlevel.checkpoint()
        committer.complete(commit)

    def should_yield(self) -> bool:
        self._checks += 1
        if self._checks % CHECKS_PER_TURN or self._is_stopped:
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
        """Stop; unfinished commits never end."""
        self._is_stopped = True
