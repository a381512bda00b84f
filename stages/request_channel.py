"""Bounded request queues between connections and handlers.

A full queue never blocks the event loop. A connection that finds no room registers as a waiter and stops reading, so a
full queue delays only the connections routed to it.

Counterpart in Kafka: `RequestChannel`; a full queue stops the connection of the request, not the processor.

Counterpart in AutoMQ: `hash(channelId) % N` in `RequestChannel.registerNRequestHandler`; the number of queues can
change while the broker runs.
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
"""Kafka's default of `queued.max.requests`, divided equally between the queues."""
BYTES_MAX: Final = 100 * 1024 * 1024
"""Bytes of all unanswered requests (AutoMQ's `queued.max.requests.size.bytes`).

Requests parked without their frame, and one small request of each connection, need no budget."""

SMALL_PART: Final = 1600
"""A request is small up to this part of the byte budget: 64 KiB of 100 MiB."""


class Waiter(Protocol):
    """A connection that waits for room in a queue or in the byte budget."""

    def resume(self, reason: MuteReason) -> bool:
        """Remove `reason` and try again; return False if the connection cannot use its turn now."""


def shard_of(connection_id: str, count: int) -> int:
    """Return the index of a connection's queue: a hash of its id modulo `count`.

    The hash is stable across processes and Python versions.
    """
    # Not `hash`, which Python seeds per process: the route of a connection must be reproducible.
    digest = hashlib.blake2b(connection_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


@attrs.frozen
class RequestQueueStatistics:
    """Statistics of one queue.

    Attributes:
        depth: waiting requests.
        capacity: maximum of `depth`.
        connections: connections routed to the queue.
        put: requests put so far.
        depth_max: highest `depth` so far.
        waiting_for_room: connections that stopped reading because the queue is full.
        callbacks: waiting callbacks.
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
    """A bounded FIFO queue of requests, with its handlers and the connections that wait for room.

    A resumed waiter either puts a request or passes its turn on, so no room stays unused.

    Attributes:
        callbacks: callbacks that handlers run before they take a request. Bounded by the requests in flight, each of
            which has at most one.
        requests: waiting requests, oldest first; only handlers take from it.
        waiters: connections that wait for room, in order. Other connections must wait after them, even if there is
            room.
        is_held: whether handlers must take nothing now; see `stages.request.QueueHeldError`.
        is_scheduled: whether a handler is scheduled and has not started its turn.
    """

    __slots__ = (
        "_has_idle",
        "_idle",
        "callbacks",
        "capacity",
        "connections",
        "depth_max",
        "index",
        "is_held",
        "is_scheduled",
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
        self.is_held = self.is_scheduled = False
        self.put = 0
        self.depth_max = 0
        self.callbacks: deque[tuple[Request, Callable[[], Result] | None]] = deque()
        self.requests: deque[Request] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._has_idle = False  # saves `put_nowait` a call for each request while no handler is parked
        self.waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def has_room(self) -> bool:
        return len(self.requests) < self.capacity

    def put_nowait(self, request: Request) -> None:
        """Append a request and wake an idle handler.

        Raises:
            trio.WouldBlock: if the queue is full; check `has_room` first.
        """
        # Every request passes here: locals and the `_has_idle` flag save attribute lookups and a call.
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
        """Append a callback and wake an idle handler; None makes a handler start the next deferred request."""
        self.callbacks.append((request, callback))
        if self._has_idle:
            self._wake_handler()

    def _wake_handler(self) -> None:
        self._idle.unpark()
        self.is_scheduled = True
        self._has_idle = bool(self._idle)

    @property
    def has_work(self) -> bool:
        return bool(self.requests or self.callbacks)

    async def wait_for_work(self) -> None:
        """Wait until a request or callback was put, or `wake_handlers` was called. Each request wakes one handler."""
        self._has_idle = True
        await self._idle.park()

    def hold(self, request: Request, callback: Callable[[], Result]) -> None:
        """Stop taking requests until `go_on`, and start with `callback` then."""
        self.is_held = True
        # First, since callbacks run before requests: the held request stays the next one of its queue.
        self.callbacks.appendleft((request, callback))

    def go_on(self) -> None:
        self.is_held = False
        self.wake_handlers()

    def wait_for_room(self, waiter: Waiter, *, is_next: bool = False) -> None:
        """Register a waiter to be resumed when the queue has room.

        Args:
            is_next: puts it first, for a connection that was resumed and still found no room.
        """
        # A waiter that was resumed and found no room keeps its position before the others.
        if is_next:
            self.waiters.appendleft(waiter)
        else:
            self.waiters.append(waiter)

    def resume_waiters(self) -> None:
        """Resume as many waiting connections as the queue has room for, oldest first."""
        room = self.capacity - len(self.requests)
        waiters = self.waiters
        while waiters and room > 0:
            # A resumed connection puts its request in a later turn, so its room is reserved here.
            if waiters.popleft().resume(MuteReason.QUEUE_FULL):
                room -= 1

    def stop_waiting(self, waiter: Waiter) -> None:
        """Remove the waiter of a closing connection, or pass on the turn it had."""
        try:
            self.waiters.remove(waiter)
        # It was resumed and will not use its turn.
        except ValueError:
            self.resume_waiters()

    def pass_turn(self, waiter: Waiter) -> None:
        """Resume other waiters in place of a connection that cannot put its frame, unless that still waits."""
        if waiter not in self.waiters:
            self.resume_waiters()

    def wake_handlers(self) -> None:
        """Wake idle handlers, so that they check whether they are still needed."""
        self._idle.unpark_all()

    def retire(self) -> None:
        """Close the queue to new connections; its handlers end once it is drained."""
        self.retired = True
        self._idle.unpark_all()

    @property
    def is_drained(self) -> bool:
        """True if the queue is retired, empty, and without routed connections."""
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
    """One shared queue, or N queues selected by `hash(connection id) % N`, and their common byte budget.

    A connection keeps its queue while it has requests in flight, so its requests start in their order.

    Args:
        mode: number of queues.
        requests_max: capacity of all queues together.
        bytes_max: bytes of the unanswered requests of all connections. The last admitted request may exceed it, so a
            request above the whole budget still passes.
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
        # At least 1, or a queue would never accept a request.
        capacity = max(self.requests_max // count, 1)
        self.queues = [RequestQueue(self._next_index + i, capacity) for i in range(count)]
        self._next_index += count
        self.generation += 1
        return self.queues

    def route(self, connection_id: str, current: RequestQueue | None = None) -> RequestQueue:
        """Return the queue of a connection without requests in flight, and count the connection there.

        Args:
            current: queue that the connection leaves; None for a new connection.
        """
        if current is not None:
            current.connections -= 1
            # The last connection to leave ends the handlers of a retired queue.
            if current.retired:
                current.wake_handlers()
        queue = self.queues[shard_of(connection_id, len(self.queues))]
        queue.connections += 1
        return queue

    @property
    def following(self) -> int:
        """Number of requests that handlers will take in this pass of the event loop or the next one."""
        return sum([len(queue.requests) for queue in self.queues if queue.is_scheduled and not queue.is_held])

    def put_callback(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """Append a callback to the queue of its request, or to its successor if that queue has ended."""
        # The handlers of a drained queue have ended.
        if queue.is_drained:
            queue = self.queues[shard_of(request.connection.id, len(self.queues))]
        queue.put_callback(request, callback)

    def leave(self, queue: RequestQueue) -> None:
        queue.connections -= 1
        if queue.retired:
            queue.wake_handlers()

    def resize(self, count: int) -> list[RequestQueue]:
        """Change the number of queues; connections move once they have no requests in flight.

        Returns:
            the new queues, each of which needs a handler.
        """
        for queue in self.queues:
            self.retired.append(queue)
        old = self.queues
        self._open_queues(count)
        # Retired queues serve their requests in flight; connections move once they have none.
        for queue in old:
            queue.retire()
        return self.queues

    def forget(self, queue: RequestQueue) -> None:
        self.retired.remove(queue)

    def set_bytes_max(self, bytes_max: int) -> None:
        """Change the byte budget, and resume a connection that can use it; admitted requests keep their bytes."""
        self.bytes_max = bytes_max
        self._resume_for_bytes()

    @property
    def small_bytes_max(self) -> int:
        """Maximum size of a request that is admitted although the budget is used up."""
        return self.bytes_max // SMALL_PART

    def hold_bytes(self, count: int) -> None:
        self.bytes_held += count

    def release_bytes(self, count: int) -> None:
        """Return the bytes of an answered or dropped request to the budget, and resume a connection that waits."""
        self.bytes_held -= count
        if self._byte_waiters:
            self._resume_for_bytes()

    def _resume_for_bytes(self) -> None:
        """Resume the oldest waiter that can use the budget; the bytes it releases resume the next one."""
        while self._byte_waiters and self.bytes_held < self.bytes_max:
            # Only one, because the size of its frame is unknown here.
            if self._byte_waiters.popleft().resume(MuteReason.QUEUED_BYTES):
                break
        self._note_depletion()

    def _note_depletion(self) -> None:
        """Record when the budget becomes depleted (the first connection waits for it), and when no connection waits."""
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
        """Total time during which connections waited for the byte budget."""
        since_ns = self._depleted_since_ns
        return self._depleted_ns + (now_ns() - since_ns if since_ns else 0)

    def leave_line(self, waiter: Waiter) -> bool:
        """Remove a waiter for the byte budget; return False if it did not wait."""
        try:
            self._byte_waiters.remove(waiter)
        except ValueError:
            return False
        self._note_depletion()
        return True

    def stop_waiting_for_bytes(self, waiter: Waiter) -> None:
        """Remove the waiter of a closing connection, or pass on the turn it had."""
        if not self.leave_line(waiter):
            self._resume_for_bytes()

    def pass_turn_for_bytes(self, waiter: Waiter) -> None:
        """Resume the next waiter in place of a connection that cannot use the budget, unless that still waits."""
        if waiter not in self._byte_waiters:
            self._resume_for_bytes()

    def wait_for_bytes(self, waiter: Waiter) -> None:
        """Register a waiter to be resumed when the byte budget has room."""
        self._byte_waiters.append(waiter)
        self._note_depletion()

    def statistics(self) -> list[RequestQueueStatistics]:
        return [queue.statistics() for queue in (*self.queues, *self.retired)]
