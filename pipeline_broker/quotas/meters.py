"""The meters of one kind of quota: one for each client that is measured now.

Rules of this file: sans-IO, time passed in. Clients choose their ids, so what is kept is bounded: a meter that says
what a new one would say is dropped when the next is made, and of too many the one that was not used for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from pipeline_broker.quotas.limits import Limit, Measured

__all__ = ["METERS_MAX", "Meter", "Meters"]

METERS_MAX = 10_000
"""Clients of one kind of quota that are measured at once; a meter takes about 2 KB when all its windows are in use."""
NAME_BYTES_MAX = 8 << 20
"""Of the users and client ids of one kind, each of up to 32 KB, in characters."""


class Meter(Protocol):
    """What is measured of one client."""

    def is_idle(self, now_ms: int) -> bool:
        """Whether a new one would say the same."""


AMeter = TypeVar("AMeter", bound=Meter)


class Meters(Generic[AMeter]):
    """Meters by what they measure, the one not used for longest first."""

    def __init__(self, make: Callable[[], AMeter], count_max: int = METERS_MAX) -> None:
        self._make = make
        self._count_max = count_max
        self._meters: dict[Measured, AMeter] = {}
        self._name_bytes = 0

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, limit: Limit, now_ms: int) -> AMeter:
        """The meter of a client."""
        meters = self._meters
        meter = meters.pop(limit.measured, None)
        if meter is None:
            self.forget_idle(now_ms)
            self._name_bytes += _size(limit.measured)
            while meters and (len(meters) >= self._count_max or self._name_bytes > NAME_BYTES_MAX):
                self._forget(next(iter(meters)))
            meter = self._make()
        meters[limit.measured] = meter
        return meter

    def _forget(self, measured: Measured) -> None:
        del self._meters[measured]
        self._name_bytes -= _size(measured)

    def forget_idle(self, now_ms: int) -> None:
        """Drop what is idle, up to the first that is not."""
        meters = self._meters
        while meters:
            measured, meter = next(iter(meters.items()))
            if not meter.is_idle(now_ms):
                return
            self._forget(measured)

    def clear(self) -> None:
        """Drop all: there is no quota of this kind any more."""
        self._meters.clear()
        self._name_bytes = 0

    def items(self) -> Iterator[tuple[Measured, AMeter]]:
        """All that are kept."""
        return iter(tuple(self._meters.items()))


def _size(measured: Measured) -> int:
    return len(measured.user or "") + len(measured.client_id or "")
