"""The windows as a text table, in milliseconds and requests per second.

The rate is over the time that a window covers. The first window of a mode starts with its first request, and its last
window ends with its last request: timelines may have been on for only part of them. Windows without a Produce request
have no row.
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
"""Column heads, and the stages whose 99th percentile they show."""
_FORMAT: Final = "{:<10}{:<11}{:>9}{:>10}{:>10}{:>9}{:>9}{:>9}" + "{:>9}" * len(_P99_OF) + "{:>7}"
_BACK_AND_CLEAR: Final = "\x1b[{}F\x1b[J"
"""Move to the start of a line above and clear the screen below it (ECMA-48: CPL and ED)."""
HEAD: Final = (
    _FORMAT.format("", "", "", "", "", "Total", "Total", "Total", *["p99"] * len(_P99_OF), ""),
    _FORMAT.format("window", "mode", "seconds", "requests", "per s", "p50 ms", "p99 ms", "p99.9 ms", *_P99_OF, "lost"),
)


class WindowTable:
    """The latest windows.

    Args:
        windows_max: the number of windows to keep.
    """

    def __init__(self, windows_max: int = WINDOWS_SHOWN_MAX) -> None:
        self._windows_max = windows_max
        self._windows: dict[tuple[datetime, str], dict[str, Mapping[str, Any]]] = {}
        self._first: dict[str, datetime] = {}  # by mode, including windows that are no longer kept

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            start, mode = row["window_start"], row["mode"]
            self._windows.setdefault((start, mode), {})[row["stage"]] = row
            self._first[mode] = min(start, self._first.get(mode, start))
        for key in sorted(self._windows)[: -self._windows_max]:
            del self._windows[key]

    def __len__(self) -> int:
        return len(self._windows)

    def lines(self) -> list[str]:
        last = {mode: start for start, mode in sorted(self._windows)}
        return [
            *HEAD,
            *(
                _line(start, mode, self._windows[start, mode], self._covered_s(start, mode, last))
                for start, mode in sorted(self._windows)
            ),
        ]

    def _covered_s(self, start: datetime, mode: str, last: Mapping[str, datetime]) -> float:
        total = self._windows[start, mode][_TOTAL]
        began = total["first_received"] if start == self._first[mode] else start
        ended = total["last_received"] if start == last[mode] else total["window_end"]
        return float((ended - began).total_seconds())


class ShownTable:
    """A table that is updated in place on a terminal, and written once at the end otherwise.

    Args:
        output: the terminal or file.
    """

    def __init__(self, output: IO[str]) -> None:
        self._table = WindowTable()
        self._output = output
        self._shown_lines = 0

    @property
    def has_windows(self) -> bool:
        return len(self._table) > 0

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._table.update(rows)
        if self._output.isatty() and self.has_windows:
            self._show()

    def end(self) -> None:
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
