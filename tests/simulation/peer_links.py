"""The sockets between the brokers of a simulated machine, in virtual time.

Rules of this file: what a process sends arrives in order and late, also if the process has ended since. One direction
between two brokers can be cut: bytes in it arrive after the cut. Those of one connection can be held, while others are
faster. A reset loses them. The product's own code runs above:
the simulated directory of a process stands in place of the path of its directory, and `on_links` has `connect_peer` and
`serve_peers` ask it.
"""

import json
from collections import deque
from contextlib import ExitStack, contextmanager
from functools import partial

import trio

from pipeline_broker.node import controller, member, peer_link, peer_server
from pipeline_broker.node.peer_socket import PeerError
from stages.transport_layer import RECEIVE_BYTES, BrokenTransportError
from tests.simulation.environment import MILLISECOND
from tests.stages.sabotage import replaced

LATE_SHARE, LATE_FACTOR = 0.03, 40


class _Pipe:
    """One direction of a connection.

    Attributes:
        arrived: bytes that its reader has not taken.
        is_ended: the writer closed it, and all bytes have arrived.
        is_broken: the connection was reset.
        is_abandoned: the reader closed its end.
    """

    def __init__(self, links, source, target):
        self.arrived = bytearray()
        self.is_ended = self.is_broken = self.is_abandoned = False
        self.changed = trio.lowlevel.ParkingLot()
        self._links = links
        self._between = source, target
        self._held_until = 0.0
        self.under_way = deque()

    def send(self, data):
        """Send bytes; None for the end."""
        self.under_way.append(data)
        if len(self.under_way) == 1:
            trio.lowlevel.spawn_system_task(self._carry)

    async def _carry(self):
        while self.under_way and not self.is_broken:
            await trio.sleep(self._links.delay())
            await trio.sleep_until(self._held_until)
            await self._links.wait_until_whole(self._between)
            if self.is_broken:
                return
            data = self.under_way[0]
            if data is None:
                self.is_ended = True
            else:
                self.arrived += data
            self.changed.unpark_all()
            self.under_way.popleft()

    def hold(self, seconds):
        self._held_until = trio.current_time() + seconds

    def reset(self):
        self.is_broken = True
        self.arrived.clear()
        self.changed.unpark_all()

    def abandon(self):
        self.is_abandoned = True
        self.changed.unpark_all()

    def take(self, count):
        """Bytes, b"" at the end, None where none are there yet."""
        if self.arrived:
            data = bytes(self.arrived[:count])
            del self.arrived[:count]
            return data
        return b"" if self.is_ended else None


class PeerStream(trio.abc.Stream):
    """One end of a connection, as a stream of Trio and as a TransportLayer."""

    has_unsent = False
    sends_ranges = True
    peer_certificate = None

    def __init__(self, incoming, outgoing):
        self._incoming, self._outgoing = incoming, outgoing
        self._is_closed = False

    @property
    def socket(self):
        return self

    def close(self):
        if not self._is_closed:
            self._is_closed = True
            self._outgoing.send(None)
            self._incoming.abandon()
            self._outgoing.changed.unpark_all()

    def hold(self, seconds):
        """Let what is sent from now on arrive later, as at a broker that does not read this connection."""
        self._outgoing.hold(seconds)

    def reset(self):
        self._incoming.reset()
        self._outgoing.reset()

    @property
    def has_bytes_under_way(self):
        return bool(self._outgoing.under_way)

    async def aclose(self):
        self.close()
        await trio.lowlevel.checkpoint()

    @property
    def _is_broken(self):
        return self._incoming.is_broken or self._outgoing.is_broken

    # As a stream

    def _check_stream(self):
        if self._is_closed:
            raise trio.ClosedResourceError
        if self._is_broken:
            raise trio.BrokenResourceError

    async def send_all(self, data):
        await trio.lowlevel.checkpoint()
        self._check_stream()
        if self._outgoing.is_abandoned:
            raise trio.BrokenResourceError
        self._outgoing.send(bytes(data))

    async def wait_send_all_might_not_block(self):
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes=None):
        await trio.lowlevel.checkpoint()
        while True:
            self._check_stream()
            data = self._incoming.take(RECEIVE_BYTES)
            if data is not None:
                return data
            await self._incoming.changed.park()

    async def hello(self):
        """The first line, and no byte after it."""
        while b"\n" not in self._incoming.arrived:
            if self._is_closed or self._is_broken or self._incoming.is_ended:
                raise PeerError("no first line")
            await self._incoming.changed.park()
        return json.loads(self._incoming.take(self._incoming.arrived.index(b"\n") + 1))

    # As a TransportLayer

    async def start(self): ...

    def _check_transport(self):
        if self._is_closed or self._is_broken:
            raise BrokenTransportError("closed")

    def _take(self, count):
        self._check_transport()
        data = self._incoming.take(count)
        if data is None:
            raise BlockingIOError
        return data

    def receive(self):
        return self._take(RECEIVE_BYTES)

    def receive_into(self, room):
        data = self._take(len(room))
        room[: len(data)] = data
        return len(data)

    def send(self, parts, *, is_continued=False):
        self._check_transport()
        if self._outgoing.is_abandoned:
            raise BrokenTransportError("closed by the other end")
        data = b"".join(parts)
        if data:
            self._outgoing.send(data)
        return len(data)

    def send_range(self, part):
        return self.send((bytes(part),))

    async def wait_readable(self):
        await trio.lowlevel.checkpoint()
        while not (self._incoming.arrived or self._incoming.is_ended or self._is_broken or self._is_closed):
            await self._incoming.changed.park()
        if self._is_closed:
            raise trio.ClosedResourceError

    async def wait_writable(self):
        await trio.lowlevel.checkpoint()


class PeerLinks:
    """The links between all brokers of a machine.

    Args:
        dice: draw the delays.
        delay_ms_max: of a message.
    """

    def __init__(self, dice, delay_ms_max):
        self._dice = dice
        self._delay_ms_max = delay_ms_max
        self._cuts = {}  # (source, target) -> number of cuts
        self._healed = trio.lowlevel.ParkingLot()
        self.listening = {}  # node -> the sockets of its process

    def delay(self):
        """Seconds until the next message of a connection arrives: now and then much later than those of others."""
        is_late = self._dice.random() < LATE_SHARE
        return self._dice.randint(0, self._delay_ms_max * (LATE_FACTOR if is_late else 1)) * MILLISECOND

    def cut(self, *directions):
        for direction in directions:
            self._cuts[direction] = self._cuts.get(direction, 0) + 1

    def heal(self, *directions):
        for direction in directions:
            self._cuts[direction] = max(0, self._cuts.get(direction, 0) - 1)
        self._healed.unpark_all()

    def heal_all(self):
        self._cuts.clear()
        self._healed.unpark_all()

    async def wait_until_whole(self, direction):
        while self._cuts.get(direction):
            await self._healed.park()

    def connect(self, process, node_id):
        """A connection of a process to another broker; its end, or OSError if that does not listen."""
        other = self.listening.get(node_id)
        if other is None or process.is_dead:
            raise ConnectionRefusedError(f"broker {node_id} does not listen")
        there, back = _Pipe(self, process.node_id, node_id), _Pipe(self, node_id, process.node_id)
        end, other_end = PeerStream(back, there), PeerStream(there, back)
        process.streams.append((node_id, end))
        other.streams.append((process.node_id, other_end))
        other.accept(other_end)
        return end


class PeerSockets:
    """The sockets of one process; in place of the path of their directory.

    Args:
        life: that they belong to.
    """

    def __init__(self, links, life, node_id):
        self.node_id = node_id
        self.streams = []
        self.is_dead = False
        self.held = {}  # node -> time before which nothing arrives there
        self.accept = None
        self._links = links
        self._life = life

    async def serve(self, server, on_member, task_status):
        async with trio.open_nursery() as nursery:
            self.accept = partial(nursery.start_soon, self._serve, server, on_member)
            self._links.listening[self.node_id] = self
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._close_listener()

    def _close_listener(self):
        if self._links.listening.get(self.node_id) is self:
            del self._links.listening[self.node_id]

    async def _serve(self, server, on_member, stream):
        try:
            hello = await stream.hello()
        except PeerError:
            stream.close()
            return
        if "member" not in hello or on_member is None:
            session = peer_server._session_of(hello["client"])
            open_session = partial(peer_server._open_session, session)
            self._life.next_connection()
            await server.connect(stream, peer=session.host, listener="", open_session=open_session)
            return
        try:
            await on_member(stream, hello["member"])
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            stream.close()

    async def connect(self, node_id, hello):
        await trio.lowlevel.checkpoint()
        stream = self._links.connect(self, node_id)
        stream.hold(self.held.get(node_id, 0.0) - trio.current_time())
        await stream.send_all(json.dumps(hello).encode() + b"\n")
        return stream

    def to(self, node_id):
        """The ends of all connections to another broker."""
        return [stream for other, stream in self.streams if other == node_id]

    def hold(self, node_id, seconds):
        """Delay all later messages to a broker."""
        self.held[node_id] = trio.current_time() + seconds
        for stream in self.to(node_id):
            stream.hold(seconds)

    @property
    def has_bytes_under_way(self):
        """Whether something of it has not arrived yet."""
        return any(stream.has_bytes_under_way for _, stream in self.streams)

    def kill(self):
        """End with the process: what it sent arrives, and it sends no more."""
        self.is_dead = True
        self._close_listener()
        for _, stream in self.streams:
            stream.close()


async def connect_peer(directory, node_id, hello):
    return await directory.connect(node_id, hello)


async def serve_peers(directory, node_id, server, on_member=None, *, task_status):
    await directory.serve(server, on_member, task_status)


@contextmanager
def on_links():
    """Let brokers talk to each other over simulated sockets."""
    with ExitStack() as stack:
        for module in (member, peer_link):
            stack.enter_context(replaced(module, "connect_peer", connect_peer))
        for module in (member, controller):
            stack.enter_context(replaced(module, "serve_peers", serve_peers))
        yield
