"""A bounded log on standard error, because clients can cause any number of messages.

In each interval, a call site writes at most LINES_MAX messages, and a failure writes FAILURES_MAX. Omitted messages are
counted, and a summary line reports their number. A failure has a traceback, or a PLACE such as a partition. The call
site of a traceback includes the type of the exception and the line that raised it, that of a PLACE includes the place.
Nothing that a client sends creates another call site.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from pipeline_broker.telemetry.log_lines import Line, text_line

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PLACE", "BoundedHandler", "BoundedLog"]

LINES_MAX = 100
"""Messages of one call site in INTERVAL_SECONDS (60 s); further ones are counted."""
FAILURES_MAX = 1
"""Tracebacks of one failure, or messages about one place, written in INTERVAL_SECONDS."""
PLACE = "place"
"""Attribute of a log record: the part of the broker that failed."""
INTERVAL_SECONDS = 60.0
CALL_SITES_MAX = 1_000
"""Call sites with counts; beyond that, the oldest count is summarised early."""
CHARS_MAX = 2_000
"""Characters of one log message; a longer one is truncated."""
TRACEBACK_CHARS_MAX = 20_000
"""Characters of one traceback, whose last line may quote a client; the middle of a longer one is omitted."""
# Control characters and line separators, so that a name from a client cannot forge a line.
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}

CallSite: TypeAlias = tuple[Any, ...]


class _Count:
    __slots__ = ("began", "last", "omitted", "passed")

    def __init__(self, began: float) -> None:
        self.began = began
        self.passed = self.omitted = 0
        self.last: logging.LogRecord | None = None

    def omit(self, record: logging.LogRecord) -> None:
        self.omitted += 1
        text = record.getMessage()[:CHARS_MAX]
        if record.exc_info and record.exc_info[0] is not None:
            text += f": {record.exc_info[0].__name__}"
        # Keep a copy without the traceback, which would keep its request alive.
        self.last = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, None, None)

    def summary(self) -> list[logging.LogRecord]:
        if self.last is None:
            return []
        lines = "line" if self.omitted == 1 else "lines"
        message = f"the log omitted {self.omitted} similar {lines} within {INTERVAL_SECONDS:.0f} s: {self.last.msg}"
        self.last.msg = message
        return [self.last]


class BoundedLog:
    """A filter that bounds the log records of each call site, and summarises the omitted ones."""

    def __init__(self) -> None:
        self._counts: OrderedDict[CallSite, _Count] = OrderedDict()  # oldest first

    def admit(self, record: logging.LogRecord, now: float) -> list[logging.LogRecord]:
        """Return the records to write now: summaries of past intervals, and `record` itself if it is within the bound.

        Args:
            record: the message to log.
            now: seconds on a monotonic clock.
        """
        summaries = list(self._end(now - INTERVAL_SECONDS))
        site = _call_site(record)
        count = self._counts.get(site)
        if count is None:
            if len(self._counts) >= CALL_SITES_MAX:
                summaries += self._counts.popitem(last=False)[1].summary()
            count = self._counts[site] = _Count(now)
        if count.passed >= (FAILURES_MAX if record.exc_info or hasattr(record, PLACE) else LINES_MAX):
            count.omit(record)
            return summaries
        count.passed += 1
        return [*summaries, record]

    def summaries(self) -> list[logging.LogRecord]:
        """End all intervals, and return the summaries of the omitted messages; call it at the end."""
        return list(self._end(float("inf")))

    def _end(self, began_max: float) -> Iterator[logging.LogRecord]:
        # The oldest count is first, so the loop ends at the first count of the current interval.
        while self._counts and next(iter(self._counts.values())).began <= began_max:
            yield from self._counts.popitem(last=False)[1].summary()


def _call_site(record: logging.LogRecord) -> CallSite:
    site: CallSite = (record.pathname, record.lineno, getattr(record, PLACE, None))
    if not record.exc_info:
        return site
    kind, _, traceback = record.exc_info
    return (*site, kind, *_raised_at(traceback))


def _raised_at(traceback: TracebackType | None) -> CallSite:
    if traceback is None:
        return ()
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


class BoundedHandler(logging.StreamHandler[TextIO]):
    """A logging handler that writes the records that a BoundedLog admits.

    Args:
        stream: the file to write to.
        clock: returns monotonic seconds.
        line: makes the line of a record.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, line: Line = text_line) -> None:
        super().__init__(stream)
        self._clock = clock
        self._line = line
        self._log = BoundedLog()

    def emit(self, record: logging.LogRecord) -> None:
        for admitted in self._log.admit(record, self._clock()):
            super().emit(admitted)

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().translate(_CONTROLS)
        if len(message) > CHARS_MAX:
            message = f"{message[:CHARS_MAX]}... ({len(message)} characters)"
        traceback = _cut_middle(logging.Formatter().formatException(record.exc_info)) if record.exc_info else None
        return self._line(record, message, traceback)

    def close(self) -> None:
        """Write the outstanding summaries; `logging` calls it when Python exits."""
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
