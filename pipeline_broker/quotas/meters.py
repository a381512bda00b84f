"""A bounded cache of the meters of one kind of quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from pipeline_broker.quotas.limits import Limit, Measured

__all__ = ["METERS_MAX", "Meter", "Meters"]

METERS_MAX = 10_000
"""Clients measured for one kind of quota; each takes about 2 KB when all its windows are in use."""
# Memory of all users and client ids of one kind of quota. Clients choose them, up to 32 KB each.
NAME_BYTES_MAX = 8 << 20
"""Names of the clients measured for one kind of quota."""


class Meter(Protocol):
    def is_idle(self, now_ms: int) -> bool: ...


AMeter = TypeVar("AMeter", bound=Meter)


class Meters(Generic[AMeter]):
    """Meters by the users and client ids that they measure, least recently used first.

    Clients choose their ids, so the number of meters and the length of all names are bounded. A new meter replaces idle
    ones, which carry no information. If it would exceed a bound, it replaces the least recently used ones.
    """

    def __init__(self, make: Callable[[], AMeter], count_max: int = METERS_MAX) -> None:
        self._make = make
        self._count_max = count_max
        self._meters: dict[Measured, AMeter] = {}
        self._name_bytes = 0

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, limit: Limit, now_ms: int) -> AMeter:
        meters = self._meters
        meter = meters.pop(limit.measured, None)
        if meter is None:
            self.forget_idle(now_ms)
            self._name_bytes += _size(limit.measured)
            while meters and (len(meters) >= self._count_max or self._name_bytes > NAME_BYTES_MAX):
                self._forget(next(iter(meters)))
            meter = self._make()
        # Last in the order, as the most recently used one.
        meters[limit.measured] = meter
        return meter

    def _forget(self, measured: Measured) -> None:
        del self._meters[measured]
        self._name_bytes -= _size(measured)

    def forget_idle(self, now_ms: int) -> None:
        meters = self._meters
        while meters:
            measured, meter = next(iter(meters.items()))
            # Meters after the first busy one were used later, so most of them are busy too.
            if not meter.is_idle(now_ms):
                return
            self._forget(measured)

    def clear(self) -> None:
        """Drop all meters, after the last quota of this kind was removed."""
        self._meters.clear()
        self._name_bytes = 0

    def items(self) -> Iterator[tuple[Measured, AMeter]]:
        return iter(tuple(self._meters.items()))


def _size(measured: Measured) -> int:
    # Python stores up to four bytes for each character of a text with a single one beyond ASCII.
    return sum(len(text) * (1 if text.isascii() else 4) for text in (measured.user or "", measured.client_id or ""))
