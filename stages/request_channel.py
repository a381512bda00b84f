"""The request queues between connections and handlers.

Rules of this room: nothing here waits for room. A connection that has a frame asks `has_room`; when there is none it
leaves its name and stops reading, so that a full queue delays only the connections routed to it. A waiter that is
resumed either puts a request or passes its turn on, so that no room stays unused. A request starts in the order in
which it was put, per queue. A connection keeps its queue while it has requests in flight.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import attrs
import trio

from stages.mode import Mode
from stages.mute import MuteReason
from stages.request import Request, Result
from stages.timeline import now_ns

__all__ = ["RequestChannel", "RequestQueue", "RequestQueueStatistics", "shard_of"]

REQUESTS_MAX: Final = 500
"""Kafka's `queued.max.requests`; N queues get an N-th each."""
BYTES_MAX: Final = 100 * 1024 * 1024
"""Bytes of all requests that are not answered (AutoMQ's `queued.max.requests.size.bytes`); what is parked without its
frame, and one small request of each connection, need none."""

SMALL_PART: Final = 1600
"""A request of so small a part of the byte budget (64 KiB of 100 MiB) is small."""


class Waiter(Protocol):
    """A connection that waits for room."""

    def resume(self, reason: MuteReason) -> bool:
        """Try again: the reason may be gone. False when the connection cannot use its turn now."""


def shard_of(connection_id: str, count: int) -> int:
    """The queue of a connection: a hash that is stable over processes and Python versions, modulo `count`."""
    digest = hashlib.blake2b(connection_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


@attrs.frozen
class RequestQueueStatistics:
    """One queue as it stands.

    Attributes:
        depth: requests that wait in it.
        capacity: how many may.
        connections: connections that are routed to it.
        put: requests that were put so far.
        depth_max: the most that ever waited.
        waiting_for_room: connections that stopped reading because it is full.
        callbacks: callbacks that wait in it.
    """

    index: int
    depth: int
    capacity: int
    connections: int
    put: int
    depth_max: int
    waiting_for_room: int
    callbacks: int = 0


class RequestQueue:
    """One bounded queue and the tasks that take from it.

    Attributes:
        callbacks: what the handlers do before they take a request; bounded by the requests in flight, which have at
            most one waiting each.
        requests: what waits, oldest first; only handlers take from it.
        waiters: connections in line for room, in their order; while there are some, others stand behind them.
        is_held: nothing is taken from it now, see `stages.request.QueueHeldError`.
        is_due: a handler that was woken, or goes on, has not begun its turn yet.
    """

    __slots__ = (
        "_has_idle",
        "_idle",
        "callbacks",
        "capacity",
        "connections",
        "depth_max",
        "index",
        "is_due",
        "is_held",
        "put",
        "requests",
        "retired",
        "waiters",
    )

    def __init__(self, index: int, capacity: int) -> None:
        self.index = index
        self.capacity = capacity
        self.connections = 0
        self.retired = False
        self.is_held = self.is_due = False
        self.put = 0
        self.depth_max = 0
        self.callbacks: deque[tuple[Request, Callable[[], Result] | None]] = deque()
        self.requests: deque[Request] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._has_idle = False  # whether it is worth a look: a handler parked since the last one
        self.waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def has_room(self) -> bool:
        """Whether `put_nowait` is allowed."""
        return len(self.requests) < self.capacity

    def put_nowait(self, request: Request) -> None:
        """Append a request and wake an idle handler.

        Raises:
            trio.WouldBlock: the queue is full; the caller should have asked.
        """
        requests = self.requests
        if len(requests) >= self.capacity:
            raise trio.WouldBlock
        requests.append(request)
        request.queue = self.index
        self.put += 1
        depth = len(requests)
        if depth > self.depth_max:
            self.depth_max = depth
        if self._has_idle:
            self._wake_handler()

    def put_callback(self, request: Request, callback: Callable[[], Result] | None) -> None:
        """Append a callback, or None to have the connection's next deferred request handled; wake an idle handler."""
        self.callbacks.append((request, callback))
        if self._has_idle:
            self._wake_handler()

    def _wake_handler(self) -> None:
        self._idle.unpark()
        self.is_due = True
        self._has_idle = bool(self._idle)

    @property
    def has_work(self) -> bool:
        """Whether a callback or a request waits."""
        return bool(self.requests or self.callbacks)

    async def wait_not_empty_once(self) -> None:
        """Wait until a request was put or the handlers were woken; one handler wakes for each request."""
        self._has_idle = True
        await self._idle.park()

    def hold(self, request: Request, callback: Callable[[], Result]) -> None:
        """Stand still; when that is over, begin with this callback."""
        self.is_held = True
        self.callbacks.appendleft((request, callback))

    def go_on(self) -> None:
        """Stand still no longer."""
        self.is_held = False
        self.wake_handlers()

    def wait_for_room(self, waiter: Waiter, *, is_next: bool = False) -> None:
        """Have `waiter.resume` called when there is room; one that was called in vain goes before all others."""
        if is_next:
            self.waiters.appendleft(waiter)
        else:
            self.waiters.append(waiter)

    def room_was_made(self) -> None:
        """Resume as many waiting connections as there is room for, oldest first."""
        room = self.capacity - len(self.requests)
        waiters = self.waiters
        while waiters and room > 0:
            if waiters.popleft().resume(MuteReason.QUEUE_FULL):
                room -= 1

    def stop_waiting(self, waiter: Waiter) -> None:
        """A connection closes: forget it, or pass on the turn that it was given."""
        try:
            self.waiters.remove(waiter)
        except ValueError:
            self.room_was_made()

    def pass_turn(self, waiter: Waiter) -> None:
        """A connection cannot put its frame now: unless it waits for room, others have its turn."""
        if waiter not in self.waiters:
            self.room_was_made()

    def wake_handlers(self) -> None:
        """Let idle handlers look whether they are still needed."""
        self._idle.unpark_all()

    def retire(self) -> None:
        """Take nothing new from unrouted connections; handlers end when all is drained."""
        self.retired = True
        self._idle.unpark_all()

    @property
    def is_drained(self) -> bool:
        """A retired queue that nothing is routed to and that holds nothing."""
        return self.retired and not self.connections and not self.has_work

    def statistics(self) -> RequestQueueStatistics:
        return RequestQueueStatistics(
            index=self.index,
            depth=len(self.requests),
            capacity=self.capacity,
            connections=self.connections,
            put=self.put,
            depth_max=self.depth_max,
            waiting_for_room=len(self.waiters),
            callbacks=len(self.callbacks),
        )


class RequestChannel:
    """One shared queue, or N queues with `hash(connection id) % N`, and the byte budget over all of them.

    Args:
        mode: how many queues.
        requests_max: capacity over all queues.
        bytes_max: bytes of unanswered requests over all connections; the last one admitted may overshoot it, so a
            single request above it still passes.
        first_index: number of the first queue.
    """

    def __init__(
        self, mode: Mode, *, requests_max: int = REQUESTS_MAX, bytes_max: int = BYTES_MAX, first_index: int = 0
    ) -> None:
        self.requests_max = requests_max
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self.generation = 0
        self.queues: list[RequestQueue] = []
        self.retired: list[RequestQueue] = []
        self._byte_waiters: deque[Waiter] = deque()
        self._depleted_ns = self._depleted_since_ns = 0
        self._next_index = first_index
        self._open_queues(1 if mode.is_shared_queue else mode.queues)

    def _open_queues(self, count: int) -> list[RequestQueue]:
        capacity = max(self.requests_max // count, 1)
        self.queues = [RequestQueue(self._next_index + i, capacity) for i in range(count)]
        self._next_index += count
        self.generation += 1
        return self.queues

    def route(self, connection_id: str, current: RequestQueue | None = None) -> RequestQueue:
        """The queue of a connection that has nothing in flight; `current` is the one it leaves."""
        if current is not None:
            current.connections -= 1
            if current.retired:
                current.wake_handlers()
        queue = self.queues[shard_of(connection_id, len(self.queues))]
        queue.connections += 1
        return queue

    @property
    def following(self) -> int:
        """Requests that handlers take in this pass of the event loop, or in the next one."""
        return sum([len(queue.requests) for queue in self.queues if queue.is_due and not queue.is_held])

    def put_callback(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """Append a callback to the queue that its request came by, or, if that one has ended, to the one after it."""
        if queue.is_drained:
            queue = self.queues[shard_of(request.connection.id, len(self.queues))]
        queue.put_callback(request, callback)

    def leave(self, queue: RequestQueue) -> None:
        """A connection that was routed to `queue` is closed."""
        queue.connections -= 1
        if queue.retired:
            queue.wake_handlers()

    def resize(self, count: int) -> list[RequestQueue]:
        """Change the number of queues; connections move when they have nothing in flight.

        Returns:
            the new queues, each of which needs a handler.
        """
        for queue in self.queues:
            self.retired.append(queue)
        old = self.queues
        self._open_queues(count)
        for queue in old:
            queue.retire()
        return self.queues

    def forget(self, queue: RequestQueue) -> None:
        """Drop a queue that is drained."""
        self.retired.remove(queue)

    def set_bytes_max(self, bytes_max: int) -> None:
        """Change the byte budget; what it holds already stays."""
        self.bytes_max = bytes_max
        self._resume_for_bytes()

    @property
    def small_bytes_max(self) -> int:
        """How large a request may be that is admitted though the budget is used up; asked only then."""
        return self.bytes_max // SMALL_PART

    def hold_bytes(self, count: int) -> None:
        """A request of so many bytes was admitted."""
        self.bytes_held += count

    def release_bytes(self, count: int) -> None:
        """A request of so many bytes was answered or dropped."""
        self.bytes_held -= count
        if self._byte_waiters:
            self._resume_for_bytes()

    def _resume_for_bytes(self) -> None:
        """Give the oldest waiting connection that can use it a turn; its own release gives the next one."""
        while self._byte_waiters and self.bytes_held < self.bytes_max:
            if self._byte_waiters.popleft().resume(MuteReason.QUEUED_BYTES):
                break
        self._note_depletion()

    def _note_depletion(self) -> None:
        """The budget is depleted from the first connection that waits for it until none does."""
        if bool(self._byte_waiters) == bool(self._depleted_since_ns):
            return
        at_ns = now_ns()
        if self._byte_waiters:
            self._depleted_since_ns = at_ns
        else:
            self._depleted_ns += at_ns - self._depleted_since_ns
            self._depleted_since_ns = 0

    @property
    def depleted_ns(self) -> int:
        """How long some connection waited for the byte budget, so far."""
        since_ns = self._depleted_since_ns
        return self._depleted_ns + (now_ns() - since_ns if since_ns else 0)

    def leave_line(self, waiter: Waiter) -> bool:
        """A connection waits for the byte budget no longer; whether it did."""
        try:
            self._byte_waiters.remove(waiter)
        except ValueError:
            return False
        self._note_depletion()
        return True

    def stop_waiting_for_bytes(self, waiter: Waiter) -> None:
        """A connection closes: forget it, or pass on the turn that it was given."""
        if not self.leave_line(waiter):
            self._resume_for_bytes()

    def pass_turn_for_bytes(self, waiter: Waiter) -> None:
        """A connection cannot use the budget now: unless it waits for it, the next one has its turn."""
        if waiter not in self._byte_waiters:
            self._resume_for_bytes()

    def wait_for_bytes(self, waiter: Waiter) -> None:
        """Have `waiter.resume` called when the budget allows another request."""
        self._byte_waiters.append(waiter)
        self._note_depletion()

    def statistics(self) -> list[RequestQueueStatistics]:
        """One entry per queue, retired ones included."""
        return [queue.statistics() for queue in (*self.queues, *self.retired)]
