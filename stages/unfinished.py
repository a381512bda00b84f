"""Requests that take more than one turn: their steps run here, one at a time, and others are served in between.

Rules of this room: one task for a whole pool of handlers, so that the loop pays for one step between two looks at the
network, however many connections ask for much. Unfinished requests take turns. A step is as long as the application
makes it; `stages.request.TURN_COST` is the bound that it counts against. Requests that came later on the same
connection are not started before the last step. At every yield all that the steps appended is submitted, so they may
be closed there: when the connection is closed, or the server ends.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from stages.committer import Committer, Submission
from stages.request import Close, Pending, Request, Result, Unfinished, go_on
from stages.response_order import SlotCompletedTwiceError
from stages.timeline import now_ns

if TYPE_CHECKING:
    from stages.request import Steps

__all__ = ["UnfinishedRequests"]


class UnfinishedRequests:
    """See the rules of the room.

    Args:
        committer: makes durable what steps wait for.
        run_blocking: runs work in a thread and calls back on the loop with what it returned, or its error.
        fail: turns what a step raised into the result of its slot.
    """

    def __init__(
        self,
        committer: Committer,
        run_blocking: Callable[[Callable[[], Any], Callable[[Any, Exception | None], None]], None],
        fail: Callable[[Request, Exception], Result],
    ) -> None:
        self._committer = committer
        self._run_blocking = run_blocking
        self._fail = fail
        self._ready: deque[tuple[Request, Steps, Any, Exception | None]] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._count = 0

    def __len__(self) -> int:
        """How many requests are unfinished, also those that wait for a commit or a thread."""
        return self._count

    def add(self, request: Request, unfinished: Unfinished, *, starts_commit: bool = True) -> None:
        """Go on with a request in later turns.

        Args:
            request: its slot.
            unfinished: what its handler returned.
            starts_commit: a commit begins now where the request waits for one; else the caller starts it.
        """
        self._count += 1
        request.connection.begin_work()
        self._wait(request, unfinished)
        if starts_commit:
            self._committer.start_commit()

    def _wait(self, request: Request, unfinished: Unfinished) -> None:
        """Have the next step run when what it waits for is there."""
        steps, first = unfinished.steps, unfinished.first
        if first is None:
            self._continue(request, steps)
        elif type(first) is Pending:

            def end(_: Submission, error: BaseException | None) -> None:
                if error is None:
                    self._continue(request, steps)
                else:
                    steps.close()
                    self._end(request, Close(f"not durable: {error}"))

            self._committer.submit(Submission(first.entries, on_durable=first.on_durable, on_ended=end))
        else:
            assert first.work is not None, "steps wait for work"  # type: ignore[union-attr]  # told by the types above
            self._run_blocking(first.work, functools.partial(self._continue, request, steps))  # type: ignore[union-attr]  # see above

    def _continue(self, request: Request, steps: Steps, value: Any = None, error: Exception | None = None) -> None:
        self._ready.append((request, steps, value, error))
        self._idle.unpark()

    async def run(self) -> None:
        """Run steps until cancelled."""
        try:
            while True:
                while not self._ready:
                    await self._idle.park()
                self._step(*self._ready.popleft())
                await trio.lowlevel.checkpoint()
        finally:
            for _, steps, _, _ in self._ready:
                steps.close()

    def _step(self, request: Request, steps: Steps, value: Any, error: Exception | None) -> None:
        if request.connection.closed:  # nobody takes the answer
            steps.close()
            self._end(request, Close("the connection is closed"))
            return
        began_ns = now_ns()
        try:
            result = go_on(steps, value, error)
        except Exception as problem:  # noqa: BLE001 - whatever it was, the slot must end
            result = self._fail(request, problem)
        request.callback_ns += now_ns() - began_ns  # local time, as what `handle` took
        if type(result) is Unfinished:
            self._wait(request, result)
            self._committer.start_commit()
        else:
            self._end(request, result)

    def _end(self, request: Request, result: Result) -> None:
        """Give a request its result, then let the connection's next one start."""
        self._count -= 1
        connection = request.connection
        with suppress(SlotCompletedTwiceError):  # an application completed it itself: the first answer stands
            connection.complete(request, result)
        connection.end_work()
