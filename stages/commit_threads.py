"""The threads that run commits.

A thread that has finished a commit takes the next one itself, so the disk never waits for the event loop. Handing a
commit over between threads costs more than the commit itself, so hand-overs are batched and wake-ups are rare.
"""

from __future__ import annotations

import enum
import queue
import threading
from collections import deque
from contextlib import suppress
from typing import Final

import trio

from stages.committer import Commit, Committer
from stages.loop_turns import COMMIT, NOTED_TURN_SECONDS, LoopTurns
from stages.timeline import now_ns

__all__ = ["CommitThreads"]

HAND_OVER_MAX: Final = 8
"""Commits per request of a backlog that a thread hands over to the event loop together.

Handing over each one by itself takes 1.6 times the processor time and reaches 0.92 of the rate. Without a backlog each
commit is handed over at once, because its client would wait for the commits of others: at half of the storage's
capacity the 99th percentile was three times as long.
"""

COMPLETED_NS_MAX: Final = 3_000_000
"""Time after which the completion of commits ends its turn of the event loop; sending the responses is not included."""


ENDED_BETWEEN_CHECKS: Final = 8
"""Submissions completed between two readings of the clock; a reading for each takes 4 % of a loaded broker's time."""


class _State(enum.Enum):
    """Current activity of a thread, written by that thread only."""

    # The thread waits for a wake-up, or is about to.
    IDLE = enum.auto()
    # The thread will check for work and find everything submitted by now.
    LOOKING = enum.auto()
    # The thread waits until the next commit may start beside others, then checks for work.
    WAITING = enum.auto()
    # The thread checks for work now, or runs a commit and checks for work after it.
    COMMITTING = enum.auto()


class CommitThreads:
    """A `CommitExecutor` with threads of its own, created when they are needed.

    A commit that suits the event loop (`stages.commit_place`) runs there, as long as no thread runs one.

    Args:
        turns: records completions that block the event loop for long.
    """

    def __init__(self, turns: LoopTurns) -> None:
        self.ended_between_checks = ENDED_BETWEEN_CHECKS
        self._turns = turns
        self._threads: list[threading.Thread] = []
        # No wake-up is lost: a thread sets IDLE and then checks for work once more before it waits. The event loop
        # submits first and reads the states afterwards. So either the loop sees IDLE and wakes the thread, or that last
        # check finds the submission.
        self._states: list[_State] = []
        # A queue and `run_sync_soon` take 56 us for a round trip, `trio.to_thread` 80 us.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended: deque[Commit] = deque()
        self._is_loop_called = False
        self._is_left_to_loop = False  # a thread left the next commit to the event loop
        self._is_stopping = False
        self._is_completing = False
        self._completing_until_ns = 0
        self._committer: Committer | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self, committer: Committer) -> None:
        self._committer, self._token = committer, trio.lowlevel.current_trio_token()
        self._add_thread()

    def _add_thread(self) -> None:
        index = len(self._threads)
        thread = threading.Thread(
            target=self._run, args=(index, self._committer, self._token), name=f"committer-{index}", daemon=True
        )
        self._states.append(_State.LOOKING)
        self._threads.append(thread)
        thread.start()

    def _run(self, index: int, committer: Committer, token: trio.lowlevel.TrioToken) -> None:
        states, is_backlogged = self._states, False
        while True:
            states[index] = _State.COMMITTING
            # While the loop does not know of some finished commits, their clients wait for this thread. So it must not
            # wait for anything but a sync before it hands them over.
            has_unannounced = is_backlogged and self._has_unannounced
            commit = committer.begin_commit(may_wait=not has_unannounced)
            if commit is None:
                states[index] = _State.LOOKING
                if not self._hand_over(committer, token):
                    return
                states[index] = _State.IDLE
                commit = committer.begin_commit()
            if commit is not None:
                states[index] = _State.COMMITTING
                committer.end_commit(commit)
                if not has_unannounced:
                    is_backlogged = committer.is_backlogged
                # A stopping event loop takes no more commits, so the threads commit the rest.
                is_loops_turn = committer.place.suits_loop and not self._is_stopping
                states[index] = _State.LOOKING
                # Set before the hand-over: `_complete` must see it, and a commit that does not suit the loop after all
                # needs an idle thread to wake.
                if is_loops_turn:
                    states[index], self._is_left_to_loop = _State.IDLE, True
                self._ended.append(commit)
                is_enough = not is_backlogged or is_loops_turn or len(self._ended) >= HAND_OVER_MAX
                if is_enough and not self._hand_over(committer, token):
                    return
                if not is_loops_turn:
                    continue
            if not self._rest(index, committer):
                return

    def _rest(self, index: int, committer: Committer) -> bool:
        """Wait for a wake-up, or for the start of the next commit; return False if the thread should end."""
        states = self._states
        # One thread waits for the start of the next commit; the others sleep.
        seconds = None if _State.WAITING in states else committer.seconds_to_begin()
        if seconds is not None:
            states[index] = _State.WAITING
        elif self._is_stopping:
            self._wakeups.put(None)  # for the next thread: one that waits for a start time may have taken its wake-up
            return False
        with suppress(queue.Empty):
            self._wakeups.get(timeout=seconds)
        states[index] = _State.LOOKING
        return True

    @property
    def _has_unannounced(self) -> bool:
        return bool(self._ended) and not self._is_loop_called

    def _hand_over(self, committer: Committer, token: trio.lowlevel.TrioToken) -> bool:
        """Let the event loop complete the finished commits; return False if the loop has ended."""
        return not self._has_unannounced or self._call_loop(committer, token)

    def _call_loop(self, committer: Committer, token: trio.lowlevel.TrioToken) -> bool:
        """Schedule `_complete` on the event loop; return False if the loop has ended."""
        self._is_loop_called = True
        try:
            token.run_sync_soon(self._complete, committer)
        except trio.RunFinishedError:
            return False
        return True

    def _complete(self, committer: Committer) -> None:
        # Cleared first: a commit that ends from now on schedules another call, so that other tasks have their turns.
        self._is_loop_called = False
        self._complete_all(committer, [self._ended.popleft() for _ in range(len(self._ended))])
        if self._is_left_to_loop:
            self._is_left_to_loop = False
            committer.start_commit()

    def _complete_all(self, committer: Committer, commits: list[Commit]) -> None:
        began_ns = now_ns()
        self._completing_until_ns = began_ns + COMPLETED_NS_MAX
        self._is_completing = True
        committer.complete(*commits)
        self._is_completing = False
        seconds = (now_ns() - began_ns) / 1e9
        if seconds > NOTED_TURN_SECONDS:
            self._turns.note(COMMIT, seconds)

    def should_yield(self) -> bool:
        if now_ns() < self._completing_until_ns:
            return False
        assert self._token is not None
        assert self._committer is not None
        # The rest needs another call of the loop. After `RunFinishedError` none will come, so everything is completed
        # now.
        return self._is_loop_called or self._call_loop(self._committer, self._token)

    def _commit_on_loop(self, committer: Committer) -> bool:
        """Run commits on the event loop if they suit it, and return True if none is left for a thread."""
        # A completing commit may submit entries. Committing those here would overtake the rest of its completion.
        if not committer.place.suits_loop or self._is_completing:
            return False
        # A commit of a thread must complete first, or this one would complete before it.
        while not committer.is_in_flight and (commit := committer.commit_nowait()) is not None:
            self._complete_all(committer, [commit])
        return committer.is_idle

    def wake(self, count: int = 1) -> None:
        assert self._committer is not None
        if self._commit_on_loop(self._committer):
            return
        states, called = self._states, self._wakeups.qsize()
        asleep = states.count(_State.WAITING)
        is_called_early = self._committer.is_large
        # A wake-up too many costs a thread one check. One too few would lose a commit, so all counts are estimates in
        # that direction.
        missing = count - called - states.count(_State.LOOKING) - (0 if is_called_early else asleep)
        idle = states.count(_State.IDLE) - called + (asleep if is_called_early else 0)
        for _ in range(missing):
            if idle > 0:
                idle -= 1
                self._wakeups.put(None)
            elif len(states) < self._committer.commits_in_flight:
                self._add_thread()

    def stop(self) -> None:
        self._is_stopping = True
        self._wakeups.put(None)
        for thread in self._threads:
            thread.join()
