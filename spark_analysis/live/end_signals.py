"""The signals that end a job: Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal


class EndSignals:
    def __init__(self) -> None:
        self.is_set = False
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.receive()

    def receive(self) -> None:
        """Install the handlers, also over PySpark's: its handler of SIGINT raises in the middle of a call to Java."""
        for number in self._before:
            signal.signal(number, self._received)

    def _received(self, *_: object) -> None:
        self.is_set = True

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
