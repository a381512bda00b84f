"""Requests that take several turns: their steps run one at a time, and other requests are served in between."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio

from stages.committer import Committer, Submission
from stages.loop_turns import NOTED_TURN_SECONDS, LoopTurns
from stages.request import TURN_SECONDS_MAX, Close, Parked, Pending, Request, Result, Steps, Unfinished, Waiting, go_on
from stages.response_order import SlotCompletedTwiceError
from stages.timeline import now_ns

__all__ = ["UnfinishedRequests"]

logger = logging.getLogger(__name__)

LOCK_RELEASE_SECONDS: Final = 0.0001
"""Time for which the event loop releases Python's lock between two steps.

A waiting thread requests the lock after 5 ms (`sys.getswitchinterval`) and starts again whenever the lock was free in
between. Steps are shorter than that, and the loop has the lock again before a thread wakes up. So without this pause no
commit would end before the last step.
"""

PASSES_MAX: Final = 16
"""Maximum of passes of the event loop after a long step, one for each TURN_SECONDS_MAX that it took.

A request of another client passes through several tasks, one in each pass, and should not wait for a step in each.
"""


class _Work:
    """An unfinished request.

    Attributes:
        steps: the remaining work.
        outcome: value and error for the next step; None while the request waits for them.
        may_abandon: whether the request waits for a callback (`Waiting`), and not for a commit or a thread.
    """

    __slots__ = ("_continue", "may_abandon", "outcome", "request", "steps")

    def __init__(self, request: Request, steps: Steps, continue_: Callable[[_Work], None]) -> None:
        self.request = request
        self.steps = steps
        self.outcome: tuple[Any, Exception | None] | None = None
        self.may_abandon: bool  # set by `UnfinishedRequests._wait`
        self._continue = continue_

    def go_on(self, value: Any = None, error: Exception | None = None) -> None:
        if self.outcome is None:
            self.outcome = value, error
            self._continue(self)

    def abandon(self) -> None:
        """Schedule the end of the steps of a closed connection; does nothing unless `may_abandon`."""
        if self.may_abandon:
            self.go_on()

    def close(self) -> None:
        try:
            self.steps.close()
        except Exception:
            logger.exception("closing the steps of %r failed", self.request)


class UnfinishedRequests:
    """The unfinished requests of a handler pool, which take turns.

    One task runs the steps of all of them. So the event loop pays for one step between two checks of the network,
    however many connections send expensive requests. At every yield, everything that the steps have appended is
    submitted, so they can be closed there.

    Args:
        committer: commits the entries that steps wait for.
        run_blocking: runs work in a thread, and calls back on the event loop with its return value or its error.
        fail: converts an exception of the steps into the result of the slot.
        turns: records steps that block the event loop for long.
    """

    def __init__(
        self,
        committer: Committer,
        run_blocking: Callable[[Callable[[], Any], Callable[[Any, Exception | None], None]], None],
        fail: Callable[[Request, Exception], Result],
        turns: LoopTurns,
    ) -> None:
        self._turns = turns
        self._committer = committer
        self._run_blocking = run_blocking
        self._fail = fail
        self._works: dict[_Work, None] = {}  # a dict, because it is ordered
        self._ready: deque[_Work] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._has_ended = False

    def __len__(self) -> int:
        """Return the number of unfinished requests, including those that wait for a commit or a thread."""
        return len(self._works)

    def add(self, request: Request, unfinished: Unfinished, *, starts_commit: bool = True) -> None:
        """Continue a request in later turns; close its steps if the pool has ended.

        Args:
            unfinished: result of its handler.
            starts_commit: whether to start a commit now if the request waits for one; otherwise the caller does.
        """
        work = _Work(request, unfinished.steps, self._continue)
        if self._has_ended:
            work.close()
            return
        self._works[work] = None
        request.connection.begin_work(work.abandon)
        self._wait(work, unfinished)
        if starts_commit:
            self._committer.start_commit()

    def _wait(self, work: _Work, unfinished: Unfinished) -> None:
        work.steps, first = unfinished.steps, unfinished.first
        work.outcome, work.may_abandon = None, type(first) is Waiting
        if first is None:
            work.go_on()
        elif type(first) is Pending:
            self._commit(work, first)
        elif type(first) is Parked and first.work is not None:
            self._run_blocking(first.work, work.go_on)
        elif type(first) is Waiting:
            self._wait_for_others(work, first)
        else:
            work.go_on(error=TypeError(f"the steps yielded {first!r}: yield None, Pending, Parked(work) or Waiting"))

    @staticmethod
    def _wait_for_others(work: _Work, waiting: Waiting) -> None:
        try:
            waiting.when_over(work.go_on)
        except Exception as error:  # noqa: BLE001 - see _step
            work.go_on(error=error)
        # The connection may have closed before `may_abandon` was set.
        if work.request.connection.closed:
            work.abandon()

    def _commit(self, work: _Work, pending: Pending) -> None:
        def end(_: Submission, error: BaseException | None) -> None:
            if error is None:
                work.go_on()
            else:
                work.close()
                self._end(work, Close(f"not durable: {error}"))

        self._committer.submit(Submission(pending.entries, on_durable=pending.on_durable, on_ended=end))

    def _continue(self, work: _Work) -> None:
        # A request that has ended may still get the result of its commit or thread.
        if work in self._works:
            self._ready.append(work)
            self._idle.unpark()

    async def run(self) -> None:
        try:
            while True:
                while not self._ready:
                    await self._idle.park()
                began = trio.current_time()
                work = self._ready.popleft()
                self._step(work)
                took = trio.current_time() - began
                if took > NOTED_TURN_SECONDS:
                    self._turns.note(work.request.api, took)
                del work  # frees the memory of a finished request while this task waits
                long_turns = took / TURN_SECONDS_MAX
                for _ in range(1 + min(int(long_turns), PASSES_MAX)):
                    # Blocks the event loop on purpose: this is how it releases Python's lock.
                    time.sleep(LOCK_RELEASE_SECONDS)  # noqa: ASYNC251 - see LOCK_RELEASE_SECONDS
                    await trio.lowlevel.checkpoint()
        finally:
            self._has_ended = True
            works, self._works = self._works, {}
            for work in works:
                work.close()

    def _step(self, work: _Work) -> None:
        request = work.request
        if request.connection.closed:  # no client would receive the response
            work.close()
            self._end(work, Close("the connection is closed"))
            return
        assert work.outcome is not None, "scheduled steps have an outcome"
        began_ns = now_ns()
        try:
            result = go_on(work.steps, *work.outcome)
        except Exception as problem:  # noqa: BLE001 - the slot must end after any error
            result = self._fail(request, problem)
        request.decided_ns += now_ns() - began_ns  # counts as local time, like that of `handle`
        if type(result) is Unfinished:
            self._wait(work, result)
            self._committer.start_commit()
        else:
            self._end(work, result)

    def _end(self, work: _Work, result: Result) -> None:
        self._works.pop(work, None)
        connection = work.request.connection
        with suppress(SlotCompletedTwiceError):  # the application has completed it: the first result stands
            connection.complete(work.request, result)
        connection.end_work(work.abandon)
