"""What was not synced, and which part of it outlives a power cut.

Rules of this file: it does no I/O. A change is numbered in the order in which the disk saw it, data and names alike.
What survives is drawn from a seed: nothing, everything, a beginning of what happened, any subset of it, or sectors of
it. Sectors are those of the disk: their borders are multiples of their size in the file, wherever a write began.
"""

import random

import attrs

SECTOR_SIZES_BYTES = (512, 4096)
STYLES = ("nothing", "everything", "prefix", "subset", "torn")
SHARES_KEPT = (0.1, 0.5, 0.9)


@attrs.frozen(eq=False)
class DataChange:
    """A write that was not synced, or, without data, a truncation."""

    number: int
    position: int
    data: bytes | None

    @property
    def size_bytes(self) -> int:
        """How much is lost with it."""
        return 0 if self.data is None else len(self.data)

    def within(self, start: int, end: int) -> "DataChange":
        """The part of the write from one position of the file to another."""
        assert self.data is not None
        return DataChange(self.number, start, self.data[start - self.position : end - self.position])


@attrs.frozen
class Losses:
    """What was at risk when the power went, and what is left of it."""

    style: str
    bytes_at_risk: int
    names_at_risk: int
    bytes_kept: int
    names_kept: int


class Survival:
    """The dice of one power cut; the same questions in the same order get the same answers."""

    def __init__(self, seed: int | str, numbers: list[int], style: str | None = None) -> None:
        self._dice = random.Random(seed)
        self.style = style if style is not None else self._dice.choice(STYLES)
        assert self.style in STYLES
        self._sector_bytes = self._dice.choice(SECTOR_SIZES_BYTES)
        self._share = self._dice.choice(SHARES_KEPT)
        ordered = sorted(numbers)
        # of a prefix, the change that was under way when the power went is torn
        self._torn_number = self._dice.choice(ordered) if ordered else 0

    def keeps_name(self, number: int) -> bool:
        """Whether a change of names survives; it does as a whole or not at all."""
        if self.style in {"nothing", "everything"}:
            return self.style == "everything"
        if self.style == "prefix":
            return number < self._torn_number
        return self._dice.random() < self._share

    def parts_of(self, change: DataChange) -> list[DataChange]:
        """What survives of a write or a truncation."""
        torn = self.style == "torn" or (self.style == "prefix" and change.number == self._torn_number)
        if torn and change.data:
            return self._sectors_of(change)
        return [change] if self.keeps_name(change.number) else []

    def _sectors_of(self, change: DataChange) -> list[DataChange]:
        kept = []
        end = change.position + change.size_bytes
        start = change.position
        while start < end:
            border = min(end, start - start % self._sector_bytes + self._sector_bytes)
            if self._dice.random() < self._share:
                kept.append(change.within(start, border))
            start = border
        return kept
