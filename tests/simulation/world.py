"""A simulated broker over its lives, and the connections to it.

Rules of this file: everything of the broker is real but its network, its disk and its clock. A life begins with the
recovery of the disk and ends in one of four ways: stopped, failed (a commit failed, and the server ended by itself),
killed, or by a power cut. When it is killed nothing of it reaches disk or clients any more.
"""

import itertools
import random
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import attrs
import trio

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.assembly import JournalStorage, compose, prepare_ahead, run_timer, sync_in_time
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.options import ServeOptions, limits_of, mode_of
from pipeline_broker.node.surroundings import BrokerWiring
from stages.committer import CommitFailedError
from stages.response_order import ResponseOrder
from stages.testing.drawn_commits import DrawnCommits
from stages.testing.memory_transport import memory_connection
from stages.testing.scripted_commits import AnyPace, ScriptedCommits
from tests.simulation.disk import SimulatedDisk
from tests.simulation.environment import wall_clock_ms
from tests.simulation.history import History
from tests.simulation.listeners import LISTENERS, SASL, listeners, proof
from tests.simulation.ownership import Ownership
from tests.simulation.scenario import SESSION_MS
from tests.simulation.trace import Trace
from tests.simulation.transfers import Transfers
from tests.simulation.watch import Watch
from tests.simulation.wire_client import Gone, WireClient

DATA = Path("/data")
SEGMENT_BYTES = 16 << 10
DRAIN_SECONDS = 2.0
STOP_SECONDS_MORE = 0.1
"""What a stop may take beyond its deadline: the commits that were submitted, in virtual time."""
LIVES_MAX = 8
RETRY_SECONDS = 0.002


@attrs.frozen
class Parts:
    """What of a broker a seeded bug may replace."""

    commits: type = ScriptedCommits
    response_order: type = ResponseOrder


class Life:
    """One broker process."""

    data = DATA
    stop_seconds_more = STOP_SECONDS_MORE
    settings = ()  # in addition to those of the scenario
    advertised = MappingProxyType(dict.fromkeys(LISTENERS, ("broker.test", 9092)))
    clock_ms = staticmethod(wall_clock_ms)
    role = None  # in a cluster

    def __init__(self, world):
        self.world = world
        self.disk, self.trace = self._machine()
        self.watch = Watch(world.scenario, self.trace, world.complain, self._injected, self.check_stored)
        self.broker = self.server = self.journal = self.wiring = self.dispatcher = None
        self.connections = 0  # that the server has numbered
        self.clients = []
        self.ended_by = None
        self.is_over = False
        self.stopped_at = None
        self._scope = trio.CancelScope()

    async def run(self, task_status):
        """From start to end; `ended_by` says how it ended."""
        world = self.world
        with self._scope:
            await self._live(task_status)
        if self.ended_by is None:
            self.ended_by = "stopped"
        if self.server is not None:
            await self._end()
        world.requests_in_turns += self.watch.requests_in_turns
        if self.ended_by == "stopped":
            self._check_stop(trio.current_time() - self.stopped_at)

    async def _live(self, task_status):
        scenario, world = self.world.scenario, self.world
        config, _ = parse_settings((*scenario.settings, *self.settings))
        options = ServeOptions(
            mode=mode_of(scenario.mode, config),
            flush="always",
            data=self.data,
            config=config,
            commits_in_flight=scenario.commits_in_flight,
        )
        self.wiring = wiring = BrokerWiring(options.mode, clock_ms=self.clock_ms, cluster=self.role)
        self.journal, self.broker = await self._open(config, attrs.evolve(wiring.ports, advertised=self.advertised.get))
        self.broker.quotas.clock_ns = lambda: round(trio.current_time() * 1_000_000_000)
        self.dispatcher = Dispatcher(self.broker, loads_in_threads=True)
        application = self.watch.around(self.dispatcher, self.broker, self.journal)
        limits = limits_of(config)
        self.server = self.watch.server = compose(
            options,
            wiring,
            self.broker,
            application,
            JournalStorage(self.journal),
            limits=attrs.evolve(
                limits,
                bytes_max=scenario.queued_bytes_max,
                drain_seconds=DRAIN_SECONDS,
                connection=attrs.evolve(
                    limits.connection, unsent_bytes_max=scenario.unsent_bytes_max, slot_seconds_max=float("inf")
                ),
            ),
            commit_pace=AnyPace(),
            executor=self._new_commits(),
            response_order=self.watch.response_order(world.parts.response_order),
        )
        await self._serve(task_status)

    async def _end(self):
        if self.ended_by != "killed":
            await self._close()
            self.watch.check_nothing_held()
        for client in self.clients:
            await client.wait_until_over()

    # What differs with the machine that it runs on

    def _machine(self):
        """Its disk, and the trace of its events."""
        return self.world.disk, self.world.trace

    async def _open(self, config, ports):
        """The journal and the broker, recovered."""
        return open_broker(
            DATA,
            config,
            files=self.disk.files,
            segment_bytes=SEGMENT_BYTES,
            ports=ports,
            randomness=self.world.randomness,
        )

    def _new_commits(self):
        return self.world.new_commits()

    async def _start_maintenance(self, nursery):
        """What a broker does beside serving."""
        await nursery.start(prepare_ahead, self.journal, self.wiring.prepare_wanted)
        await nursery.start(sync_in_time, self.journal, self.wiring.sync_wanted)

    async def _close(self):
        self.journal.close()

    def next_connection(self):
        """The number that the server gives the next connection."""
        self.connections += 1
        return self.connections - 1

    async def connect(self, transport, plan, nursery, client):
        """Take a connection."""
        await self.server.connect(transport, peer=plan.name, listener=plan.listener)

    async def wait_until_awake(self, client):
        """Return when what it sent reaches its clients."""

    @property
    def is_latest(self):
        """Whether what it says of the present must be so: no other process has begun to take over from it."""
        return True

    def check_stored(self, ticket):
        """Complain when a commit is not where it must be, which the journal says to be durable."""

    def explains(self, error_code):
        """Whether its machine is why a request is refused with this error."""
        return False

    def _check_stop(self, seconds):
        """It ended in time, and unless the time was over every request that it started was answered."""
        if seconds > DRAIN_SECONDS + self.stop_seconds_more:
            self.world.complain(f"the stop took {seconds} s")
        if seconds < DRAIN_SECONDS:
            for client in self.clients:
                if not client.is_ended_by_us and client.index not in self.watch.closed_by_us:
                    started = self.watch.started(client.index)
                    missing = [one for one in client.requests[:started] if one is not None and one.is_missing]
                    if missing:
                        self.world.complain(
                            f"{client!r}: of {started} requests started these have no answer: {missing}"
                        )

    async def _serve(self, task_status):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_timer, self.broker, self.wiring.timer)
            await nursery.start(self._run_server, nursery.cancel_scope)
            await self._start_maintenance(nursery)
            task_status.started()

    async def _run_server(self, scope, task_status):
        try:
            await self.server.run(listeners(self.world.complain), task_status=task_status)
        except CommitFailedError:
            self.ended_by = "failed"
        scope.cancel()

    def _injected(self, request):
        """Whether a handler may raise: a client knows the request, and tells it as refused."""
        client = next((one for one in self.clients if one.index == request.connection.index), None)
        return client is not None and client.will_fail(request.sequence)

    def stop(self):
        """As a signal does."""
        self.stopped_at = trio.current_time()
        self.server.stop()
        self.broker.fetches.end()

    def kill(self, *, power):
        """End at once; with the power goes what the disk did not sync."""
        self.ended_by = "killed"
        if power:
            self.disk.power_cut()
        else:
            self.disk.files.kill()
        for client in self.clients:
            client.cut()
        self._scope.cancel()

    @property
    def is_serving(self):
        return self.server is not None and self.ended_by is None and not self.server._stopping.is_set()


class World:
    """The scenario as it goes on.

    Attributes:
        complaints: what was not as it must be.
        paused: (life, from, until, indexes of the connections on others) of a queue that stood still.
        is_over: no broker will serve again.
        requests_in_turns: how many requests took several turns.
        retry_seconds: after which a client tries again what the machine has refused.
        seen: how often what is of interest has happened.
    """

    retry_seconds = RETRY_SECONDS
    seen = MappingProxyType({})

    def __init__(self, scenario, parts):
        self.scenario = scenario
        self.parts = parts
        self.trace = Trace()
        self.history = History()
        self.transfers = Transfers()
        self.ownership = Ownership(SESSION_MS / 1000)
        self.disk = SimulatedDisk(scenario.seed, is_cold=scenario.is_cold)
        self.randomness = random.Random(f"ids {scenario.script_seed}")
        self._thread_dice = random.Random(f"threads {scenario.seed}")
        self.complaints = []
        self.connections = []
        self.life = None
        self.is_over = False
        self.topic_id = None
        self.paused = None
        self.requests_in_turns = 0
        self._changed = trio.lowlevel.ParkingLot()

    def new_commits(self):
        """What runs the commits of a life."""
        kind, delays = self.parts.commits, self.scenario.commit_delays
        if kind is ScriptedCommits and self.scenario.has_threads:
            return DrawnCommits(delays, self.trace, self._thread_dice)
        return kind(delays, self.trace)

    def complain(self, text):
        self.complaints.append(f"{trio.current_time() * 1000:.3f} ms: {text}")

    def changed(self):
        self._changed.unpark_all()

    def new_life(self):
        self.disk.new_life()
        return Life(self)

    def end_faults(self):
        """From here on nothing of the machine fails."""
        self.disk.fail_later(None, 0)

    async def begin_last_life(self, nursery):
        """The broker that is read: that which served, unless it failed, or the scenario has another show its disk."""
        self.end_faults()
        self.is_over = False
        life = self.life
        if life.watch.failed_at is not None or not life.is_serving:
            await self.wait_until_ended(life)
        elif self.scenario.restarts:
            await self.stop_life()
        if life.is_over:
            await self.begin_life(nursery)

    async def begin_life(self, nursery):
        self.life = self.new_life()
        self.trace.note("life")
        await nursery.start(self._live, self.life)
        self.changed()
        return self.life

    async def _live(self, life, task_status):
        await life.run(task_status)
        self.trace.note("life ended", life.ended_by)
        life.is_over = True
        self.changed()

    async def wait_until_ended(self, life):
        while not life.is_over:
            await self._changed.park()

    async def end_lives(self):
        """Stop the broker that was read."""
        await self.stop_life()

    async def stop_life(self):
        self.life.stop()
        await self.wait_until_ended(self.life)

    def end(self):
        """Tell the clients that no broker will serve again."""
        self.is_over = True
        self.changed()

    async def serving_life(self):
        """The life that serves, waiting for one; None when there will be none."""
        while not self.is_over:
            if self.life.is_serving:
                return self.life
            await self._changed.park()
        return None

    async def prepared(self, names):
        """Return when the topics that were made are there for all clients."""

    async def connect(self, plan, nursery):
        """A connection to the broker that serves; None when there will be none."""
        life = await self.serving_life()
        return None if life is None else await self.connect_to(life, plan, nursery)

    async def connect_to(self, life, plan, nursery):
        network = plan.network
        transport, end = memory_connection(
            capacity_bytes=network.capacity_bytes,
            receive_sizes=network.receive_sizes,
            send_sizes=network.send_sizes,
        )
        index = life.next_connection()
        client = WireClient(plan.name, index, end, network, correlation_ids(plan.correlations), self.complain, life)
        life.clients.append(client)
        self.connections.append(client)
        self.trace.note("connect", index, plan.name)
        try:
            await life.connect(transport, plan, nursery, client)
        except trio.BrokenResourceError:  # the processor ended in the meantime
            transport.close()
        nursery.start_soon(client.receive_all)
        if plan.listener == SASL:
            with suppress(Gone):  # it will find out by itself
                client.send(*proof(client, self.complain))
        return client


def correlation_ids(style):
    """The ids that a client uses, one after the other."""
    if style == "same":
        return itertools.repeat(7)
    if style == "pairs":
        return (place // 2 % 3 for place in itertools.count())
    return itertools.count(2**31 - 1, -1) if style == "down" else itertools.count()
