"""Brokers of a cluster, a process and a disk each, and the supervisor that starts them again.

Rules of this file: the way between the processes is simulated (`peer_links`); who joins, leads, forwards and sends
markers is the product. Each process has a wall clock of its own, which is wrong and runs at a wrong rate. A node is a
broker over its processes; one that ended begins anew on its disk.
"""

import errno
import os
import random
from collections import Counter
from types import SimpleNamespace

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.node.assembly import AssembledBroker
from pipeline_broker.node.cluster_role import role_of
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.supervisor import RESTART_SECONDS
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from tests.simulation.disk import SimulatedDisk
from tests.simulation.environment import EPOCH_MS, MILLISECOND
from tests.simulation.leaders import Leaders
from tests.simulation.listeners import LISTENERS
from tests.simulation.ownership import Ownership
from tests.simulation.peer_links import PeerLinks, PeerSockets
from tests.simulation.routed_client import RoutedClient
from tests.simulation.scenario import SESSION_MS
from tests.simulation.world import DATA, SEGMENT_BYTES, Life, World

CONTROLLER = 1
PORT = 9092
METADATA = "__cluster_metadata"
DISK_ERRORS = (os.strerror(errno.EIO), "simulated")
SETTLED_SECONDS_MAX = 15.0
"""After the last fault: more than a controller waits for members that do not join again."""
SETTLED_POLL_SECONDS = 0.02
SENT_SECONDS = 0.01
"""A request is sent by then."""
ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # the coordinator of a transaction is out of reach
        ErrorCode.REQUEST_TIMED_OUT,  # a forwarded request got no answer
    }
)
"""Errors that a broker answers because of others; clients try again."""


class NodeTrace:
    """The trace of one node."""

    def __init__(self, trace, node_id):
        self._trace, self._node_id = trace, node_id

    def note(self, event, *facts):
        self._trace.note(f"{self._node_id}: {event}", *facts)


@attrs.define(eq=False)
class Node:
    """A broker over its processes.

    Attributes:
        life: the latest process; None before the first.
    """

    node_id: int
    disk: SimulatedDisk
    trace: NodeTrace
    life: object = None


class ClusterLife(Life):
    """One process of a node."""

    def __init__(self, world, node):
        self.node = node
        super().__init__(world)
        self._clock = world.scenario.cluster.clocks[node.node_id - 1]
        self.settings = (("node.id", str(node.node_id)),)
        self.advertised = dict.fromkeys(LISTENERS, ("broker.test", PORT + node.node_id))
        self.sockets = PeerSockets(world.links, self, node.node_id)
        self.role = role_of(self.sockets, node.node_id)
        self.marker_late_ms = 0  # the next marker for another broker arrives that late, and this process ends
        self._is_ready = False
        self._count_requests()

    async def run(self, task_status):
        try:
            await super().run(task_status)
        except StartError as error:
            self.sockets.kill()
            self.ended_by = "failed"
            if not any(text in str(error) for text in DISK_ERRORS):
                self.world.complain(f"broker {self.node.node_id} does not start: {error}")

    def _machine(self):
        return self.node.disk, self.node.trace

    def _count_requests(self):
        """Count requests to other brokers."""
        role, seen, ask, forward = self.role, self.world.seen, self.role.ask, self.role.forward

        def counted_ask(node_id, request, *arguments):
            seen[f"{type(request).__name__} to another broker"] += 1
            if isinstance(request, WriteTxnMarkersRequest) and self.marker_late_ms:
                self.sockets.hold(node_id, self.marker_late_ms * MILLISECOND)
                self.marker_late_ms = 0
                trio.lowlevel.spawn_system_task(self._kill_soon)
            ask(node_id, request, *arguments)

        def counted_forward(request):
            seen["a request was forwarded"] += 1
            return forward(request)

        role.ask, role.forward = counted_ask, counted_forward

    def clock_ms(self):
        offset_ms, rate = self._clock
        return EPOCH_MS + offset_ms + round(trio.current_time() * 1000 * rate)

    async def _open(self, config, ports):
        journal, broker = open_broker(
            DATA,
            config,
            files=self.disk.files,
            segment_bytes=SEGMENT_BYTES,
            ports=ports,
            randomness=self.world.randomness,
            metadata=await self.role.join(self.advertised),
        )
        self._watch_leader(journal)
        return journal, broker

    def _watch_leader(self, journal):
        write, leaders, node_id = journal.write, self.world.leaders, self.node.node_id

        def watched_write(entries):
            for log in {entry.log: None for entry in entries}:
                if log.topic != METADATA:
                    for text in leaders.appends(node_id, log.topic, log.partition, log.leader_epoch):
                        self.world.complain(text)
            return write(entries)

        journal.write = watched_write

    async def _close(self):
        self.sockets.kill()
        await super()._close()

    async def _start_maintenance(self, nursery):
        assembled = AssembledBroker(
            broker=self.broker,
            dispatcher=self.dispatcher,
            server=self.server,
            listeners=None,
            journal=self.journal,
            wiring=self.wiring,
        )
        await nursery.start(self.role.run, assembled)
        await super()._start_maintenance(nursery)
        self._is_ready = True

    @property
    def is_serving(self):
        return self._is_ready and super().is_serving

    def end(self):
        """As SIGTERM: an orderly stop, or the end of a startup."""
        if self.is_serving:
            self.stop()
        elif self.stopped_at is None:
            self.kill(power=False)

    def kill(self, *, power):
        if self.ended_by is None:
            if self.sockets.has_bytes_under_way:
                self.world.seen["bytes were under way when their process ended"] += 1
            self.sockets.kill()
            super().kill(power=power)

    async def _kill_soon(self):
        await trio.sleep(SENT_SECONDS)
        self.kill(power=False)

    def explains(self, error_code):
        return error_code in ELSEWHERE


class ClusterWorld(World):
    """Several nodes, which clients find by Metadata.

    Attributes:
        nodes: by their ids.
        links: between their processes.
        topics: names of the topics that clients use, once they are there.
    """

    retry_seconds = 0.05

    def __init__(self, scenario, parts):
        super().__init__(scenario, parts)
        plan = scenario.cluster
        self.links = PeerLinks(random.Random(f"links {scenario.seed}"), plan.delay_ms_max)
        self.nodes = {
            number: Node(
                number,
                SimulatedDisk(f"{scenario.seed} {number}", is_cold=scenario.is_cold),
                NodeTrace(self.trace, number),
            )
            for number in range(1, plan.brokers + 1)
        }
        self.leaders = Leaders()
        self.choices = random.Random(f"choices {scenario.seed}")
        self.topics = ()
        self.seen = Counter()
        fastest = max(rate for _, rate in plan.clocks)
        self.ownership = Ownership(SESSION_MS / 1000 / fastest)
        self._supervisor = self._nursery = None

    @property
    def lives(self):
        return [node.life for node in self.nodes.values()]

    @property
    def serving(self):
        return [life for life in self.lives if life is not None and life.is_serving]

    # The supervisor

    async def begin_life(self, nursery):
        self._nursery = nursery
        self._begin_supervisor()
        await self._wait_settled()

    def _begin_supervisor(self):
        self._supervisor = supervisor = object()
        for node in self.nodes.values():
            self._nursery.start_soon(self._keep, supervisor, node)

    async def _keep(self, supervisor, node):
        while self._supervisor is supervisor:
            node.disk.new_life()
            node.life = ClusterLife(self, node)
            node.trace.note("life")
            await self._live(node.life, SimpleNamespace(started=self.changed))
            await trio.sleep(RESTART_SECONDS)

    async def stop_life(self):
        """Stop all as the supervisor does: the controller last."""
        self._supervisor = None
        controller, *members = self.lives
        for some in (members, [controller]):
            for life in some:
                life.end()
            for life in some:
                await self.wait_until_ended(life)

    async def lose_supervisor(self):
        """The supervisor is killed: all brokers stop by themselves, and another one starts them."""
        if self._supervisor is None:
            return  # the same happens already
        self._supervisor = None
        lives = self.lives
        for life in lives:
            life.end()
        for life in lives:
            await self.wait_until_ended(life)
        self._begin_supervisor()

    def end_faults(self):
        self.links.heal_all()
        for node in self.nodes.values():
            node.disk.fail_later(None, 0)
            node.life.marker_late_ms = 0

    async def begin_last_life(self, nursery):
        self.end_faults()
        if self.scenario.restarts:
            await self.stop_life()
            self._begin_supervisor()
        await self._wait_settled()

    # What brokers know of each other

    async def _wait_settled(self):
        with trio.move_on_after(SETTLED_SECONDS_MAX):
            while self._unsettled():
                await trio.sleep(SETTLED_POLL_SECONDS)
            return
        self.complain(f"stuck: {self._unsettled()}")

    def _unsettled(self):
        """The disagreement of the brokers, as a text; None without one."""
        for node in self.nodes.values():
            if node.life is None or not node.life.is_serving:
                return f"broker {node.node_id} does not serve"
        expected = _view(self.nodes[CONTROLLER].life.broker)
        for node in self.nodes.values():
            broker = node.life.broker
            if _view(broker) != expected:
                return f"broker {node.node_id} knows {_view(broker)}, the controller {expected}"
            absent = [other for other in self.nodes if not broker.leadership.is_there(other)]
            if absent:
                return f"broker {node.node_id} does not see {absent}"
            for topic in broker.topics.all():
                closed = [number for number in range(topic.partitions) if _is_closed(broker, topic.name, number)]
                if closed:
                    return f"broker {node.node_id} does not serve {topic.name} {closed}"
        return None

    async def prepared(self, names):
        await self._wait_settled()
        self.topics = tuple(names)

    # Clients

    async def serving_life(self):
        while not self.serving:
            await trio.sleep(5 * MILLISECOND)
        return self.choices.choice(self.serving)

    async def connect(self, plan, nursery):
        client = RoutedClient(self, plan, nursery)
        await client.open()
        return client


def _view(broker):
    """Facts that all brokers must agree on."""
    image = broker.members.image
    return (
        {node_id: (node.generation, node.state is NodeState.JOINED) for node_id, node in image.nodes.items()},
        {topic.name: (topic, dict(image.partitions(topic.topic_id))) for topic in broker.topics.all()},
    )


def _is_closed(broker, topic, partition):
    """Return whether it leads a partition and does not serve it."""
    leader = broker.leadership.leader_of(topic, partition).broker_id
    return leader == broker.config.node_id and broker.logs.find(topic, partition) is None
