"""The trace of a broker as files: a ring of rows for each table, and one thread that drains the rings.

The event loop packs each row into a preallocated ring, and the thread writes whole rows. If a ring is full or the disk
fails, rows are lost and counted. `traces` defines the tables.
"""

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from pipeline_broker.base import owner_only
from pipeline_broker.traces.broker_tables import APPENDS, COMMITS, MUTES, QUEUES, REQUESTS, STORE
from pipeline_broker.traces.request_rows import RequestRows
from pipeline_broker.traces.ring_file import Table
from pipeline_broker.traces.row_ring import RowRing
from stages.request import Request

__all__ = ["TraceFiles"]

DRAIN_SECONDS = 0.02
QUEUE_SAMPLE_NS = 1_000_000
"""Minimum interval between two samples of one queue's depth."""
ROWS_MAX = {
    "requests": 1 << 15,
    "appends": 1 << 15,
    "commits": 1 << 13,
    "mutes": 1 << 15,
    "queues": 1 << 13,
    "store": 1 << 12,
}
"""Capacity of each ring: half a second at 65,000 requests per second, 25 times DRAIN_SECONDS."""
# A reader loads a whole file, and several in parallel.
RING_FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size after which a table continues in another file."""
STRINGS_MAX = 1 << 16
"""Maximum number of distinct strings; rows with further ones are lost."""


class TracedLog(Protocol):
    topic: str
    partition: int


class TracedEntry(Protocol):
    log: TracedLog
    base_offset: int
    last_offset: int


class TracedSubmission(Protocol):
    """Entries that were submitted together; `request` is None for the broker's own records."""

    entries: Sequence[TracedEntry]
    request: Request | None


class TracedCommit(Protocol):
    number: int
    submissions: Sequence[TracedSubmission]
    entries: Sequence[TracedEntry]
    size_bytes: int
    started_ns: int
    written_ns: int
    durable_ns: int
    completed_ns: int
    is_on_loop: bool


class TracedStoreRequest(Protocol):
    @property
    def operation(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def requests(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def began_ns(self) -> int: ...
    @property
    def ended_ns(self) -> int: ...


class _File:
    """A file of whole pieces. If a piece cannot be written completely, the part that was written is removed."""

    def __init__(self, path: Path, first: bytes) -> None:
        self._descriptor = owner_only.opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._size = 0
        self.write(first)

    def write(self, piece: bytes) -> None:
        """Append `piece`; raises OSError and leaves the file unchanged if it cannot be written."""
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # A reader must never find a torn row, so remove the part that was written.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
                os.lseek(self._descriptor, self._size, os.SEEK_SET)
            raise
        self._size += len(piece)

    @property
    def size_bytes(self) -> int:
        return self._size

    def close(self) -> None:
        os.close(self._descriptor)


@attrs.define(eq=False)
class _Recording:
    table: Table
    ring: RowRing
    directory: Path
    file: _File
    bytes_max: int
    files: int = 1
    unwritten: int = 0

    @classmethod
    def begin(cls, directory: Path, table: Table, rows_max: int, bytes_max: int) -> "_Recording":
        for earlier in directory.glob(f"{table.name}-*.ring"):
            earlier.unlink()
        file = _File(directory / f"{table.name}.ring", table.header())
        return cls(table, RowRing(table.layout, rows_max), directory, file, bytes_max)

    def write(self, rows: bytes) -> None:
        """Append rows to the file, or to the next file if it is full.

        Raises:
            OSError: the rows cannot be written; the files hold only whole rows.
        """
        if self.file.size_bytes >= self.bytes_max:
            next_file = _File(self.directory / f"{self.table.name}-{self.files}.ring", self.table.header())
            self.file.close()
            self.file = next_file
            self.files += 1
        self.file.write(rows)

    @property
    def lost(self) -> int:
        return self.ring.dropped + self.unwritten


class TraceFiles(RequestRows):
    """A `stages.timeline.Timeline` that writes the tables requests, appends, commits, mutes, queues and store.

    Args:
        directory: created if missing; trace files of an earlier run are overwritten.
        mute_reasons: names of the reasons that `mute_ended` receives.
        rows_max: capacity of each table's ring.
        drain_seconds: sleep of the thread between two drains.
        file_bytes_max: size after which a table continues in another file.

    Raises:
        OSError: the directory cannot be written.
    """

    samples_queues = True

    def __init__(
        self,
        directory: Path,
        mute_reasons: Mapping[int, str],
        *,
        rows_max: Mapping[str, int] = ROWS_MAX,
        drain_seconds: float = DRAIN_SECONDS,
        file_bytes_max: int = RING_FILE_BYTES_MAX,
    ) -> None:
        owner_only.make_directories(directory)
        self._lost_path = directory / "lost.json"
        self._lost_path.unlink(missing_ok=True)
        self._strings_file = _File(directory / "strings.jsonl", b"")
        mutes = attrs.evolve(MUTES, enums={"reason": mute_reasons})
        self._recordings = [
            _Recording.begin(directory, table, rows_max[table.name], file_bytes_max)
            for table in (REQUESTS, APPENDS, COMMITS, mutes, QUEUES, STORE)
        ]
        requests, self._appends, commits, mutes_ring, queues, self._store = (
            recording.ring for recording in self._recordings
        )
        super().__init__(requests)
        self._add_commit, self._add_mute, self._add_queue = commits.append, mutes_ring.append, queues.append
        self._store_lock, self._strings_lock = threading.Lock(), threading.Lock()
        self._indexes: dict[str, int] = {}
        self._strings: list[str] = []  # only appended to, so the thread can read it without the lock
        self._strings_written = 0
        self._sampled_ns: dict[int, int] = {}  # time of the last sample by queue
        self._failure: OSError | None = None
        self._drain_seconds = drain_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trace-files", daemon=True)
        self._thread.start()

    # On the event loop

    def commit_ended(self, commit: Any) -> None:
        ended: TracedCommit = commit
        number = ended.number
        self._add_commit(
            number,
            len(ended.entries),
            ended.size_bytes,
            ended.started_ns,
            ended.written_ns,
            ended.durable_ns,
            ended.completed_ns,
            ended.is_on_loop,
        )
        for submission in ended.submissions:
            request = submission.request
            if request is None:
                continue  # the broker's own records belong to no request
            for entry in submission.entries:
                log = entry.log
                topic = self._intern(log.topic)
                if topic is None:
                    self._appends.dropped += 1
                    continue
                self._appends.append(
                    request.connection.index,
                    request.sequence,
                    number,
                    topic,
                    log.partition,
                    entry.base_offset,
                    entry.last_offset,
                )

    def _intern(self, text: str) -> int | None:
        index = self._indexes.get(text)
        if index is not None:
            return index
        with self._strings_lock:  # store threads add strings, too
            if text not in self._indexes and len(self._strings) < STRINGS_MAX:
                self._strings.append(text)
                self._indexes[text] = len(self._strings) - 1
            return self._indexes.get(text)

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        self._add_mute(connection_index, reason, began_ns, ended_ns)

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        if at_ns - self._sampled_ns.get(queue, -QUEUE_SAMPLE_NS) >= QUEUE_SAMPLE_NS:
            self._sampled_ns[queue] = at_ns
            self._add_queue(queue, at_ns, depth)

    # In the threads of the store

    def store_request_ended(self, request: TracedStoreRequest) -> None:
        """Record a request to the object store; callable in any thread, without effect after `close`."""
        operation, outcome = self._intern(request.operation), self._intern(request.outcome)
        # Several threads write to this ring. The other rings have the event loop as their only writer.
        with self._store_lock:
            if self._closing.is_set() or operation is None or outcome is None:
                self._store.dropped += not self._closing.is_set()
                return
            self._store.append(
                operation,
                outcome,
                request.requests,
                request.sent_bytes,
                request.received_bytes,
                request.began_ns,
                request.ended_ns,
            )

    # In the thread

    def _run(self) -> None:
        while not self._closing.wait(self._drain_seconds):
            self._drain()

    def _drain(self) -> None:
        # Strings are written after the rows were taken and before the rows. So a file never refers to a missing
        # string, even if the broker is killed.
        taken = [recording.ring.take() for recording in self._recordings]
        self._write_strings()
        for recording, rows in zip(self._recordings, taken, strict=True):
            if not rows:
                continue
            # After the first failure all further rows count as lost.
            if self._failure is None:
                try:
                    recording.write(rows)
                    continue
                except OSError as error:
                    self._failure = error
            recording.unwritten += len(rows) // recording.ring.row_bytes

    def _write_strings(self) -> None:
        count = len(self._strings)
        if count == self._strings_written or self._failure is not None:
            return
        new = self._strings[self._strings_written : count]
        try:
            self._strings_file.write("".join(f"{json.dumps(text)}\n" for text in new).encode())
        except OSError as error:
            self._failure = error
        self._strings_written = count

    # Closing

    @property
    def lost(self) -> dict[str, int]:
        return {recording.table.name: recording.lost for recording in self._recordings}

    def close(self) -> None:
        """Write all rows and lost.json; call it after the last event. Further calls have no effect.

        Raises:
            OSError: some rows could not be written and are counted as lost, or lost.json cannot be written; the first
                failure.
        """
        if self._closing.is_set():
            return
        # With the lock, no store thread is between its check of `_closing` and its append.
        with self._store_lock:
            self._closing.set()
        self._thread.join()
        self._drain()
        for recording in self._recordings:
            recording.file.close()
        self._strings_file.close()
        try:
            with open(self._lost_path, "w", encoding="utf-8", opener=owner_only.opener) as file:
                file.write(json.dumps(self.lost) + "\n")
        except OSError as error:
            self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure
