"""The request log: one line of JSON for each request, written in a thread.

The level of Kafka's `kafka.request.logger` switches it on and off (`broker_loggers`).
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

from pipeline_broker.base import owner_only
from pipeline_broker.telemetry.request_log_lines import line_of
from stages.request import NOT_SET
from stages.timeline import Timeline, now_ns

if TYPE_CHECKING:
    from stages.request import Request

__all__ = ["RequestLog"]

REQUESTS_MAX = 4096
"""Requests that wait for the request log."""
BYTES_MAX = 32 * 1024 * 1024
"""Size of the requests and responses that wait for the request log. A single larger one is accepted alone."""
RENAME_CHECK_SECONDS = 1.0  # interval of the check whether the file was renamed
CLOSE_SECONDS_MAX = 5.0  # time to write the waiting requests when the log closes

logger = logging.getLogger(__name__)


class RequestLog(Timeline):
    """A `stages.timeline.Timeline` that writes a line for each request.

    On the event loop a request is only put on a bounded queue. A thread decodes, censors and writes it. If the queue is
    full or the disk fails, lines are lost and counted, but no request is delayed. No file is opened and no thread is
    started before the first line.

    Args:
        path: the file to append to.

    Attributes:
        is_on: whether requests are logged.
        written: number of written lines.
        dropped: number of requests without a line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_on = False
        self.written = 0
        self._waiting: queue.SimpleQueue[tuple[Request, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        # The event loop writes the first two counters and the thread the others. Each has one writer and only grows, so
        # no lock is needed.
        self._put = self._put_bytes = 0
        self._taken = self._taken_bytes = 0
        self._refused = self._lost = 0
        self._is_failing = False

    @property
    def dropped(self) -> int:
        return self._refused + self._lost

    # On the event loop

    def request_ended(self, request: Any) -> None:
        self._add(request, request.sent_ns)

    def request_dropped(self, request: Any) -> None:
        self._add(request, now_ns())

    def _add(self, request: Request, ended_ns: int) -> None:
        if request.api == NOT_SET or request.connection.session is None:
            return  # the header could not be read
        if not self.is_on or not request.dequeued_ns:
            return  # the log was switched on after the request arrived, so its stamps are incomplete
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
        """Switch the log off, and write the waiting requests for at most CLOSE_SECONDS_MAX."""
        self.is_on = False
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS_MAX)
            self._thread = None

    # In the thread

    def _write(self) -> None:
        file: IO[str] | None = None
        checked_at = 0.0
        while (entry := self._waiting.get()) is not None:
            request, ended_ns = entry
            now = time.monotonic()
            try:
                if file is not None and now > checked_at + RENAME_CHECK_SECONDS:
                    checked_at = now
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
            except Exception as error:  # noqa: BLE001 - a request that cannot be formatted must not end the thread
                self._failed(f"cannot format a request of API key {request.api}, version {request.version}: {error!r}")
            self._taken_bytes += request.size_bytes + request.response_bytes
            self._taken += 1
        _close(file)

    def _is_in_place(self, file: IO[str]) -> bool:
        """Return whether the open file still has its name; tools that rotate logs rename it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), Path(self.path).stat())
        except FileNotFoundError:
            return False

    @staticmethod
    def _line(request: Request, ended_ns: int) -> str:
        # Uses the current wall clock, so a step of the clock shifts the times of waiting requests.
        ended_at = time.time() - (now_ns() - ended_ns) / 1e9
        return json.dumps(line_of(request, ended_ns, ended_at), separators=(",", ":")) + "\n"

    def _failed(self, reason: str) -> None:
        self._lost += 1
        if not self._is_failing:
            logger.warning("the request log lost a line, and may lose more: %s", reason)
        self._is_failing = True


def _close(file: IO[str] | None) -> None:
    if file is not None:
        try:
            file.close()
        except OSError as error:
            logger.warning("cannot write the last lines of the request log: %s", error)
