"""Views that take long, in turns: how much there is of what they show, clients decide.

Rules of this file: on Trio, a few lines; the views themselves know nothing of it. A view in steps yields after each how
many things it has looked at, and returns what is shown. What others change between two of its steps it must expect.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio

__all__ = ["in_turns"]

_Shown = TypeVar("_Shown")

LOOKED_AT_PER_TURN = 256
"""Things of which one takes some microseconds: a turn is a millisecond at most, unless a single step is longer."""


async def in_turns(steps: Generator[int, None, _Shown]) -> _Shown:
    """What the steps come to; others have their turns in between."""
    looked_at = 0
    while True:
        try:
            looked_at += next(steps)
        except StopIteration as ended:
            shown: _Shown = ended.value
            return shown
        if looked_at >= LOOKED_AT_PER_TURN:
            looked_at = 0
            await trio.lowlevel.checkpoint()
