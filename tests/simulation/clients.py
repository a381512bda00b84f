"""The clients of a simulation: what each kind does with its acts, over as many connections as it takes.

Rules of this file: a client is one task, plus one that receives; it ends when its acts are done or no broker will serve
again. A lost connection is opened again; what was unanswered on it stays unknown, except for an idempotent producer,
which sends it again until it knows.
"""

import itertools
from collections import Counter, deque

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from tests.simulation import asks
from tests.simulation.history import Fate
from tests.simulation.listeners import proof
from tests.simulation.modern_members import ModernMember
from tests.simulation.transacting import CommittedReader, Transactional
from tests.simulation.wire_client import Ask, Gone

IN_FLIGHT_IDEMPOTENT = 5
"""Batches of a producer that a broker remembers, hence the most that Kafka's clients keep in flight."""
CONNECTIONS_MAX = 60


async def run(world, plan):
    """Do what the plan says."""
    doing = KINDS[plan.kind](world, plan)
    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS_MAX):
            client = await world.connect(plan, nursery)
            if client is None:
                return
            if plan.reset_after is not None:
                nursery.start_soon(_reset, client, plan.reset_after)
                plan = attrs.evolve(plan, reset_after=None)
            try:
                await doing.go_on(client)
            except Gone:
                client.reset()
                await trio.sleep(world.retry_seconds)
                continue
            client.half_close()
            await client.wait_until_over()
            return
    world.complain(f"{plan.name} lost its connection {CONNECTIONS_MAX} times")


async def _reset(client, seconds):
    await trio.sleep(seconds)
    client.reset()


class Mixed:
    """Requests of all kinds, in bursts; nothing is sent twice."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan
        self.acts = deque(plan.acts)
        self.streams = itertools.count()

    async def go_on(self, client):
        plan, acts = self.plan, self.acts
        stream = f"{plan.name}-{next(self.streams)}"
        client.sequence, client.has_gap = 0, False
        for burst in itertools.cycle(plan.bursts):
            if not acts:
                break
            await self._send(client, stream, burst)
            await client.wait_for_room(plan.window)
            await trio.sleep(plan.pause)
        await client.wait_for_room(1)

    async def _send(self, client, stream, burst):
        """As many acts as the burst has, up to one that must wait."""
        ready = []
        while self.acts and len(ready) < burst and self.acts[0].kind not in {"unserved", "barrier"}:
            act = self.acts.popleft()
            if act.kind == "again":
                ready += proof(client, self.world.complain)
            else:
                ready.append(asks.ASKS[act.kind](self.world, client, act, stream))
        if ready:
            client.send(*ready)
        elif self.acts.popleft().kind == "unserved":
            client.send_unserved()
        else:
            await client.wait_for_room(1)


@attrs.define(eq=False)
class Numbered:
    """A batch of an idempotent producer.

    Attributes:
        is_out: it was sent and not answered, so far.
        may_be_there: a connection was lost while it was out.
        was_refused: in the round at hand.
        place: how many batches of its partition are before it.
    """

    batch: object
    sequence: int
    place: int
    act: object
    is_bad: bool
    is_out: bool = False
    may_be_there: bool = False
    was_refused: bool = False


class Idempotent:
    """Kafka's idempotent producer: several in flight, and after a refusal all is sent again from the gap on."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan
        self.acts = deque(plan.acts)
        self.producer = None
        self.next_sequence = {}
        self.numbered = Counter()
        self.open = {}  # partition -> batches that are not acknowledged, in order
        self.must_wait = False  # the machine refuses what is written
        self.gives_up = False  # what it was answered is wrong, and would be again, for ever

    async def go_on(self, client):
        if self.producer is None:
            await self._init(client)
        self._take_out()  # the round before may have ended in the middle
        while (self.acts or any(self.open.values())) and not self.gives_up:
            self._number()
            self.must_wait = False
            exchanges = self._send(client)
            for exchange in exchanges:
                await client.wait_for(exchange)
            self._take_out()
            await trio.sleep(self.world.retry_seconds if self.must_wait else self.plan.pause)

    async def _init(self, client):
        (exchange,) = client.send(asks.producer_id(self.world, client, None, None))
        answer = await client.wait_for(exchange)
        if answer.error_code:
            await trio.sleep(self.world.retry_seconds)
            raise Gone  # the scenario failed it: once more
        self.producer = answer.producer_id, answer.producer_epoch

    def _number(self):
        """Take new acts up to the most in flight."""
        while self._may_number():
            act = self.acts.popleft()
            batch = self.world.history.send(self.plan.name, act.partition, act.count, b"x" * act.size)
            sequence = self.next_sequence.get(act.partition, 0)
            self.next_sequence[act.partition] = sequence + act.count
            place = self.numbered[act.partition]
            self.numbered[act.partition] += 1
            self.open.setdefault(act.partition, []).append(Numbered(batch, sequence, place, act, act.is_bad))

    def _may_number(self):
        """Whether the next act may get a sequence number.

        A broker knows again the last five batches of a producer, so none that may be there is left farther behind.
        """
        if not self.acts or sum(map(len, self.open.values())) >= IN_FLIGHT_IDEMPOTENT:
            return False
        partition = self.acts[0].partition
        first = next(iter(self.open.get(partition, ())), None)
        return first is None or self.numbered[partition] - first.place < IN_FLIGHT_IDEMPOTENT

    def _send(self, client):
        producer_id, epoch = self.producer
        ready = []
        for one in sorted(itertools.chain(*self.open.values()), key=lambda one: one.batch.number):
            one.may_be_there = one.may_be_there or one.is_out
            one.is_out, one.was_refused = True, False
            producer = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": one.sequence}
            records = asks.batch_bytes(one.batch, is_bad=one.is_bad, **producer)
            request = asks.produce_request(one.act.partition, -1, records)
            ready.append(Ask(request, one.act.version, self._on_answer(client, one)))
        return client.send(*ready) if ready else []

    def _on_answer(self, client, one):
        world = self.world

        def on_answer(exchange):
            answer = asks.partition_answer(exchange)
            one.is_out = False
            earlier = [other for other in self.open[one.act.partition] if other.sequence < one.sequence]
            if answer.error_code == ErrorCode.NONE:
                if any(other.was_refused and not other.may_be_there for other in earlier) or one.is_bad:
                    world.complain(f"{client!r}: {one.batch.values[0]!r} was accepted in spite of the gap before it")
                one.batch.acknowledge(answer.base_offset)
                offsets = range(answer.base_offset, answer.base_offset + one.act.count)
                client.life.watch.check_durable(f"{client!r} got an acknowledgement", one.act.partition, offsets)
                return
            one.was_refused = True
            if client.life.explains(answer.error_code):
                self.must_wait = True
                return
            explained = {ErrorCode.CORRUPT_MESSAGE} if one.is_bad else set()
            if any(other.was_refused for other in earlier):
                explained.add(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if answer.error_code not in explained | {asks.FAILED}:
                name = ErrorCode(answer.error_code).name
                world.complain(f"{client!r}: {one.batch.values[0]!r} was answered {name}, and no gap is before it")
                self.gives_up = True
            if answer.error_code == ErrorCode.CORRUPT_MESSAGE:
                one.is_bad = False  # the next time it arrives whole

        return on_answer

    def _take_out(self):
        for partition, batches in self.open.items():
            self.open[partition] = [one for one in batches if one.batch.fate is not Fate.ACKNOWLEDGED]


class Consumer:
    """Polls one partition from where it is, perhaps in a fetch session."""

    def __init__(self, world, plan):
        self.world = world
        self.acts = deque(plan.acts)
        self.plan = plan
        self.partition = plan.acts[0].partition
        self.position = 0

    async def go_on(self, client):
        session = (0, 0) if self.acts and self.acts[0].kind == "session poll" else (0, -1)
        while self.acts:
            request = asks.fetch_request(self.partition, self.position, self.acts[0], session)
            (exchange,) = client.send(Ask(request, 12, self._on_answer(client)))
            answer = await client.wait_for(exchange)
            if answer.error_code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                session = (0, 0)
            elif answer.session_id and answer.error_code == ErrorCode.NONE:
                session = (answer.session_id, session[1] + 1)
            self.acts.popleft()
            await trio.sleep(self.plan.pause)

    def _on_answer(self, client):
        position = self.position

        def on_answer(exchange):
            for topic in exchange.answer.responses:
                for answer in topic.partitions:
                    records = asks.take_read(self.world, client, position, answer)
                    if records:
                        self.position = records[-1][0] + 1

        return on_answer


class Member:
    """A member of a group of its own or of one it shares: joins, syncs, commits, and leaves by closing."""

    def __init__(self, world, plan):
        self.world = world
        self.acts = deque(plan.acts)
        self.group = f"group {plan.name}"
        self.member_id = ""

    async def go_on(self, client):
        while self.acts:
            generation = await self._join(client)
            while self.acts and generation is not None:
                act = self.acts[0]
                if act.kind == "commit":
                    ask = asks.commit(
                        self.world, client, act, None, group=self.group, member=(generation, self.member_id)
                    )
                else:
                    ask = Ask(HeartbeatRequest(self.group, generation, self.member_id), 4)
                (exchange,) = client.send(ask)
                answer = await client.wait_for(exchange)
                self.acts.popleft()
                if act.kind == "heartbeat" and answer.error_code:
                    generation = None

    async def _join(self, client):
        """The generation that was joined; None where it has to be tried again."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=500,
            rebalance_timeout_ms=300,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        (exchange,) = client.send(Ask(request, 5))
        joined = await client.wait_for(exchange)
        if joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID):
            self.member_id = joined.member_id if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
            return None
        if joined.error_code:
            await trio.sleep(self.world.retry_seconds)
            return None
        self.member_id = joined.member_id
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member.member_id, b"all") for member in joined.members
        ]
        (exchange,) = client.send(
            Ask(SyncGroupRequest(self.group, joined.generation_id, self.member_id, assignments=assignments), 3)
        )
        synced = await client.wait_for(exchange)
        if not synced.error_code and synced.assignment != b"all":
            self.world.complain(f"{client!r}: the assignment became {synced.assignment!r}")
        return None if synced.error_code else joined.generation_id


KINDS = {
    "mixed": Mixed,
    "idempotent": Idempotent,
    "consumer": Consumer,
    "member": Member,
    "transactional": Transactional,
    "committed reader": CommittedReader,
    "modern member": ModernMember,
}
