"""A client of a simulated cluster: a connection to each broker, found by Metadata.

Rules of this file: to the kinds of clients it is one connection. A request goes to the leader of its partition, the
coordinator of its group or transaction, or any broker; now and then to a wrong one. It is opened once all that the
client needs has a broker. When one connection is lost, all are: the client opens another.
"""

import random

import attrs
import trio

from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.simulation.transfers import TRANSFERS
from tests.simulation.watch import TOPIC
from tests.simulation.wire_client import Ask, Gone

GROUP, TRANSACTION = 0, 1
ASTRAY = 0.02
"""Of the requests, how many go to a broker that another client's old view names."""
PAUSE_SECONDS_MAX = 0.5
"""Between two looks for the brokers."""
ON_TRANSFERS = frozenset({"transactional", "committed reader"})
READER = "reader"


def _partitions_of(request):
    """The (topic, partition) that a request is about; None for one of another kind."""
    if isinstance(request, ProduceRequest):
        return [(it.name, data.index) for it in request.topic_data for data in it.partition_data]
    if isinstance(request, FetchRequest):
        return [(it.topic, wanted.partition) for it in request.topics for wanted in it.partitions]
    if isinstance(request, ListOffsetsRequest):
        return [(it.name, wanted.partition_index) for it in request.topics for wanted in it.partitions]
    return None


def _key_of(request):
    """(type, key) for the coordinator of a request; None for one of another kind."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return TRANSACTION, request.v3_and_below_transactional_id
    group_id, transactional_id = getattr(request, "group_id", None), getattr(request, "transactional_id", None)
    if group_id is not None:
        return GROUP, group_id
    return None if transactional_id is None else (TRANSACTION, transactional_id)


class RoutedClient:
    """See the rules of the file.

    Attributes:
        life: of the broker whose answer came last.
    """

    def __init__(self, world, plan, nursery):
        self.name = plan.name
        self.life = None
        self._world, self._plan, self._nursery = world, plan, nursery
        self._dice = random.Random(f"routes {world.scenario.seed} {plan.name} {len(world.connections)}")
        self._changed = trio.lowlevel.ParkingLot()
        self._wires = {}  # by node
        self._nodes = {}  # partition, or key of a coordinator -> node
        self._wire_of = {}  # by exchange

    def __repr__(self):
        return f"client {self.name}"

    # Opening

    async def open(self):
        pause = self._world.retry_seconds
        while True:
            try:
                if await self._find():
                    return
            except Gone:
                pass
            self.reset()
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _find(self):
        """Whether all that the client needs has a broker."""
        self._wires, self._nodes = {}, {}
        first = await self._wire(await self._world.serving_life())
        await self._ask_metadata(first)
        for node in list(self._world.nodes.values()):
            if node.node_id not in self._wires and node.life.is_serving:
                await self._wire(node.life)
        for kind, keys in self._keys().items():
            await self._find_coordinators(first, kind, keys)
        wanted = [*self._partitions(), *((kind, key) for kind, keys in self._keys().items() for key in keys)]
        return all(self._nodes.get(one) in self._wires for one in wanted)

    async def _wire(self, life):
        wire = await self._world.connect_to(life, self._plan, self._nursery)
        wire._changed = self._changed
        self._wires[life.node.node_id] = wire
        return wire

    async def _ask_metadata(self, wire):
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in self._world.topics]
        (exchange,) = wire.send(Ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12))
        answer = await wire.wait_for(exchange)
        for topic in answer.topics:
            if topic.error_code:
                self._world.complain(f"{wire!r}: {topic.name} was answered {topic.error_code}")
            for each in topic.partitions:
                place = topic.name, each.partition_index
                for text in self._world.leaders.told(each.leader_id, *place, each.leader_epoch):
                    self._world.complain(f"{wire!r}: {text}")
                self._nodes[place] = each.leader_id

    async def _find_coordinators(self, wire, kind, keys):
        if not keys:
            return
        (exchange,) = wire.send(Ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4))
        answer = await wire.wait_for(exchange)
        for each in answer.coordinators:
            if not each.error_code:
                self._nodes[kind, each.key] = each.node_id

    def _partitions(self):
        world, plan = self._world, self._plan
        if plan.name == READER:
            return [(topic, number) for topic in world.topics for number in range(world.scenario.partitions)]
        topic = TRANSFERS if plan.kind in ON_TRANSFERS else TOPIC
        spread = max((act.count for act in plan.acts), default=1) if plan.kind == "transactional" else 1
        return sorted(
            {(topic, (act.partition + i) % world.scenario.partitions) for act in plan.acts for i in range(spread)}
        )

    def _keys(self):
        world, plan = self._world, self._plan
        if plan.name == READER:
            return {
                GROUP: sorted({group for group, _ in world.history.commits}),
                TRANSACTION: sorted(world.transfers.owners),
            }
        groups = {"mixed": plan.name, "member": f"group {plan.name}", "modern member": plan.shared}
        return {
            GROUP: [groups[plan.kind]] if plan.acts and plan.kind in groups else [],
            TRANSACTION: [plan.shared] if plan.kind == "transactional" else [],
        }

    # As one connection

    def _route(self, ask, astray):
        """The connection for a request; a wrong one for all of a burst that are about the same."""
        if not ask.is_request:
            return next(iter(self._wires.values()))
        partitions = _partitions_of(ask.request)
        subject = partitions[0] if partitions else _key_of(ask.request)
        has_answer = bool(getattr(ask.request, "acks", 1))  # without one, it would be lost on a wrong way
        if has_answer and subject not in astray:
            is_astray = self.name != READER and self._dice.random() < ASTRAY
            astray[subject] = self._any() if is_astray or subject is None else self._nodes.get(subject)
        wire = self._wires.get(astray[subject] if has_answer else self._nodes.get(subject))
        if wire is None or wire.is_over:
            raise Gone
        return wire

    def _any(self):
        return self._dice.choice(list(self._wires))

    def send(self, *asks):
        bursts, exchanges, astray = {}, {}, {}
        for place, ask in enumerate(asks):
            wire = self._route(ask, astray)
            bursts.setdefault(wire, []).append((place, attrs.evolve(ask, on_answer=self._noting(wire, ask.on_answer))))
        for wire, burst in bursts.items():
            sent = wire.send(*(ask for _, ask in burst))
            exchanges |= zip((place for place, _ in burst), sent, strict=True)
            self._wire_of.update(dict.fromkeys(sent, wire))
        return [exchange for _, exchange in sorted(exchanges.items())]

    def _noting(self, wire, on_answer):
        """Note whose answer it is, before it is checked."""
        if on_answer is None:
            return None

        def noted(exchange):
            self.life = wire.life
            on_answer(exchange)

        return noted

    def send_unserved(self):
        self._wires[self._any()].send_unserved()

    async def wait_for(self, exchange):
        wire = self._wire_of[exchange]
        answer = await wire.wait_for(exchange)
        self.life = wire.life
        return answer

    @property
    def in_flight(self):
        return sum(wire.in_flight for wire in self._wires.values())

    async def wait_for_room(self, in_flight_max):
        while self.in_flight >= in_flight_max:
            await self._changed.park()
        if any(wire.is_over for wire in self._wires.values()):
            raise Gone

    @property
    def is_over(self):
        return all(wire.is_over for wire in self._wires.values())

    async def wait_until_over(self):
        while not self.is_over:
            await self._changed.park()

    def half_close(self):
        for wire in self._wires.values():
            wire.half_close()

    def reset(self):
        for wire in self._wires.values():
            wire.reset()
