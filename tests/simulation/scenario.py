"""What happens in a simulation, drawn from a seed.

Rules of this file: it draws and decides nothing else; a scenario holds numbers and texts only, so that it can be
printed. SCHEDULES_PER_SCRIPT neighbouring seeds share their script and differ in the schedule: counting distinct
schedules would prove nothing if every seed had another script.
"""

import random

import attrs

from tests.simulation.environment import MILLISECOND
from tests.simulation.store import StorePlan
from tests.simulation.wire_client import Network

SCHEDULES_PER_SCRIPT = 4
KINDS = {"traffic": 9, "crash": 5, "shutdown": 3, "agreement": 3, "pause": 1}
"""What scenarios are about, and how often."""
THREADS_SHARE = 1 / 3
"""Of all scenarios, in how many commits run as several threads would run them."""
IN_TURNS_SHARE = 0.4
"""Of all scenarios, in how many turns are so small that most requests take several."""
SESSION_MS = 60
"""Of groups of the consumer protocol."""
TRANSACTIONS_SHARE = 0.12
MODERN_GROUPS_SHARE = 0.1
"""Of the scenarios in which anything may happen, how many have such clients."""
OTHERS_MAX = 1
"""Clients of other kinds beside these, so that such a scenario takes no longer than others."""
CORRELATIONS = ("count", "same", "pairs", "down")


@attrs.frozen
class Act:
    """One thing that a client does; what its numbers mean is told where it is carried out."""

    kind: str
    partition: int = 0
    acks: int = -1
    version: int = 9
    count: int = 1
    size: int = 0
    wait: int = 0
    bytes_min: int = 1
    is_bad: bool = False


@attrs.frozen
class ClientPlan:
    """What one client does.

    Attributes:
        kind: "mixed", "idempotent", "consumer", "member", "transactional", "committed reader" or "modern member".
        acts: one after the other.
        window: unanswered requests at which it waits.
        bursts: how many acts it does at once, over and over.
        pause: seconds between bursts.
        correlations: one of CORRELATIONS.
        listener: which it comes by; see `listeners`.
        reset_after: it resets its connection so many seconds after it was opened; None for never.
        shared: the transactional id or the group, which others may have, too.
        timeout_ms: of its transactions, or of its group's rebalances.
    """

    name: str
    kind: str
    acts: tuple
    window: int
    bursts: tuple
    pause: float
    correlations: str
    network: Network
    listener: str = "PLAINTEXT"
    reset_after: float | None = None
    shared: str = ""
    timeout_ms: int = 60_000


@attrs.frozen
class Fault:
    """Something that happens to the broker: a name, a time in seconds, a number."""

    kind: str
    at: float
    number: int = 0


@attrs.frozen
class ClusterPlan:
    """Brokers of a cluster, what a message between them takes at most, and wall clocks: (milliseconds off, rate)."""

    brokers: int
    delay_ms_max: int
    clocks: tuple


@attrs.frozen
class Scenario:
    """One scenario; see docs/evidence/invariants.md for the kinds.

    Attributes:
        settings: of the broker.
        queued_bytes_max, unsent_bytes_max: see ServerLimits and ConnectionLimits; less than settings may say.
        raises, throttles, callbacks: of a thousand requests, how many have their handler raise, or throttle their
            connection, or are answered by a callback (those only that change nothing).
        produce_quota: bytes per second of each client; 0 for any number.
        throttle_max: the longest throttle, in seconds.
        restarts: the final read is of a broker that was started again.
        has_small_turns: most requests take several turns, see `small_turns`.
        has_threads: commits run as several threads would run them, in a drawn order of their steps.
        store: that the journal and the archive are in; None for a disk.
        cluster: the brokers, if they are several; None for one.
    """

    seed: int
    script_seed: int
    kind: str
    mode: str
    settings: tuple
    queued_bytes_max: int
    unsent_bytes_max: int
    commits_in_flight: int
    commit_delays: tuple
    work_delays: tuple
    is_cold: bool
    partitions: int
    clients: tuple
    faults: tuple
    raises: int
    throttles: int
    callbacks: int
    throttle_max: float
    produce_quota: int
    restarts: bool
    has_small_turns: bool
    has_threads: bool
    store: StorePlan | None = None
    cluster: ClusterPlan | None = None


def draw(seed):
    """The scenario of a seed."""
    script_seed = seed // SCHEDULES_PER_SCRIPT
    dice = random.Random(f"script {script_seed}")
    return _draw(seed, script_seed, dice, dice.choices(list(KINDS), weights=KINDS.values())[0])


def draw_kind(seed, script, kind):
    """A scenario of a kind that is not in KINDS, with the dice of another script."""
    return _draw(seed, script, random.Random(f"script {script}"), kind)


def _draw(seed, script_seed, dice, kind):
    partitions = dice.randint(1, 3)
    is_troubled = kind in {"traffic", "crash", "shutdown"}
    more_clients = _more_clients(random.Random(f"more {script_seed}"), partitions) if is_troubled else ()
    has_threads = random.Random(f"threads {script_seed}").random() < THREADS_SHARE
    mode = "pipelined" if kind == "pause" else dice.choice(("classic", "pipelined", "pipelined"))
    return Scenario(
        seed=seed,
        script_seed=script_seed,
        kind=kind,
        mode=mode,
        settings=_settings(dice, kind, mode),
        queued_bytes_max=1 << 20 if kind == "pause" else dice.choice((600, 1 << 20, 1 << 20)),
        unsent_bytes_max=dice.choice((400, 3000, 1 << 20)),
        commits_in_flight=max(dice.choice((1, 1, 2, 3)), 1 + has_threads),
        commit_delays=_delays(dice, 8),
        work_delays=_delays(dice, 8),
        is_cold=is_troubled and dice.random() < 0.2,
        partitions=partitions,
        clients=_clients(dice, kind, partitions)[: OTHERS_MAX if more_clients else None] + more_clients,
        faults=_faults(dice, kind),
        raises=dice.choice((0, 0, 30)) if is_troubled else 0,
        throttles=dice.choice((0, 0, 60)) if kind != "pause" else 0,
        callbacks=dice.choice((0, 300)),
        throttle_max=dice.randint(1, 30) * MILLISECOND,
        produce_quota=dice.choice((0, 0, 0, 300, 2000)) if is_troubled else 0,
        restarts=dice.random() < 0.3,
        has_small_turns=random.Random(f"turns {script_seed}").random() < IN_TURNS_SHARE,
        has_threads=has_threads,
    )


def _delays(dice, milliseconds_max):
    return tuple(dice.randint(0, milliseconds_max) * MILLISECOND for _ in range(dice.randint(1, 4)))


def _settings(dice, kind, mode):
    handlers = dice.randint(2, 4)
    settings = {
        "num.io.threads": handlers,
        "num.network.threads": dice.randint(1, 3),
        "queued.max.requests": handlers * dice.randint(1, 8),
        "connections.max.idle.ms": -1,
        "group.initial.rebalance.delay.ms": dice.randint(0, 5),
        "group.min.session.timeout.ms": 100,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.min.session.timeout.ms": SESSION_MS,
        "group.consumer.heartbeat.interval.ms": 5,
        "group.consumer.min.heartbeat.interval.ms": 5,
        "group.consumer.assignment.interval.ms": handlers % 2 * 5,
    }
    in_flight_max = dice.choice((2, 5, 8, 64))
    if mode == "pipelined":
        settings["pipeline.in.flight"] = in_flight_max
    if kind != "pause" and dice.random() < 0.1:
        settings["pipeline.commit"] = dice.choice(("request", "group"))
    return tuple((name, str(value)) for name, value in settings.items())


def _network(dice):
    sizes = [dice.randint(1, 60) for _ in range(dice.randint(1, 3))]
    return Network(
        capacity_bytes=dice.choice((64 * 1024, 64 * 1024, 150)),
        receive_sizes=tuple(sizes) if dice.random() < 0.25 else (),
        send_sizes=(0, *sizes) if dice.random() < 0.25 else (),
        read_pause=dice.choice((0, 0, 0, 0, dice.randint(1, 20) * MILLISECOND)),
    )


def _clients(dice, kind, partitions):
    if kind == "agreement":
        return tuple(_agreeing(dice, index) for index in range(partitions))
    if kind == "pause":
        return tuple(
            client_of(dice, "mixed", f"c{index}", partitions, is_calm=True) for index in range(dice.randint(3, 6))
        )
    kinds = dice.choices(("mixed", "idempotent", "consumer", "member"), weights=(5, 3, 2, 1), k=dice.randint(2, 4))
    return tuple(client_of(dice, chosen, f"c{index}", partitions) for index, chosen in enumerate(kinds))


def _more_clients(dice, partitions):
    """Transactions, or members of a group of the consumer protocol, in place of most others of some scenarios."""
    chance = dice.random()
    if chance < TRANSACTIONS_SHARE:
        kinds = ("transactional",) * dice.choice((1, 2, 3)) + ("committed reader",)
    elif chance < TRANSACTIONS_SHARE + MODERN_GROUPS_SHARE:
        kinds = ("modern member",) * dice.choice((2, 2, 3))
    else:
        return ()
    clients = [client_of(dice, kind, f"m{index}", partitions) for index, kind in enumerate(kinds)]
    return tuple(
        attrs.evolve(client, shared=_shared(dice, client), timeout_ms=timeout_ms_of(dice, client)) for client in clients
    )


def _shared(dice, client):
    if client.kind == "transactional":
        return dice.choice(("transfers", client.name, client.name))
    return "modern" if client.kind == "modern member" else ""


def timeout_ms_of(dice, client):
    return dice.choice((60_000, 60_000, 15)) if client.kind == "transactional" else 300


def client_of(dice, kind, name, partitions, *, is_calm=False):
    """A client of a kind, with its acts."""
    acts = ACTS_OF[kind](dice, partitions, is_calm=is_calm)
    listener = dice.choice(("PLAINTEXT", "PLAINTEXT", "PLAINTEXT", "SASL", "SASL", "CONTROL"))
    if listener == "SASL" and kind == "mixed":
        acts = _with_renewals(dice, acts)
    return ClientPlan(
        name=name,
        kind=kind,
        acts=acts,
        listener=listener,
        window=dice.choice((1, 3, 5, 9)),
        bursts=tuple(dice.randint(1, 6) for _ in range(dice.randint(1, 3))),
        pause=dice.randint(0, 4) * MILLISECOND,
        correlations=dice.choice(CORRELATIONS),
        network=Network() if is_calm else _network(dice),
        reset_after=None if is_calm or dice.random() < 0.8 else dice.randint(1, 30) * MILLISECOND,
    )


def _with_renewals(dice, acts):
    """The same acts, with the client proving again who it is in between."""
    acts = list(acts)
    for _ in range(dice.randint(0, 3)):
        acts.insert(dice.randint(0, len(acts)), Act("again"))
    return tuple(acts)


MIXED = ("produce", "fetch", "metadata", "list offsets", "versions", "producer id", "commit", "committed", "unserved")
MIXED_WEIGHTS = (40, 8, 4, 5, 3, 2, 4, 3, 1)


def _mixed_acts(dice, partitions, *, is_calm):
    weights = (*MIXED_WEIGHTS[:-1], 0) if is_calm else MIXED_WEIGHTS
    kinds = dice.choices(MIXED, weights=weights, k=dice.randint(4, 16))
    return tuple(_act(dice, kind, partitions, is_calm=is_calm) for kind in kinds)


def _act(dice, kind, partitions, *, is_calm=False):
    return Act(
        kind,
        partition=dice.randrange(partitions),
        acks=dice.choice((-1, -1, 1, 0)),
        version=dice.choice((7, 9, 12)),
        count=dice.choice((1, 1, 2, 3)),
        size=dice.choice((0, 0, 40, 300)),
        wait=0 if is_calm else dice.choice((0, 2, 10, 40)),
        bytes_min=dice.choice((1, 1, 500)),
        is_bad=not is_calm and dice.random() < 0.06,
    )


def _idempotent_acts(dice, partitions, *, is_calm):
    return tuple(_act(dice, "produce", partitions) for _ in range(dice.randint(4, 14)))


def _consumer_acts(dice, partitions, *, is_calm):
    style = dice.choice(("poll", "session poll"))
    return tuple(_act(dice, style, partitions) for _ in range(dice.randint(3, 10)))


def _member_acts(dice, partitions, *, is_calm):
    return tuple(_act(dice, dice.choice(("commit", "heartbeat")), partitions) for _ in range(dice.randint(1, 4)))


def _transactional_acts(dice, partitions, *, is_calm):
    version = dice.choice((9, 12))
    kinds = dice.choices(("commit", "abort", "abandon"), weights=(5, 3, 1), k=dice.randint(2, 6))
    return tuple(attrs.evolve(_act(dice, kind, partitions), version=version) for kind in kinds)


def _committed_reader_acts(dice, partitions, *, is_calm):
    return tuple(_act(dice, "poll", partitions) for _ in range(dice.randint(5, 14)))


def _modern_member_acts(dice, partitions, *, is_calm):
    kinds = dice.choices(("beat", "leave", "silence"), weights=(10, 1, 1), k=dice.randint(3, 10))
    return tuple(Act(kind) for kind in kinds)


ACTS_OF = {
    "mixed": _mixed_acts,
    "idempotent": _idempotent_acts,
    "consumer": _consumer_acts,
    "member": _member_acts,
    "transactional": _transactional_acts,
    "committed reader": _committed_reader_acts,
    "modern member": _modern_member_acts,
}


def _agreeing(dice, partition):
    """A client whose answers depend on no other: it has its own partition, and reads only what it knows is there."""
    acts = []
    for _ in range(dice.randint(4, 16)):
        kind = dice.choices(
            ("produce", "sequenced", "fetch", "list offsets", "metadata", "versions"), (8, 6, 2, 1, 1, 1)
        )[0]
        if kind in {"fetch", "list offsets"}:
            _acknowledge_last(acts)
            acts.append(Act("barrier"))
        acts.append(attrs.evolve(_act(dice, kind, 1), partition=partition, wait=0))
        if acts[-1].acks == 0 and acts[-1].is_bad:
            acts[-1] = attrs.evolve(acts[-1], acks=1)
    plan = client_of(dice, "mixed", f"c{partition}", 1, is_calm=True)
    return attrs.evolve(plan, acts=tuple(acts), network=_network(dice))


def _acknowledge_last(acts):
    """What is behind a barrier must find all before it durable, and to acks=0 there is no answer to wait for."""
    for index in reversed(range(len(acts))):
        if acts[index].kind in {"produce", "sequenced"}:
            acts[index] = attrs.evolve(acts[index], acks=acts[index].acks or 1)
            return


def _faults(dice, kind):
    faults = []
    if kind in {"traffic", "shutdown", "crash", "agreement"}:
        for _ in range(dice.choice((0, 0, 1, 2))):
            resized = dice.choice(("resize handlers", "resize handlers", "resize processors"))
            if kind == "agreement":
                resized = "resize handlers"  # a processor that ends closes its connections
            faults.append(Fault(resized, dice.randint(0, 30) * MILLISECOND, dice.randint(1, 5)))
    if kind == "crash":
        fatal = dice.choice(("power cut", "power cut", "kill", "write error", "sync error", "sync error"))
        faults.append(Fault(fatal, dice.randint(0, 40) * MILLISECOND, dice.randint(1, 6)))
        if dice.random() < 0.6:
            faults.append(Fault("power cut", dice.randint(41, 80) * MILLISECOND))
    if kind == "shutdown":
        faults.append(Fault("stop", dice.randint(0, 30) * MILLISECOND))
    if kind == "pause":
        faults.append(Fault("pause", dice.randint(1, 4) * MILLISECOND, dice.randint(0, 3)))
    return tuple(sorted(faults, key=lambda fault: fault.at))
