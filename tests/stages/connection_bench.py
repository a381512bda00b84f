"""A server in memory whose requests the test answers by hand."""

import math

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.connection_limits import ConnectionLimits
from stages.mode import PIPELINED
from stages.request import NO_OP, PARKED, Close, Send
from stages.socket_server import ServerLimits
from stages.testing.memory_server import open_memory_server

INFINITY = float("inf")
ONE_QUEUE = attrs.evolve(PIPELINED, queues=1)
BIG_BYTES = 10_000
"""Size of the response to `b...`."""


def limits(**fields):
    connection = {"idle_seconds_max": INFINITY, "slot_seconds_max": INFINITY}
    connection |= {name: fields.pop(name) for name in list(fields) if hasattr(ConnectionLimits(), name)}
    return ServerLimits(connection=ConnectionLimits(**connection), processors=1, **fields)


class ByHand:
    """Parks every request until the test answers it, unless its first byte says otherwise."""

    def __init__(self):
        self.parked, self.handled, self.closed = [], [], []

    def handle(self, request):
        frame = bytes(request.frame)
        self.handled.append(frame)
        if request.connection.session is None:
            request.connection.session = f"session of {request.connection.index}"
        match frame[:1]:
            case b"s":
                return Send(frame)
            case b"n":
                return NO_OP
            case b"c":
                return Close("asked for")
            case b"b":
                return Send(bytes(BIG_BYTES))
        self.parked.append(request)
        return PARKED

    def answer(self, payload):
        request = next(one for one in self.parked if bytes(one.frame) == payload)
        self.parked.remove(request)
        request.complete(Send(payload))

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        self.closed.append(session)


def run(test, *, mode=PIPELINED, application=None, jumps=True, **fields):
    """Run `test(memory, application)` against a server on a mock clock, and check that nothing is left in it.

    Without `jumps` the clock stands still, for tests with work in threads, which a mock clock does not see.
    """
    application = application or ByHand()

    async def main():
        async with open_memory_server(mode, application, limits=limits(**fields)) as memory:
            with trio.fail_after(3600):
                await test(memory, application)
        channel = memory.server.channel
        assert channel.bytes_held == 0
        assert sum(queue.connections for queue in (*channel.queues, *channel.retired)) == 0
        assert sum(queue.statistics().waiting_for_room for queue in channel.queues) == 0

    trio.run(main, clock=MockClock(autojump_threshold=0 if jumps else math.inf))


def connection_of(memory, index=0):
    return sorted(memory.server.processors[0].connections, key=lambda one: one.index)[index]


async def send_and_go(memory, payload):
    """Send a request, and disconnect once it is handled."""
    client = await memory.connect()
    client.send(payload)
    await wait_all_tasks_blocked()
    client.reset()
    await wait_all_tasks_blocked()


def paused_turns(memory, queue=None):
    """Block the turns of one queue or of all; return the event that resumes them."""
    pool, release = memory.server.handlers, trio.Event()
    turn = pool._turn

    async def paused(of_queue):
        if queue in (None, of_queue):
            await release.wait()
        await turn(of_queue)

    pool._turn = paused
    return release
