"""The windows as a small table of text.

Rules: plain Python over the rows of `window_stage_latency`; milliseconds, requests a second of the time that a window
covers. That is all of it but for the first window of a mode, which begins with its first request, and the last one,
which ends with its last: timelines may have been on for a part of them only. A window without a Produce request has no
row; without any row there is no table.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

WINDOWS_SHOWN_MAX: Final = 8
_TOTAL: Final = "Total"
_P99_OF: Final = {
    "queue": "RequestQueue",
    "local": "Local",
    "commit": "CommitWait",
    "order": "ResponseOrderWait",
    "send": "ResponseSend",
}
"""Heads of columns, and the stages whose 99th percentile stands there."""
_FORMAT: Final = "{:<10}{:<11}{:>9}{:>10}{:>10}{:>9}{:>9}{:>9}" + "{:>9}" * len(_P99_OF) + "{:>7}"
_BACK_AND_CLEAR: Final = "\x1b[{}F\x1b[J"
"""To the beginning of the line so many lines above, and clear what is below (ECMA-48: CPL and ED)."""
HEAD: Final = (
    _FORMAT.format("", "", "", "", "", "Total", "Total", "Total", *["p99"] * len(_P99_OF), ""),
    _FORMAT.format("window", "mode", "seconds", "requests", "per s", "p50 ms", "p99 ms", "p99.9 ms", *_P99_OF, "lost"),
)


class WindowTable:
    """The windows that were seen last.

    Args:
        windows_max: how many are kept.
    """

    def __init__(self, windows_max: int = WINDOWS_SHOWN_MAX) -> None:
        self._windows_max = windows_max
        self._windows: dict[tuple[datetime, str], dict[str, Mapping[str, Any]]] = {}
        self._first: dict[str, datetime] = {}  # of all windows of a mode, also of those that are not kept

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put windows in the place of what there was of them."""
        for row in rows:
            start, mode = row["window_start"], row["mode"]
            self._windows.setdefault((start, mode), {})[row["stage"]] = row
            self._first[mode] = min(start, self._first.get(mode, start))
        for key in sorted(self._windows)[: -self._windows_max]:
            del self._windows[key]

    def __len__(self) -> int:
        """How many windows are kept."""
        return len(self._windows)

    def lines(self) -> list[str]:
        """The table, the oldest window first."""
        last = {mode: start for start, mode in sorted(self._windows)}
        return [
            *HEAD,
            *(
                _line(start, mode, self._windows[start, mode], self._covered_s(start, mode, last))
                for start, mode in sorted(self._windows)
            ),
        ]

    def _covered_s(self, start: datetime, mode: str, last: Mapping[str, datetime]) -> float:
        """How many seconds of a window there are requests of."""
        total = self._windows[start, mode][_TOTAL]
        began = total["first_received"] if start == self._first[mode] else start
        ended = total["last_received"] if start == last[mode] else total["window_end"]
        return float((ended - began).total_seconds())


class ShownTable:
    """A table that is renewed where it stands on a terminal, and written once, at the end, elsewhere.

    Args:
        output: where it is written.
    """

    def __init__(self, output: IO[str]) -> None:
        self._table = WindowTable()
        self._output = output
        self._shown_lines = 0

    @property
    def has_windows(self) -> bool:
        """Whether there is anything in it."""
        return len(self._table) > 0

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put windows in the place of what there was of them, and show all."""
        self._table.update(rows)
        if self._output.isatty() and self.has_windows:
            self._show()

    def end(self) -> None:
        """There are no more."""
        if not self._output.isatty() and self.has_windows:
            self._show()

    def _show(self) -> None:
        lines = self._table.lines()
        back = _BACK_AND_CLEAR.format(self._shown_lines) if self._shown_lines else ""
        self._output.write(back + "".join(f"{line}\n" for line in lines))
        self._output.flush()
        self._shown_lines = len(lines)


def _line(start: datetime, mode: str, stages: Mapping[str, Mapping[str, Any]], covered_s: float) -> str:
    total = stages[_TOTAL]
    return _FORMAT.format(
        f"{start:%H:%M:%S}",
        mode,
        f"{covered_s:.1f}",
        f"{total['requests']:,}",
        f"{total['requests'] / covered_s:,.0f}" if covered_s > 0 else "-",
        *(_milliseconds(total[name]) for name in ("p50_us", "p99_us", "p999_us")),
        *(_milliseconds(stages[stage]["p99_us"]) for stage in _P99_OF.values()),
        f"{total['lost']:,}",
    )


def _milliseconds(value_us: float | None) -> str:
    return "-" if value_us is None else f"{value_us / 1000:.2f}"
