"""When requests are sent.

Rules of this file: no clock and no I/O, times are passed in (ns of the monotonic clock) and never run backwards. A
pace says how many requests are due now and for when each was meant; what is sent, and what came of it, it does not
know.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

NS_PER_S = 1_000_000_000
NEVER_NS = 1 << 62


class Pace(Protocol):
    """What decides when the requests of one connection are sent."""

    def take(self, now_ns: int, in_flight: int) -> list[int]:
        """The moments for which the requests that are to be sent now were meant."""

    def answered(self, count: int, now_ns: int, latency_ns: int) -> None:
        """So many answers came, the last of them after so long."""

    def next_ns(self, in_flight: int) -> int | None:
        """When time alone makes a request due; None when an answer must come first, or none is due any more."""

    def is_over(self, now_ns: int) -> bool:
        """Whether no more requests will be due."""


class ClosedPace:
    """Keeps a window of requests in flight: the next one is sent when an answer has come, or a while after it.

    It ends when an answer could no longer be expected in time, so that the last ones come about at the stop.

    Args:
        window: requests in flight.
        stop_ns: when the last answers are to be there.
        think_ns: how long after an answer the next request waits; 0 sends it at once.
    """

    def __init__(self, window: int, stop_ns: int, think_ns: int = 0) -> None:
        self._window = window
        self._stop_ns = stop_ns
        self._think_ns = think_ns
        self._latency_ns = 0
        self._ready: deque[int] = deque([0] * window if think_ns else ())

    def take(self, now_ns: int, in_flight: int) -> list[int]:
        if self.is_over(now_ns):
            return []
        if not self._think_ns:
            return [now_ns] * (self._window - in_flight)
        count = 0
        while self._ready and self._ready[0] <= now_ns:
            self._ready.popleft()
            count += 1
        return [now_ns] * count

    def answered(self, count: int, now_ns: int, latency_ns: int) -> None:
        self._latency_ns = latency_ns
        if self._think_ns:
            self._ready.extend([now_ns + self._think_ns] * count)

    def next_ns(self, in_flight: int) -> int | None:
        """See Pace; a place in the window waits for nothing but the think time."""
        return self._ready[0] if self._ready and in_flight < self._window else None

    def is_over(self, now_ns: int) -> bool:
        return now_ns + self._latency_ns >= self._stop_ns


class OpenPace:
    """Sends at given moments, whatever the answers do; only a full window holds requests back.

    A request that was held back was still meant for its moment, so that its latency counts the wait (no coordinated
    omission).

    Args:
        moments_ns: when requests are meant to be sent, never falling; it may be endless where `stop_ns` is given.
        window: requests in flight that are not exceeded.
        stop_ns: moments from then on are left out.
    """

    def __init__(self, moments_ns: Iterable[int], window: int, stop_ns: int = NEVER_NS) -> None:
        self._moments: Iterator[int] = iter(moments_ns)
        self._window = window
        self._stop_ns = stop_ns
        self._next_ns: int | None = 0
        self._advance()

    def take(self, now_ns: int, in_flight: int) -> list[int]:
        taken: list[int] = []
        room = self._window - in_flight
        while self._next_ns is not None and self._next_ns <= now_ns and len(taken) < room:
            taken.append(self._next_ns)
            self._advance()
        return taken

    def answered(self, count: int, now_ns: int, latency_ns: int) -> None:
        """See Pace: answers change nothing."""

    def next_ns(self, in_flight: int) -> int | None:
        return self._next_ns if in_flight < self._window else None

    def is_over(self, now_ns: int) -> bool:  # noqa: ARG002 - the protocol's: other paces look at it
        """See Pace; what was held back is still sent after its time."""
        return self._next_ns is None

    def _advance(self) -> None:
        following = next(self._moments, None)
        self._next_ns = None if following is None or following >= self._stop_ns else following


def constant_moments(start_ns: int, rate_per_s: float, share: int, shares: int) -> Iterator[int]:
    """Moments at equal distances, endless.

    Args:
        start_ns: when they begin.
        rate_per_s: of all shares together.
        share: which connection.
        shares: of how many; they take turns.
    """
    gap_ns = NS_PER_S / rate_per_s
    number = share
    while True:
        yield start_ns + round(number * gap_ns)
        number += shares


def poisson_moments(start_ns: int, rate_per_s: float, shares: int, randomness: random.Random) -> Iterator[int]:
    """Moments of a Poisson process, endless: the arrivals of many clients that know nothing of each other.

    Args:
        start_ns: when they begin.
        rate_per_s: of all shares together; each is a process of its own with its part of the rate, which together
            are one with the whole rate.
        shares: connections.
        randomness: drawn from.
    """
    moment = float(start_ns)
    mean_gap_ns = NS_PER_S * shares / rate_per_s
    while True:
        moment += randomness.expovariate(1.0) * mean_gap_ns
        yield round(moment)
