"""The broker's own messages on standard error, bounded, because clients cause many of them.

Rules of this file: of the messages of one place in the source at most LINES_MAX pass in a minute, and of the
tracebacks of one failure one; the others are counted, and a line says how many there were. A place is where the
message is logged and, with a traceback, the type of the exception and the line that raised it: what a client sends
makes no new ones. No message has a line break or more than CHARS_MAX characters, whatever names it quotes. The messages
themselves are not judged: what is logged, and at which level, stands where it happens.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["BoundedHandler", "BoundedLog"]

LINES_MAX = 100
"""Messages of one place in INTERVAL_SECONDS; beyond them they are counted."""
TRACEBACKS_MAX = 1
"""The same of one failure with a traceback."""
INTERVAL_SECONDS = 60.0
PLACES_MAX = 1_000
"""Places that are counted at a time; when there are more, the one that began first is summarised early."""
CHARS_MAX = 2_000
"""Of one message; what is longer is cut."""
TRACEBACK_CHARS_MAX = 20_000
"""Of one traceback, whose last line may quote what a client sent; the middle is left out."""
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}

Place: TypeAlias = tuple[Any, ...]


class _Count:
    """The messages of one place since it `began`.

    Only the text of the last one left out is kept: its traceback would keep the request that it is about.
    """

    __slots__ = ("began", "last", "left_out", "passed")

    def __init__(self, began: float) -> None:
        self.began = began
        self.passed = self.left_out = 0
        self.last: logging.LogRecord | None = None

    def leave_out(self, record: logging.LogRecord) -> None:
        """Count one that is not written."""
        self.left_out += 1
        text = record.getMessage()[:CHARS_MAX]
        if record.exc_info and record.exc_info[0] is not None:
            text += f": {record.exc_info[0].__name__}"
        self.last = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, None, None)

    def summary(self) -> list[logging.LogRecord]:
        """The line about what was left out, if anything was."""
        if self.last is None:
            return []
        told = f"{self.left_out} more like this were not logged within {INTERVAL_SECONDS:.0f} s: {self.last.msg}"
        self.last.msg = told
        return [self.last]


class BoundedLog:
    """Decides which records are written; see the rules of the file."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Place, _Count] = OrderedDict()  # in the order in which they began

    def admit(self, record: logging.LogRecord, now: float) -> list[logging.LogRecord]:
        """The records to write now: summaries that are due, and this one unless it is one too many.

        Args:
            record: what is logged.
            now: seconds on a clock that never goes back.
        """
        due = list(self._end(now - INTERVAL_SECONDS))
        place = _place_of(record)
        count = self._counts.get(place)
        if count is None:
            if len(self._counts) >= PLACES_MAX:
                due += self._counts.popitem(last=False)[1].summary()
            count = self._counts[place] = _Count(now)
        if count.passed >= (TRACEBACKS_MAX if record.exc_info else LINES_MAX):
            count.leave_out(record)
            return due
        count.passed += 1
        return [*due, record]

    def summaries(self) -> list[logging.LogRecord]:
        """What was left out and not summarised yet, at the end."""
        return list(self._end(float("inf")))

    def _end(self, began_max: float) -> Iterator[logging.LogRecord]:
        while self._counts and next(iter(self._counts.values())).began <= began_max:
            yield from self._counts.popitem(last=False)[1].summary()


def _place_of(record: logging.LogRecord) -> Place:
    place: Place = (record.pathname, record.lineno)
    if not record.exc_info:
        return place
    kind, _, traceback = record.exc_info
    return (*place, kind, *_raised_at(traceback))


def _raised_at(traceback: TracebackType | None) -> Place:
    if traceback is None:
        return ()
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes what a BoundedLog admits.

    Args:
        stream: to write to.
        clock: seconds; never goes back.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._log = BoundedLog()

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler, which holds its lock meanwhile."""
        for admitted in self._log.admit(record, self._clock()):
            super().emit(admitted)

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback, if any, both of bounded length."""
        formatter = self.formatter or logging.Formatter()
        record.message = record.getMessage()
        line = formatter.formatMessage(record).translate(_CONTROLS)
        if len(line) > CHARS_MAX:
            line = f"{line[:CHARS_MAX]}... ({len(line)} characters)"
        if not record.exc_info:
            return line
        return f"{line}\n{_cut_middle(formatter.formatException(record.exc_info))}"

    def close(self) -> None:
        """See logging.Handler; Python calls it at its end."""
        self.acquire()
        try:
            for summary in self._log.summaries():
                super().emit(summary)
        finally:
            self.release()
        super().close()


def _cut_middle(text: str) -> str:
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters)\n{text[-half:]}"
