"""Work in steps: what handlers of large requests do so that others have their turns.

Rules of this room: a handler whose work grows with its request, or with what the broker holds, is a generator. It
charges what it does by `Call.spend` and yields when that says so; `stages.unfinished` goes on with it after others had
their turns. Between two yields it is alone, as every handler is; at a yield the state of the broker may have
changed, and nothing may be appended that is not submitted: yield a `Pending` for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from stages.request import Waiting

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.quotas.quotas import RequestQuota
    from pipeline_broker.state.waiting_line import WaitingLine
    from stages.request import Parked, Pending

__all__ = ["ELEMENT_COST", "Stepwise", "in_steps", "timed", "wait_for_place"]

Item = TypeVar("Item")
Made = TypeVar("Made")
Value = TypeVar("Value")

Stepwise = Generator["Pending | Parked | Waiting | None", Any, Value]
"""Work that yields as `stages.request.Unfinished` says, and returns a value."""

ELEMENT_COST = 10
"""What it costs to answer for one element of a request, where nothing else is known: about 10 microseconds."""


def in_steps(
    call: Call, items: Iterable[Item], make: Callable[[Item], Made], cost: int = ELEMENT_COST
) -> Stepwise[list[Made]]:
    """Make something of each item, while others have their turns.

    Args:
        call: what is charged.
        items: a sequence that nothing changes meanwhile.
        make: makes it; it must append nothing.
        cost: of making one, about microseconds.
    """
    made = []
    for item in items:
        made.append(make(item))
        if call.spend(cost):
            yield None
    return made


def wait_for_place(line: WaitingLine, call: Call) -> Stepwise[None]:
    """Go on when there is a place for the call; to be followed by `line.leave(call)`, also where this is closed."""
    if not line.enter(call):
        yield Waiting(functools.partial(line.wait, call))


def timed(steps: Stepwise[Value], quota: RequestQuota) -> Stepwise[Value]:
    """The same steps; what is done between them counts as no time of the client."""
    resume: Callable[[Any], Any] = steps.send
    argument: Any = None
    while True:
        try:
            first = resume(argument)
        except StopIteration as end:
            value: Value = end.value
            return value
        quota.pause()
        try:
            resume, argument = steps.send, (yield first)
        except GeneratorExit:
            steps.close()
            raise
        except Exception as error:  # noqa: BLE001 - it is raised in the steps
            resume, argument = steps.throw, error
        quota.resume()
