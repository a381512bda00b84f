"""The threads that run commits.

Rules of this room: a thread takes the next commit itself as soon as it is done with one, so that the disk never waits
for the event loop; it hands ended commits to the loop by `run_sync_soon`; it owns nothing else. To hand something over
between threads costs more than to commit it, so a thread is woken only for what none will find that is awake, and the
loop is called once for all commits that ended since it last looked; where commits per request on fast storage have a
backlog, for some together, unless the next one would have to wait for anything but its sync.

A commit that suits the loop runs there, as long as no thread has one; a thread whose commit ended leaves it the next.
What follows a commit on the loop ends its turn after COMPLETED_NS_MAX.

Each thread says what it does, and each place has one writer. One that finds nothing says that it is idle and looks once
more before it waits: the loop, when it submits meanwhile, either sees an idle thread, and wakes it, or is seen by that
last look. A thread that finds something whose time has not come waits for that time, one for all. Threads are made when
they are needed: a fast disk never needs a second one for group commits.
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
"""Commits per request that a thread hands over at once, of a backlog, if it finds the next one each time.

A hand-over costs both threads more than the commit does that runs meanwhile: each by itself takes 1.6 times the
processor time, and has 0.92 of the rate. Without a backlog a client would wait for the commits of others: at half of
what the storage can do, the 99th percentile was three times as long.
"""

COMPLETED_NS_MAX: Final = 3_000_000
"""Others have a turn after so long; sending the answers comes on top, and a handler's turn may come before it."""


ENDED_BETWEEN_LOOKS: Final = 8
"""To look at the time after each submission takes 4 % of a loaded broker's."""


class _State(enum.Enum):
    """What a thread does."""

    IDLE = enum.auto()
    """It waits to be woken, or is about to."""
    LOOKING = enum.auto()
    """It has not yet begun to look, and will find what waits."""
    WAITING = enum.auto()
    """It waits until the next commit may begin beside others, and will look then."""
    COMMITTING = enum.auto()
    """It looks, or commits and looks again after that."""


class CommitThreads:
    """Runs the commits of one committer in threads of its own; see `stages.committer.CommitExecutor`.

    A private thread with `run_sync_soon` takes 56 us for a round trip where `trio.to_thread` takes 80.

    Args:
        turns: takes note of commits whose completion keeps the loop for long.
    """

    def __init__(self, turns: LoopTurns) -> None:
        self.ended_between_looks = ENDED_BETWEEN_LOOKS
        self._turns = turns
        self._threads: list[threading.Thread] = []
        self._states: list[_State] = []  # each written by its thread
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended: deque[Commit] = deque()
        self._is_loop_called = False
        self._is_left_to_loop = False  # a thread does not look for what is next
        self._is_stopping = False
        self._is_completing = False
        self._completing_until_ns = 0
        self._committer: Committer | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self, committer: Committer) -> None:
        """See CommitExecutor; inside `trio.run`."""
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
                is_loops_turn = committer.place.suits_loop and not self._is_stopping
                states[index] = _State.LOOKING
                if is_loops_turn:  # noted before the loop is called, which may find by then that it does not suit it
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
        """Wait to be woken, or for the time of the next commit; whether to look again."""
        states = self._states
        seconds = None if _State.WAITING in states else committer.seconds_to_begin()
        if seconds is not None:
            states[index] = _State.WAITING
        elif self._is_stopping:
            self._wakeups.put(None)  # for the next one: a thread that waits for a time takes any number of them
            return False
        with suppress(queue.Empty):
            self._wakeups.get(timeout=seconds)
        states[index] = _State.LOOKING
        return True

    @property
    def _has_unannounced(self) -> bool:
        """Whether there are ended commits that the loop was not called for."""
        return bool(self._ended) and not self._is_loop_called

    def _hand_over(self, committer: Committer, token: trio.lowlevel.TrioToken) -> bool:
        """Have the loop complete what ended; whether it is still there: else nothing waits for an answer."""
        return not self._has_unannounced or self._call_loop(committer, token)

    def _call_loop(self, committer: Committer, token: trio.lowlevel.TrioToken) -> bool:
        """Have the loop look at what there is to complete; whether it is still there."""
        self._is_loop_called = True
        try:
            token.run_sync_soon(self._complete, committer)
        except trio.RunFinishedError:
            return False
        return True

    def _complete(self, committer: Committer) -> None:
        """On the loop: what ends from here on calls it again, so that others have their turns."""
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

    def leaves_rest(self) -> bool:
        """See CommitExecutor."""
        if now_ns() < self._completing_until_ns:
            return False
        assert self._token is not None
        assert self._committer is not None
        return self._is_loop_called or self._call_loop(self._committer, self._token)

    def _commit_on_loop(self, committer: Committer) -> bool:
        """Whether nothing is left for a thread; what a completing commit submits must not overtake its rest."""
        if not committer.place.suits_loop or self._is_completing:
            return False
        while not committer.is_in_flight and (commit := committer.commit_nowait()) is not None:
            self._complete_all(committer, [commit])
        return committer.is_idle

    def wake(self, count: int = 1) -> None:
        """See CommitExecutor; a token too many costs a thread one look, one too few would lose a commit."""
        assert self._committer is not None
        if self._commit_on_loop(self._committer):
            return
        states, called = self._states, self._wakeups.qsize()
        asleep = states.count(_State.WAITING)
        is_called_early = self._committer.is_large
        missing = count - called - states.count(_State.LOOKING) - (0 if is_called_early else asleep)
        idle = states.count(_State.IDLE) - called + (asleep if is_called_early else 0)
        for _ in range(missing):
            if idle > 0:
                idle -= 1
                self._wakeups.put(None)
            elif len(states) < self._committer.commits_in_flight:
                self._add_thread()

    def stop(self) -> None:
        """Let the threads end when nothing is left to take, and wait for them."""
        self._is_stopping = True
        self._wakeups.put(None)
        for thread in self._threads:
            thread.join()
