"""An exact number of events, and rows about all of them or about every n-th.

Rules of this file: on the event loop an event costs a count and at most one row. A drain takes about ROWS_WANTED rows:
when more events came since the last one, the next interval keeps every n-th only, and each row stands for as many
events as came per row. So what happens rarely is measured exactly beside what happens fifty thousand times a second,
and a count never depends on the sample.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["ROWS_MAX", "ROWS_WANTED", "Row", "SampledRows"]

ROWS_WANTED = 64
"""Rows that one drain should find: sixty a second, of which those of about a minute count in a histogram: four times
the 1028 values of Kafka's. Each costs the event loop as much as a quarter of a small request."""
ROWS_MAX = 1024
"""Rows that may wait for a drain: the bound of what one takes from the event loop."""

Row: TypeAlias = tuple[Any, ...]


class SampledRows:
    """See the rules of the file.

    Attributes:
        until_row: events until one has a row, that one included; whoever counts an event makes it less by one, and
            calls `add` when that makes it 0.
        rows: waiting for a drain.
        skipped: events without a row, so far.
    """

    __slots__ = ("_counted", "_drained", "_stride", "rows", "skipped", "until_row")

    def __init__(self) -> None:
        self.until_row = 1
        self.skipped = 0
        self.rows: list[Row] = []
        self._counted = 1  # when `until_row` is 0, exactly so many events came
        self._drained = 0
        self._stride = 1

    @property
    def count(self) -> int:
        """Events so far, exactly."""
        return self._counted - self.until_row

    def _row_in(self, events: int) -> None:
        """The next row is that of the event after so many; the count stays what it is."""
        self._counted += events - self.until_row
        self.until_row = events

    def add(self, row: Row) -> None:
        """Keep the row of an event whose turn it is, and which is counted already."""
        self._row_in(self._stride)
        if len(self.rows) < ROWS_MAX:
            self.rows.append(row)

    def take(self) -> tuple[list[Row], float]:
        """The rows since the last call, and how many events each of them stands for."""
        rows, self.rows = self.rows, []
        if not rows:
            self._row_in(1)  # whatever came since is told by the next row
            return rows, 0.0
        count = self.count
        came, self._drained = count - self._drained, count
        self._stride = max(1, came // ROWS_WANTED)
        self._row_in(min(self.until_row, self._stride))
        self.skipped += came - len(rows)
        return rows, came / len(rows)
