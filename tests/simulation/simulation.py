"""One scenario from its first connection to its last check.

Rules of this file: it is the whole story of a seed. The topic is made, the clients run while faults happen, what is
left is read by a plain reader, the broker stops, and everything that was not as it must be is a complaint. A broker
that ended behind a failure or without power is started again on its disk, so that it shows what it kept.
"""

import hashlib
from contextlib import nullcontext

import attrs
import trio

from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.simulation import asks, clients, cluster_faults, environment, faults, store_faults
from tests.simulation.cluster_life import ClusterWorld
from tests.simulation.history import anomalies
from tests.simulation.peer_links import on_links
from tests.simulation.scenario import Act, ClientPlan, draw
from tests.simulation.small_turns import small_turns
from tests.simulation.store_life import StoreWorld, on_store
from tests.simulation.transacting import read_transfers
from tests.simulation.transfers import TRANSFERS, transfer_anomalies
from tests.simulation.watch import TOPIC, InjectedError
from tests.simulation.wire_client import Ask, Network
from tests.simulation.world import Parts, World

GROUP_KEY, TRANSACTION_KEY = 0, 1
STORE_PATIENCE_SECONDS = 1000.0
"""The same with a store that may be away for minutes."""
CLUSTER_PATIENCE_SECONDS = 90.0
"""The same with several brokers, of which some may wait for others for seconds."""
PATIENCE_SECONDS = 60.0
"""Virtual; every scenario ends within a fraction of it unless something is stuck for good."""
PAUSE_SPREAD_SECONDS_MAX = 1.0
"""A request beside a queue that stands still waits for its own commits only: some of at most 8 ms."""


@attrs.frozen
class Outcome:
    """What is left of a scenario.

    Attributes:
        complaints: what was not as it must be; empty when all is well.
        events: the whole trace, with times.
        fingerprint: of the schedule.
        answers: client -> the payloads that it received, for comparing modes.
        final: partition -> [(offset, value)].
        requests: how many clients sent.
        requests_in_turns: how many requests took several turns.
        seen: how often what is of interest has happened, in a store.
    """

    scenario: object
    complaints: tuple
    events: tuple
    fingerprint: str
    answers: dict
    final: dict
    requests: int
    requests_in_turns: int
    seen: object

    @property
    def digest(self):
        """Equal for runs that were equal in every event, answer and record."""
        return hashlib.blake2b(repr((self.events, self.answers, self.final)).encode(), digest_size=16).hexdigest()


def simulate(seed, parts=None, draw=draw):
    """Simulate the scenario of a seed; both modes where it is about their agreement."""
    scenario = draw(seed)
    outcome = run(scenario, parts)
    if scenario.kind != "agreement":
        return outcome
    other = run(attrs.evolve(scenario, mode="classic" if scenario.mode == "pipelined" else "pipelined"), parts)
    disagreements = [
        f"{name} got other answers in the other mode"
        for name in outcome.answers
        if outcome.answers[name] != other.answers.get(name)
    ]
    if outcome.final != other.final:
        disagreements.append(f"the logs differ: {outcome.final} and {other.final}")
    return attrs.evolve(outcome, complaints=(*outcome.complaints, *other.complaints, *disagreements))


def run(scenario, parts=None):
    """One run of a scenario."""
    with (
        small_turns() if scenario.has_small_turns else nullcontext(),
        on_links() if scenario.cluster is not None else nullcontext(),
        on_store(scenario.store) if scenario.store is not None else environment.inline_work(scenario.work_delays),
    ):
        outcome, errors = environment.run(scenario.seed, _run, scenario, parts or Parts())
    bugs = [f"a bug was survived: {error!r}" for error in errors if not isinstance(error, InjectedError)]
    return attrs.evolve(outcome, complaints=(*outcome.complaints, *bugs))


@attrs.frozen
class Machine:
    """What a scenario runs on: its world, what befalls it, and when it is stuck, in virtual seconds."""

    world: type
    befalls: object
    patience_seconds: float


def _machine_of(scenario):
    if scenario.store is not None:
        return Machine(StoreWorld, store_faults, STORE_PATIENCE_SECONDS)
    if scenario.cluster is not None:
        return Machine(ClusterWorld, cluster_faults, CLUSTER_PATIENCE_SECONDS)
    return Machine(World, faults, PATIENCE_SECONDS)


async def _run(scenario, parts):
    machine = _machine_of(scenario)
    world = machine.world(scenario, parts)
    final = transferred = {}
    with trio.move_on_after(machine.patience_seconds) as patience:
        async with trio.open_nursery() as nursery:
            await world.begin_life(nursery)
            await _prepare(world, nursery)
            await _play(world, nursery, machine.befalls)
            await world.begin_last_life(nursery)
            final, transferred = await _read_back(world, nursery)
            await world.end_lives()
    if patience.cancelled_caught:
        world.complain(f"stuck: {[f'{c!r}: {c.in_flight} unanswered' for c in world.connections if not c.is_over]}")
    else:
        world.complaints += [
            *anomalies(world.history, final),
            *transfer_anomalies(world.transfers, transferred),
            *_pause_spread(world),
        ]
    return Outcome(
        scenario=scenario,
        complaints=tuple(world.complaints),
        events=tuple(world.trace.events),
        fingerprint=world.trace.fingerprint,
        answers={c.name: tuple(c.answers) for c in world.connections if c.name in {p.name for p in scenario.clients}},
        final=final,
        requests=sum(len(connection.exchanges) for connection in world.connections),
        requests_in_turns=world.requests_in_turns,
        seen=world.seen,
    )


def _plain(name):
    return ClientPlan(name, "mixed", (), 1, (1,), 0.0, "count", Network())


async def _prepare(world, nursery):
    """Make the topic, and the one of committed offsets."""
    client = await world.connect(_plain("admin"), nursery)
    has_transactions = any(plan.kind == "transactional" for plan in world.scenario.clients)
    topics = [
        CreateTopicsRequest.CreatableTopic(name, world.scenario.partitions, 1)
        for name in ((TOPIC, TRANSFERS) if has_transactions else (TOPIC,))
    ]
    (exchange,) = client.send(Ask(CreateTopicsRequest(topics=topics), 7))
    world.topic_id = (await client.wait_for(exchange)).topics[0].topic_id
    for key_type in (GROUP_KEY, TRANSACTION_KEY) if has_transactions else (GROUP_KEY,):
        (exchange,) = client.send(Ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=key_type), 4))
        await client.wait_for(exchange)
    await world.prepared([topic.name for topic in topics])
    if world.scenario.produce_quota:
        (exchange,) = client.send(Ask(_quota(world.scenario.produce_quota), 1))
        await client.wait_for(exchange)
    client.half_close()
    await client.wait_until_over()


def _quota(bytes_per_second):
    """For each client id."""
    entity = AlterClientQuotasRequest.EntityData("client-id", None)
    change = AlterClientQuotasRequest.OpData("producer_byte_rate", float(bytes_per_second), remove=False)
    return AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequest.EntryData([entity], [change])], validate_only=False
    )


async def _play(world, nursery, befalls):
    """Clients and faults, until the clients are done."""
    async with trio.open_nursery() as keeping:
        keeping.start_soon(befalls.keep_alive, world, nursery)
        async with trio.open_nursery() as playing:
            playing.start_soon(befalls.happen, world, nursery)
            for plan in world.scenario.clients:
                playing.start_soon(clients.run, world, plan)
        keeping.cancel_scope.cancel()


async def _read_back(world, nursery):
    """Partition -> [(offset, value)], by a plain reader, and of transactions; offsets are checked on the way."""
    client = await world.connect(_plain("reader"), nursery)
    final = {}
    for partition in range(world.scenario.partitions):
        act = Act("poll", partition)
        (exchange,) = client.send(asks.list_offsets(world, client, act, None))
        ((answer,),) = (topic.partitions for topic in (await client.wait_for(exchange)).topics)
        records = []
        while len(records) < answer.offset:
            request = asks.fetch_request(partition, len(records), act)
            (exchange,) = client.send(Ask(request, 12))
            ((found,),) = (topic.partitions for topic in (await client.wait_for(exchange)).responses)
            new = asks.take_read(world, client, len(records), found)
            if not new:
                world.complain(f"partition {partition} ends at {len(records)}, not at {answer.offset}")
                break
            records += [record for record in new if record[0] >= len(records)]
        final[partition] = records
    for group, partition in sorted(world.history.commits):
        ask = asks.committed(world, client, Act("committed", partition), None, group=group)
        (exchange,) = client.send(ask)
        await client.wait_for(exchange)
    transferred = await read_transfers(world, client)
    client.half_close()
    await client.wait_until_over()
    return final, transferred


def _pause_spread(world):
    """Requests that waited although the queue that stood still was not theirs."""
    if world.paused is None:
        return
    life, began, until, others = world.paused
    for connection in world.connections:
        if connection.index not in others or connection.life is not life:
            continue
        for exchange in connection.exchanges:
            if began <= exchange.sent_at < until and exchange.request and getattr(exchange.request, "acks", 1):
                waited = (exchange.answered_at or until) - exchange.sent_at
                if waited > PAUSE_SPREAD_SECONDS_MAX:
                    yield f"{connection!r} waited {waited} s for a queue that is not its own"
