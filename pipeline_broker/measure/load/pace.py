"""The pace of one connection: intended times of its requests, in a closed loop, an open loop, or with a think time."""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

NS_PER_S = 1_000_000_000
NEVER_NS = 1 << 62


class Pace(Protocol):
    """The times at which the requests of one connection are sent, in ns of the monotonic clock. They never decrease."""

    def take(self, now_ns: int, in_flight: int) -> list[int]:
        """Return the intended times of the requests to send now."""

    def answered(self, count: int, now_ns: int, latency_ns: int) -> None:
        """Record that `count` answers arrived, the last of them `latency_ns` after its request."""

    def next_ns(self, in_flight: int) -> int | None:
        """Return the time of the next request; None if it needs an answer first, or if no request is left."""

    def is_over(self, now_ns: int) -> bool: ...


class ClosedPace:
    """A closed loop: keeps a window of requests in flight, and sends a request after each answer.

    It sends no request whose answer would arrive after `stop_ns`, judged by the latest latency. The last answers
    therefore arrive close to the stop.

    Args:
        window: requests in flight.
        stop_ns: end of the run.
        think_ns: time between an answer and the next request; 0 sends it at once.
    """

    def __init__(self, window: int, stop_ns: int, think_ns: int = 0) -> None:
        self._window = window
        self._stop_ns = stop_ns
        self._think_ns = think_ns
        self._latency_ns = 0
        self._ready: deque[int] = deque([0] * window if think_ns else ())  # the ends of think times

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
        return self._ready[0] if self._ready and in_flight < self._window else None

    def is_over(self, now_ns: int) -> bool:
        return now_ns + self._latency_ns >= self._stop_ns


class OpenPace:
    """An open loop: sends at given times, regardless of answers. Only a full window holds requests back.

    A request that was held back keeps its intended time, so its latency includes the wait (no coordinated omission).

    Args:
        moments_ns: intended times, never decreasing; may be endless if `stop_ns` is given.
        window: maximum of requests in flight.
        stop_ns: intended times at or after it are ignored.
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
        pass

    def next_ns(self, in_flight: int) -> int | None:
        return self._next_ns if in_flight < self._window else None

    def is_over(self, _: int) -> bool:
        return self._next_ns is None  # a request that was held back is sent even after `stop_ns`

    def _advance(self) -> None:
        following = next(self._moments, None)
        self._next_ns = None if following is None or following >= self._stop_ns else following


def constant_moments(start_ns: int, rate_per_s: float, share: int, shares: int) -> Iterator[int]:
    """Yield intended times at equal intervals, without end.

    Args:
        start_ns: first intended time of share 0.
        rate_per_s: requests per second of all shares together.
        share: index of this connection.
        shares: number of connections, which take turns.
    """
    gap_ns = NS_PER_S / rate_per_s
    number = share
    while True:
        yield start_ns + round(number * gap_ns)
        number += shares


def poisson_moments(start_ns: int, rate_per_s: float, shares: int, randomness: random.Random) -> Iterator[int]:
    """Yield the intended times of a Poisson process, without end, as many independent clients produce them.

    Args:
        start_ns: start of the process.
        rate_per_s: requests per second of all shares together. Each share is a Poisson process with an equal part of
            it.
        shares: number of connections.
    """
    since_start_ns = 0.0  # not since the clock's origin: the rounding of a sum depends on its size
    mean_gap_ns = NS_PER_S * shares / rate_per_s
    while True:
        since_start_ns += randomness.expovariate(1.0) * mean_gap_ns
        yield start_ns + round(since_start_ns)
