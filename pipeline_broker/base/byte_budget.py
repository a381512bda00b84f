"""A shared budget of bytes, divided among the holders that keep them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

__all__ = ["ByteBudget", "Kept", "OverBudgetError"]

HOLDER_FRACTION = 8
"""A holder gets at most `1 / HOLDER_FRACTION` of the budget."""


class OverBudgetError(Exception):
    """The holder has used up its share, or the budget is spent."""


class _Holder:
    __slots__ = ("kept", "key", "size_bytes")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.kept: dict[Kept, None] = {}  # oldest first
        self.size_bytes = 0


class Kept:
    """Bytes that a holder has charged to the budget."""

    __slots__ = ("_budget", "_drop", "_holder", "size_bytes")

    def __init__(self, budget: ByteBudget, holder: _Holder, drop: Callable[[], None]) -> None:
        self._budget, self._holder, self._drop = budget, holder, drop
        self.size_bytes = 0

    def resize(self, size_bytes: int) -> None:
        """Change the size; if the budget is spent, drop bytes of the largest holder.

        Raises:
            OverBudgetError: the holder's share does not suffice, or the largest holder has no other bytes. The old
                size stays charged.
        """
        self._budget._resize(self, self._holder, size_bytes)  # noqa: SLF001 - both classes are one concept

    def release(self) -> None:
        """Give the bytes back. A second call has no effect."""
        self._budget._release(self, self._holder)  # noqa: SLF001 - both classes are one concept

    def drop(self) -> None:
        self.release()
        self._drop()


class ByteBudget:
    """A budget that all edges of a broker (HTTP servers, caches) charge for the bytes they keep for clients.

    No combination of edges can exceed it. A holder, which is a connection or a principal, gets at most an eighth. When
    the budget is spent, the largest holder loses its oldest bytes, so a new holder is not rejected for the bytes of
    others.

    Args:
        bytes_max: maximum of all holders together.

    Attributes:
        size_bytes: charged bytes.
        dropped: number of charges that were dropped for others, since startup.
        freed_bytes: bytes that were given back, since startup.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = self.dropped = self.freed_bytes = 0
        self._holders: dict[Hashable, _Holder] = {}
        # Holders by the bit length of their size. This finds the largest in constant time, within a factor of two.
        self._by_magnitude: list[dict[_Holder, None]] = [{} for _ in range(bytes_max.bit_length() + 1)]

    @property
    def holder_bytes_max(self) -> int:
        return self.bytes_max // HOLDER_FRACTION

    def keep(self, holder: Hashable, size_bytes: int, drop: Callable[[], None]) -> Kept:
        """Charge `size_bytes` to a holder.

        Args:
            holder: a connection or a principal.
            size_bytes: at least 0; `Kept.resize` may change it later.
            drop: discards the bytes in favour of another holder. Any later charge may call it.

        Raises:
            OverBudgetError: the holder has used up its share, or `size_bytes` exceeds it.
        """
        owner = self._holders.get(holder) or _Holder(holder)
        kept = Kept(self, owner, drop)
        self._resize(kept, owner, size_bytes)
        return kept

    def _resize(self, kept: Kept, holder: _Holder, size_bytes: int) -> None:
        grown = size_bytes - kept.size_bytes
        if grown > 0:
            if holder.size_bytes + grown > self.holder_bytes_max:
                raise OverBudgetError(f"it would keep more than {self.holder_bytes_max} bytes")
            self._make_room(grown, kept)
        self._count(holder, grown)
        kept.size_bytes = size_bytes
        holder.kept[kept] = None
        self._holders[holder.key] = holder

    def _make_room(self, grown: int, kept: Kept) -> None:
        while self.size_bytes + grown > self.bytes_max:
            largest = next(holders for holders in reversed(self._by_magnitude) if holders)
            victim = next((each for each in next(iter(largest)).kept if each is not kept), None)
            if victim is None:  # the largest holder has no bytes other than those it is charging
                raise OverBudgetError("the memory for clients is used up")
            self.dropped += 1
            victim.drop()

    def _release(self, kept: Kept, holder: _Holder) -> None:
        # `self` stands for a missing entry: the bytes were given back already.
        if holder.kept.pop(kept, self) is self:
            return
        self._count(holder, -kept.size_bytes)
        kept.size_bytes = 0
        if not holder.kept:
            self._by_magnitude[holder.size_bytes.bit_length()].pop(holder, None)
            del self._holders[holder.key]

    def _count(self, holder: _Holder, grown: int) -> None:
        self._by_magnitude[holder.size_bytes.bit_length()].pop(holder, None)
        holder.size_bytes += grown
        self.size_bytes += grown
        self.freed_bytes -= min(grown, 0)
        self._by_magnitude[holder.size_bytes.bit_length()][holder] = None
