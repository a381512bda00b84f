"""One connection to a simulated broker, in the real wire format, with many requests in flight.

Rules of this file: it knows the wire and nothing of what answers should say. Answers are told apart by their place
alone, as Kafka promises, because correlation ids may repeat; an id or a form that is not the one due is a complaint.
An end of the connection, whatever ended it, is a Gone.
"""

import struct
from collections import deque

import attrs
import trio

from pipeline_broker.wire.codec import DecodeError, decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from tests.crashes.wire_client import response_of

UNSERVED_API = struct.Struct(">hhih")
UNSERVED_KEY = 999


@attrs.frozen
class Ask:
    """A frame to be sent; see Exchange. `is_request` is False for one of the conversation about who the client is."""

    request: object
    version: int
    on_answer: object = None
    batch: object = None
    is_request: bool = True


class Gone(Exception):
    """The connection is over."""


@attrs.define(eq=False)
class Exchange:
    """One request and what became of it.

    Attributes:
        place: number of the frame on its connection.
        on_answer: called with the exchange when its answer came.
        batch: what a produce request sends, for its fate; see `history.Sent`.
        is_over: it was answered, or never will be.
    """

    place: int
    request: object
    version: int
    correlation: int
    sent_at: float
    on_answer: object = None
    batch: object = None
    answer: object = None
    answered_at: float | None = None
    is_over: bool = False

    @property
    def is_missing(self):
        """Whether an answer was due and did not come; to a produce request with acks=0 there is none."""
        return self.answer is None and bool(getattr(self.request, "acks", 1))


@attrs.frozen
class Network:
    """How a connection is: see `stages.testing.memory_transport`; `read_pause` is in seconds."""

    capacity_bytes: int = 64 * 1024
    receive_sizes: tuple = ()
    send_sizes: tuple = ()
    read_pause: float = 0.0


class WireClient:
    """See the rules of the file.

    Args:
        name: of the client that it belongs to.
        index: the server's number of the connection.
        end: the client's end in memory.
        network: what it is like.
        correlations: the ids to use, one after the other.
        complain: called with what is not as it must be.
        life: of the broker that it is connected to.
    """

    def __init__(self, name, index, end, network, correlations, complain, life):
        self.name = name
        self.index = index
        self.end = end
        self.network = network
        self.life = life
        self.exchanges = []
        self.requests = []  # the exchanges that the broker counts: those that are no conversation
        self.is_over = False
        self.is_ended_by_us = False
        self._due = deque()
        self._correlations = correlations
        self._complain = complain
        self._changed = trio.lowlevel.ParkingLot()

    def __repr__(self):
        return f"connection {self.index} of {self.name}"

    @property
    def answers(self):
        """The payloads received, as bytes."""
        return self.end.received

    @property
    def in_flight(self):
        return len(self._due)

    # Sending

    def send(self, *asks):
        """Send asks as one burst; returns the exchanges."""
        exchanges, payloads = [], []
        for ask in asks:
            request, version = ask.request, ask.version
            correlation = next(self._correlations)
            place = len(self.exchanges)
            exchange = Exchange(place, request, version, correlation, trio.current_time(), ask.on_answer, ask.batch)
            header = RequestHeader(request.SCHEMA.key, version, correlation, self.name)
            payloads.append(b"".join((encode_request_header(header), *encode(request, version))))
            self.exchanges.append(exchange)
            if ask.is_request:
                self.requests.append(exchange)
            if exchange.is_missing:
                self._due.append(exchange)
            exchanges.append(exchange)
        self._pass(self.end.send, *payloads)
        return exchanges

    def send_unserved(self):
        """A request of an API that nobody serves: the broker closes the connection in its turn."""
        self.exchanges.append(None)  # its place, and no answer
        self.requests.append(None)
        self._pass(self.end.send, UNSERVED_API.pack(UNSERVED_KEY, 0, 0, -1))

    def _pass(self, send, *payloads):
        try:
            send(*payloads)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Gone from None

    def half_close(self):
        self.is_ended_by_us = True
        self.end.half_close()

    def reset(self):
        self.is_ended_by_us = True
        self.end.reset()

    def cut(self):
        """The broker's machine is gone; what it sent before can still be received."""
        self.end._wire.is_closed = True
        self.end._wire.changed()

    def will_fail(self, number):
        """The broker will fail the request of this number, and its client may know; False where it must not fail."""
        exchange = self.requests[number]
        if exchange is None:
            return False
        if exchange.batch is not None:
            exchange.batch.refuse()
        return True

    # Waiting

    async def wait_for(self, exchange):
        """The answer; raises Gone."""
        while not exchange.is_over:
            await self._changed.park()
        if exchange.answer is None:
            raise Gone
        return exchange.answer

    async def wait_for_room(self, in_flight_max):
        """Return when fewer than so many requests are unanswered; raises Gone."""
        while self.in_flight >= in_flight_max:
            await self._changed.park()
        if self.is_over:
            raise Gone

    async def wait_until_over(self):
        while not self.is_over:
            await self._changed.park()

    # Receiving

    async def receive_all(self):
        """Receive until the connection is over; a task of its own."""
        try:
            while True:
                if self.network.read_pause:
                    await trio.sleep(self.network.read_pause)
                frame = await self.end.receive()
                await self.life.wait_until_awake(self)
                self._receive(frame)
        except (trio.EndOfChannel, trio.BrokenResourceError):
            pass
        self.is_over = True
        for exchange in filter(None, self.exchanges):
            exchange.is_over = True
        self._due.clear()
        self._changed.unpark_all()

    def _receive(self, frame):
        if not self._due:
            self._complain(f"{self!r}: an answer came and none was due")
            return
        exchange = self._due.popleft()
        request, version = exchange.request, exchange.version
        try:
            correlation, position = read_response_header(request.SCHEMA.key, version, frame)
            answer, end = decode(response_of(type(request)), version, frame, position)
        except DecodeError as error:
            self._complain(f"{self!r}: the answer {exchange.place} is not one to {type(request).__name__}: {error}")
            return
        if correlation != exchange.correlation or end != len(frame):
            self._complain(f"{self!r}: answer {exchange.place} has id {correlation}, not {exchange.correlation}")
        exchange.answer, exchange.answered_at, exchange.is_over = answer, trio.current_time(), True
        if exchange.on_answer is not None:
            exchange.on_answer(exchange)
        self._changed.unpark_all()
