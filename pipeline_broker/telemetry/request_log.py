"""The request log: one line of JSON for each request, while somebody wants it.

Rules of this file: on the event loop a request is only put on a bounded queue; a thread decodes, hides and writes it. A
queue without room, and a disk that fails, cost lines, which are counted, and never a request. Nothing is opened and no
thread exists before the first line is wanted.

What is logged follows the level of Kafka's `kafka.request.logger`; see `broker_loggers`.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pipeline_broker import owner_only
from pipeline_broker.telemetry.request_log_lines import line_of
from stages.request import NOT_SET
from stages.timeline import Timeline, now_ns

if TYPE_CHECKING:
    from stages.request import Request

__all__ = ["RequestLog"]

REQUESTS_MAX = 4096
"""Requests that may wait to be written."""
BYTES_MAX = 32 * 1024 * 1024
"""Bytes of requests and responses that they may hold on to; one larger than that passes when none waits."""
LOOK_SECONDS = 1.0
"""Between looks whether the file was renamed."""
STOP_SECONDS_MAX = 5.0
"""How long what waits may take to be written when the log is closed."""

logger = logging.getLogger(__name__)


class RequestLog(Timeline):
    """A `stages.timeline.Timeline` of requests only.

    Args:
        path: the file; lines are appended.

    Attributes:
        is_on: whether requests get lines.
        written: lines so far.
        dropped: requests without one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_on = False
        self.written = 0
        self._waiting: queue.SimpleQueue[tuple[Request, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        # Two cursors that only grow, each with one writer: no lock is needed.
        self._put = self._put_bytes = 0
        self._taken = self._taken_bytes = 0
        self._refused = self._lost = 0
        self._is_failing = False

    @property
    def dropped(self) -> int:
        """Requests that should have a line and have none: no room, or the disk failed."""
        return self._refused + self._lost

    # On the event loop

    def request_ended(self, request: Any) -> None:
        self._add(request, request.sent_ns)

    def request_dropped(self, request: Any) -> None:
        self._add(request, now_ns())

    def _add(self, request: Request, ended_ns: int) -> None:
        if request.api == NOT_SET or request.connection.session is None:
            return  # not even its header could be read
        if not self.is_on or not request.dequeued_ns:
            return  # the log was switched on while it was on its way: its stamps are not complete
        size_bytes = request.size_bytes + request.response_bytes
        held_bytes = self._put_bytes - self._taken_bytes
        if self._put - self._taken >= REQUESTS_MAX or (held_bytes and held_bytes + size_bytes > BYTES_MAX):
            self._refused += 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="request-log", daemon=True)
            self._thread.start()
        self._put += 1
        self._put_bytes += size_bytes
        self._waiting.put((request, ended_ns))

    def close(self) -> None:
        """Write what waits, within a bound."""
        self.is_on = False
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(STOP_SECONDS_MAX)
            self._thread = None

    # In the thread

    def _write(self) -> None:
        file: IO[str] | None = None
        looked_at = 0.0
        while (entry := self._waiting.get()) is not None:
            request, ended_ns = entry
            now = time.monotonic()
            try:
                if file is not None and now > looked_at + LOOK_SECONDS:
                    looked_at = now
                    if not self._is_in_place(file):
                        file.close()
                        file = None
                if file is None:
                    file = open(self.path, "a", encoding="utf-8", opener=owner_only.opener)  # noqa: SIM115 - closed at the end of the thread
                file.write(self._line(request, ended_ns))
                if self._waiting.empty():
                    file.flush()
                self.written += 1
                self._is_failing = False
            except OSError as error:
                self._failed(f"cannot write {self.path}: {error.strerror or error}")
                _close(file)
                file = None
            except Exception as error:  # noqa: BLE001 - a request that cannot be shown costs its line and no other
                self._failed(f"request of API {request.api} version {request.version} cannot be shown: {error!r}")
            self._taken_bytes += request.size_bytes + request.response_bytes
            self._taken += 1
        _close(file)

    def _is_in_place(self, file: IO[str]) -> bool:
        """Whether the open file is still the one of this name: who rotates logs renames it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), Path(self.path).stat())
        except FileNotFoundError:
            return False

    @staticmethod
    def _line(request: Request, ended_ns: int) -> str:
        ended_at = time.time() - (now_ns() - ended_ns) / 1e9  # by the clock as it is now: a step of it moves what waits
        return json.dumps(line_of(request, ended_ns, ended_at), separators=(",", ":")) + "\n"

    def _failed(self, complaint: str) -> None:
        """Say so once, until a line gets through."""
        self._lost += 1
        if not self._is_failing:
            logger.warning("the request log loses lines: %s", complaint)
        self._is_failing = True


def _close(file: IO[str] | None) -> None:
    """Close the file; what it could not write is lost with it."""
    if file is not None:
        try:
            file.close()
        except OSError as error:
            logger.warning("the end of the request log is lost: %s", error)
