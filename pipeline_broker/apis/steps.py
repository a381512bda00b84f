"""Work in steps: what handlers of large requests do so that others have their turns.

Rules of this room: a handler whose work grows with its request, or with what the broker holds, is a generator. It
charges what it does by `Call.spend` and yields when that says so; `stages.unfinished` goes on with it after others had
their turns. Between two yields it is alone, as every handler is; at a yield the state of the broker may have
changed, and nothing may be appended that is not submitted: yield a `Pending` for that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from stages.request import Parked, Pending

__all__ = ["ELEMENT_COST", "Stepwise", "in_steps"]

Item = TypeVar("Item")
Made = TypeVar("Made")
Value = TypeVar("Value")

Stepwise = Generator["Pending | Parked | None", Any, Value]
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
