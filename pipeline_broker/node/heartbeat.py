"""Signs of life of a broker to its supervisor: empty lines on standard output, from its event loop.

Silence is counted in checks of the supervisor. While the machine is suspended or the supervisor stands still, no check
runs, so that the supervisor kills no broker that stood still together with it.
"""

from __future__ import annotations

import os
import select
from typing import Final, Literal, TypeAlias

import trio

__all__ = ["BEAT_SECONDS", "HUNG_SECONDS", "SILENT_SECONDS", "Silence", "Verdict", "beat"]

BEAT_SECONDS: Final = 1.0
"""Time between two signs of life, and between two checks."""
SILENT_SECONDS = 5.0
"""A broker that is silent for this time counts as not ready."""
HUNG_SECONDS = 30.0
"""A broker that is silent for this time is killed and started again."""
STDOUT: Final = 1


Verdict: TypeAlias = Literal["silent", "hung"]


class Silence:
    def __init__(self) -> None:
        self.seconds = 0.0

    @property
    def is_long(self) -> bool:
        return self.seconds >= SILENT_SECONDS

    def count_check(self) -> Verdict | None:
        before, self.seconds = self.seconds, self.seconds + BEAT_SECONDS
        if before < HUNG_SECONDS <= self.seconds:
            return "hung"
        return "silent" if before < SILENT_SECONDS <= self.seconds else None


async def beat() -> None:
    while True:
        # A write to the full pipe of a supervisor that stands still would block the event loop.
        if select.select((), (STDOUT,), (), 0)[1]:
            try:
                os.write(STDOUT, b"\n")
            except BrokenPipeError:  # the supervisor has ended
                return
        await trio.sleep(BEAT_SECONDS)
