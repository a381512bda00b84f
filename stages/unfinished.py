"""Requests that take more than one turn: their steps run here, one at a time, and others are served in between.

Rules of this room: one task for a whole pool of handlers, so that the loop pays for one step between two looks at the
network, however many connections ask for much. Unfinished requests take turns. A step is as long as the application
makes it; `stages.request.TURN_COST` is the bound that it counts against. Requests that came later on the same
connection are not started before the last step. At every yield all that the steps appended is submitted, so they may
be closed there: when the connection is closed, or the server ends.

Steps that raise are answered as `Application.failed` says; in those that yield what cannot be waited for, that is
raised.
"""

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

BREATH_SECONDS: Final = 0.0001
"""For how long the loop leaves Python's lock alone between two steps.

A thread that waits for the lock asks for it after 5 ms (`sys.getswitchinterval`) and begins anew whenever it was free
in between. Steps are shorter, and the loop has the lock again before a thread has woken, so no commit would end before
the last step.
"""

BREATHS_MAX: Final = 16
"""How many looks at the network follow a long step, at most; one for each TURN_SECONDS_MAX that it took.

What another client asks is passed on by several tasks, one in each look. It is not to wait for a long step at each.
"""


class _Work:
    """One unfinished request.

    Attributes:
        steps: what is left to do.
        outcome: what the next step gets, a value and an error; None while it waits for that.
        may_abandon: nothing is done for it elsewhere while it waits.
    """

    __slots__ = ("_continue", "may_abandon", "outcome", "request", "steps")

    def __init__(self, request: Request, steps: Steps, continue_: Callable[[_Work], None]) -> None:
        self.request = request
        self.steps = steps
        self.outcome: tuple[Any, Exception | None] | None = None
        self.may_abandon: bool  # said with what it waits for
        self._continue = continue_

    def go_on(self, value: Any = None, error: Exception | None = None) -> None:
        """Have the next step run, unless it is about to."""
        if self.outcome is None:
            self.outcome = value, error
            self._continue(self)

    def abandon(self) -> None:
        """The connection is closed: the steps need not wait until their turn comes."""
        if self.may_abandon:
            self.go_on()

    def close(self) -> None:
        """End the steps where they are."""
        try:
            self.steps.close()
        except Exception:
            logger.exception("the steps of %r did not end", self.request)


class UnfinishedRequests:
    """See the rules of the room.

    Args:
        committer: makes durable what steps wait for.
        run_blocking: runs work in a thread and calls back on the loop with what it returned, or its error.
        fail: turns what a step raised into the result of its slot.
        turns: takes note of steps that keep the loop for long.
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
        self._works: dict[_Work, None] = {}  # in their order
        self._ready: deque[_Work] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._has_ended = False

    def __len__(self) -> int:
        """How many requests are unfinished, also those that wait for a commit or a thread."""
        return len(self._works)

    def add(self, request: Request, unfinished: Unfinished, *, starts_commit: bool = True) -> None:
        """Go on with a request in later turns.

        Args:
            unfinished: what its handler returned.
            starts_commit: a commit begins now where the request waits for one; else the caller starts it.
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
        """Have the next step run when what it waits for is there."""
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
            work.go_on(error=TypeError(f"the steps yielded {first!r}, which cannot be waited for"))

    @staticmethod
    def _wait_for_others(work: _Work, waiting: Waiting) -> None:
        try:
            waiting.when_over(work.go_on)
        except Exception as error:  # noqa: BLE001 - see _step
            work.go_on(error=error)
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
        if work in self._works:
            self._ready.append(work)
            self._idle.unpark()

    async def run(self) -> None:
        """Run steps until cancelled."""
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
                del work  # while it waits, what the last one held is free
                long_turns = took / TURN_SECONDS_MAX
                for _ in range(1 + min(int(long_turns), BREATHS_MAX)):
                    time.sleep(BREATH_SECONDS)  # noqa: ASYNC251 - see there
                    await trio.lowlevel.checkpoint()
        finally:
            self._has_ended = True
            works, self._works = self._works, {}
            for work in works:
                work.close()

    def _step(self, work: _Work) -> None:
        request = work.request
        if request.connection.closed:  # nobody takes the answer
            work.close()
            self._end(work, Close("the connection is closed"))
            return
        assert work.outcome is not None, "it is ready"
        began_ns = now_ns()
        try:
            result = go_on(work.steps, *work.outcome)
        except Exception as problem:  # noqa: BLE001 - whatever it was, the slot must end
            result = self._fail(request, problem)
        request.decided_ns += now_ns() - began_ns  # local time, as what `handle` took
        if type(result) is Unfinished:
            self._wait(work, result)
            self._committer.start_commit()
        else:
            self._end(work, result)

    def _end(self, work: _Work, result: Result) -> None:
        """Give a request its result, then let the connection's next one start."""
        self._works.pop(work, None)
        connection = work.request.connection
        with suppress(SlotCompletedTwiceError):  # an application completed it itself: the first answer stands
            connection.complete(work.request, result)
        connection.end_work(work.abandon)
