"""A server with listeners in memory, on a mock clock, with commits that take the times of a script."""

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.listener import Listener
from stages.mode import PIPELINED
from stages.request import PARKED, Close, Pending, Send
from stages.socket_server import ServerLimits, SocketServer
from stages.testing.memory_listener import MemoryListener
from stages.testing.memory_storage import MemoryStorage
from stages.testing.scripted_commits import AnyPace, ScriptedCommits

INFINITY = float("inf")
PATIENT = ConnectionLimits(idle_seconds_max=INFINITY, slot_seconds_max=INFINITY)
SETTLED = wait_all_tasks_blocked


class ByFirstByte:
    """Parks `p...`, commits `c...`, answers `w...` with the session, and echoes everything else."""

    def __init__(self):
        self.parked, self.closed, self.ids = [], [], []

    def handle(self, request):
        frame = bytes(request.frame)
        self.ids.append(request.connection.id)
        match frame[:1]:
            case b"p":
                self.parked.append(request)
                return PARKED
            case b"c":
                return Pending([frame], Send(frame))
            case b"w":
                return Send(str(request.connection.session).encode())
        return Send(frame)

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        self.closed.append(session)


def first_word(entry):
    """Return the partition of an entry, for which commits per request are serial."""
    return entry.split()[0]


@attrs.define
class Serving:
    server: SocketServer
    application: ByFirstByte
    storage: MemoryStorage
    sources: dict = attrs.field(factory=dict)

    def listener(self, name, **fields):
        """Return a listener in memory, which `connect` finds by its name."""
        self.sources[name] = MemoryListener()
        return Listener(name, source=self.sources[name], **fields)

    def connect(self, name="L", ip="192.0.2.1"):
        return self.sources[name].connect(ip)

    async def served(self, name="L", ip="192.0.2.1"):
        """Return a client that has received its first response."""
        client = self.connect(name, ip)
        await self.ask(client, b"hello")
        return client

    async def ask(self, client, payload):
        client.send(payload)
        answer = await client.receive()
        assert payload[:1] == b"w" or answer == payload
        return answer

    def statistics(self, name):
        return next(one for one in self.server.statistics().listeners if one.name == name)

    def connections(self, name="L"):
        return sorted(self.server._listeners[name].connections, key=lambda one: one.index)


def run(test, *listeners, mode=PIPELINED, commit_delays=(0.0,), connection=PATIENT, quotas=None, **limits):
    """Run `test(serving)` against a server with these listeners (name and fields), and check that nothing is left."""

    async def main():
        application, storage = ByFirstByte(), MemoryStorage(key_of=first_word)
        fields = {
            "processors": 1,
            "connection": connection,
            "quotas": ConnectionQuotaLimits(**(quotas or {})),
            **limits,
        }
        executor = ScriptedCommits(commit_delays)
        pace = None if mode.is_group_commit else AnyPace()  # scripted commits take no time on the real clock
        server = SocketServer(
            mode, application, storage, limits=ServerLimits(**fields), executor=executor, commit_pace=pace
        )
        serving = Serving(server, application, storage)
        made = [serving.listener(name, **own) for name, own in (listeners or [("L", {})])]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, made)
            with trio.fail_after(
                10_000
            ):  # not around the shutdown, which waits for a thread that the clock does not see
                await test(serving)
            server.stop()
        assert server.quotas.total == server.channel.bytes_held == 0
        assert all(source.is_closed for source in serving.sources.values())
        assert not [one for processor in server.processors for one in processor.connections]

    trio.run(main, clock=MockClock(autojump_threshold=0))
