"""The stamps of one request, the durations of its stages, and the ring that trace rows are packed into.

Rules of this room: it imports nothing of ours; a stamp is an int64 of nanoseconds of the machine's monotonic clock, so
that the stamps of a broker and of a client on the same machine can be compared; a full ring drops rows and counts them,
it never makes a request wait.

    received -> enqueued -> dequeued -> handled -> submitted -> durable -> completed -> released -> send started -> sent

| stage | formula | in Kafka |
|---|---|---|
| RequestQueue | dequeued - received | RequestQueueTimeMs |
| Local | handled - dequeued + time in callbacks | LocalTimeMs |
| Remote | completed - handled - time in callbacks | RemoteTimeMs |
| CommitWait, in Remote | durable - submitted | none |
| ResponseQueue | send started - completed | ResponseQueueTimeMs |
| ResponseOrderWait, in ResponseQueue | released - completed | none |
| ResponseSend | sent - send started | ResponseSendTimeMs |
| Total | sent - received | TotalTimeMs |
"""

import struct
import time
from typing import Protocol

import attrs

__all__ = ["StageDurations", "Stamped", "Timeline", "TraceRing", "now_ns", "stage_durations"]

now_ns = time.monotonic_ns


class Stamped(Protocol):
    """What has the stamps of a request; 0 stands for a stage that it did not pass.

    `callback_ns` is no stamp but a duration: callbacks run between handled and completed, and are local work.
    """

    received_ns: int
    dequeued_ns: int
    handled_ns: int
    callback_ns: int
    submitted_ns: int
    durable_ns: int
    completed_ns: int
    released_ns: int
    send_started_ns: int
    sent_ns: int


class Timeline(Protocol):
    """Where the server reports what happened, when it is observed at all; called on the event loop, must not block.

    Attributes:
        samples_queues: whether `queue_sampled` is to be called.
        times_requests: whether requests that are received now are stamped, and reported when they end; looked at
            whenever something was received.
    """

    samples_queues: bool

    @property
    def times_requests(self) -> bool: ...

    def request_ended(self, request: object) -> None:
        """The last byte of the response was sent, or the slot was released without bytes."""

    def request_dropped(self, request: object) -> None:
        """The connection closed before the response was sent."""

    def commit_ended(self, commit: object) -> None:
        """The entries of a commit are durable and their slots completed."""

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """A reason not to read a connection is gone."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """A handler began a turn with so many requests waiting in its queue."""


@attrs.frozen
class StageDurations:
    """Durations of the stages in nanoseconds, each at least 0."""

    request_queue_ns: int
    local_ns: int
    remote_ns: int
    commit_wait_ns: int
    response_queue_ns: int
    response_order_wait_ns: int
    response_send_ns: int
    total_ns: int


def stage_durations(stamps: Stamped) -> StageDurations:
    """The durations between the stamps of a request that was answered."""
    return StageDurations(
        request_queue_ns=max(0, stamps.dequeued_ns - stamps.received_ns),
        local_ns=max(0, stamps.handled_ns - stamps.dequeued_ns + stamps.callback_ns),
        remote_ns=max(0, stamps.completed_ns - stamps.handled_ns - stamps.callback_ns),
        commit_wait_ns=max(0, stamps.durable_ns - stamps.submitted_ns),
        response_queue_ns=max(0, stamps.send_started_ns - stamps.completed_ns),
        response_order_wait_ns=max(0, stamps.released_ns - stamps.completed_ns),
        response_send_ns=max(0, stamps.sent_ns - stamps.send_started_ns),
        total_ns=max(0, stamps.sent_ns - stamps.received_ns),
    )


class TraceRing:
    """A preallocated ring of packed rows with one writer (the event loop) and one reader (a thread).

    Args:
        row_format: a `struct` format of one row; little-endian without padding (`<`).
        rows_max: capacity; a row that finds the ring full is dropped and counted.

    The two cursors only grow and each has one writer, so no lock is needed.
    """

    __slots__ = ("_buffer", "_pack_into", "_read", "_rows_max", "_written", "dropped", "row_bytes")

    def __init__(self, row_format: str, rows_max: int) -> None:
        layout = struct.Struct(row_format)
        self._pack_into = layout.pack_into
        self.row_bytes = layout.size
        self._rows_max = rows_max
        self._buffer = bytearray(layout.size * rows_max)
        self._written = 0
        self._read = 0
        self.dropped = 0

    def __len__(self) -> int:
        """The number of rows that wait to be read."""
        return self._written - self._read

    def append(self, *values: int) -> None:
        """Pack one row; drop and count it when the ring is full."""
        written = self._written
        if written - self._read >= self._rows_max:
            self.dropped += 1
            return
        self._pack_into(self._buffer, (written % self._rows_max) * self.row_bytes, *values)
        self._written = written + 1

    def take(self) -> bytes:
        """The packed rows that were not read yet, oldest first."""
        read, written = self._read, self._written
        first, last = read % self._rows_max, written % self._rows_max
        if read == written:
            return b""
        view = memoryview(self._buffer)
        if first < last:
            rows = bytes(view[first * self.row_bytes : last * self.row_bytes])
        else:
            rows = bytes(view[first * self.row_bytes :]) + bytes(view[: last * self.row_bytes])
        self._read = written
        return rows
