"""The scenario of a simulated cluster, drawn from a seed.

Rules of this file: as of `scenario`, whose traffic it has; what is drawn beside that is the brokers, the links between
them, their clocks, and what befalls them.
"""

import random

import attrs

from tests.simulation.environment import MILLISECOND
from tests.simulation.scenario import (
    SCHEDULES_PER_SCRIPT,
    ClusterPlan,
    Fault,
    client_of,
    draw_kind,
    timeout_ms_of,
)

CLIENTS = {
    "mixed": 4,
    "idempotent": 5,
    "consumer": 2,
    "member": 2,
    "transactional": 5,
    "committed reader": 3,
    "modern member": 2,
}
"""Kinds of clients, and how often."""
SPREAD_TOPICS = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
LATE_MARKERS_SHARE = 0.1
"""Of the scenarios, how many are about markers that arrive late."""
RISING_SHARE = 0.2
LONG_MS = 60_000
OPEN_MS = (50, 150, 300)
CLOCK_MS = 300_000
"""The most that a clock is wrong."""
RATES = (0.9, 1.0, 1.0, 1.1)
CUT_MS = (20, 200, 1500, 7000)
"""Also longer than a member waits for its controller, and than a controller for its members."""


@attrs.frozen
class ClusterFault(Fault):
    """A fault of brokers: `node`, and the links to `other`; both are 0 where it is about all."""

    node: int = 0
    other: int = 0


def draw_cluster(seed):
    """The scenario of a seed."""
    script_seed = seed // SCHEDULES_PER_SCRIPT
    dice = random.Random(f"cluster script {script_seed}")
    scenario = draw_kind(seed, f"cluster {script_seed}", "cluster")
    brokers, partitions = dice.choice((2, 2, 3, 3, 4)), dice.randint(2, 5)
    has_late_markers = dice.random() < LATE_MARKERS_SHARE
    kinds = dice.choices(list(CLIENTS), weights=CLIENTS.values(), k=dice.randint(2, 5))
    if has_late_markers:
        kinds = ["transactional"] * 4
    if "committed reader" in kinds:
        kinds[0] = "transactional"  # makes the topic that is read
    clients = [client_of(dice, kind, f"c{index}", partitions) for index, kind in enumerate(kinds)]
    spread = str(dice.choice((brokers, brokers, 2 * brokers - 1)))
    clients = [_in_cluster(dice, client) for client in clients]
    if has_late_markers:
        clients = [_marked_late(dice, client, partitions) for client in clients]
    return attrs.evolve(
        scenario,
        seed=seed,
        script_seed=script_seed,
        partitions=partitions,
        settings=tuple((name, spread if name in SPREAD_TOPICS else value) for name, value in scenario.settings),
        clients=tuple(clients),
        faults=_late_markers(dice, brokers) if has_late_markers else _faults(dice, brokers),
        cluster=ClusterPlan(
            brokers=brokers,
            delay_ms_max=dice.choice((0, 1, 5, 20)),
            clocks=tuple((dice.randint(-CLOCK_MS, CLOCK_MS), dice.choice(RATES)) for _ in range(brokers)),
        ),
    )


def _in_cluster(dice, client):
    """Slower, so that faults meet it, and with what it shares with others."""
    client = attrs.evolve(
        client,
        acts=client.acts * dice.choice((1, 1, 2, 4)),
        pause=dice.choice((0, 2, 10, 40)) * MILLISECOND,
        reset_after=None if client.reset_after is None else 5 * client.reset_after,
    )
    if client.kind == "transactional":
        client = attrs.evolve(client, shared=dice.choice(("transfers", client.name, client.name)))
    if client.kind == "modern member":
        client = attrs.evolve(client, shared="modern")
    return attrs.evolve(client, timeout_ms=timeout_ms_of(dice, client))


def _marked_late(dice, client, partitions):
    """With transactions of all partitions that are open when markers of earlier ones arrive, mostly of their epoch."""
    rises = dice.random() < RISING_SHARE
    acts = [
        attrs.evolve(act, version=act.version if rises else 9, count=partitions, wait=dice.choice(OPEN_MS))
        for act in client.acts * 4
    ]
    return attrs.evolve(client, acts=tuple(acts), reset_after=None, timeout_ms=LONG_MS)


def _faults(dice, brokers):
    faults = [fault for _ in range(dice.randint(0, 4)) for fault in dice.choice(STORIES)(dice, brokers)]
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _at(dice):
    return dice.randint(0, 300) * MILLISECOND


def _kill(dice, brokers):
    at, node = _at(dice), dice.randint(1, brokers)
    again = [ClusterFault("kill", at + dice.choice((0.02, 0.06, 0.1, 0.3)), node=node)] if dice.random() < 0.3 else []
    return [ClusterFault("kill", at, node=node), *again]


def _power_cut(dice, brokers):
    return [ClusterFault("power cut", _at(dice))]


def _stop(dice, brokers):
    return [ClusterFault("stop", _at(dice), node=dice.randint(1, brokers))]


def _supervisor(dice, brokers):
    return [ClusterFault("supervisor", _at(dice))]


def _error(dice, brokers):
    kind = dice.choice(("write error", "sync error"))
    return [ClusterFault(kind, _at(dice), dice.randint(1, 6), node=dice.randint(1, brokers))]


def _cut(dice, brokers):
    node, other = dice.sample(range(1, brokers + 1), 2)
    return [ClusterFault(dice.choice(("cut", "cut one way")), _at(dice), dice.choice(CUT_MS), node=node, other=other)]


def _cut_and_kill(dice, brokers):
    """Bytes of a process arrive after its end."""
    (cut,) = _cut(dice, brokers)
    return [cut, ClusterFault("kill", cut.at + dice.choice((0.001, 0.01, 0.05)), node=cut.node)]


def _hold_and_kill(dice, brokers):
    """What a process has sent arrives after what its successor sends."""
    node, at = dice.randint(1, brokers), _at(dice)
    held = ClusterFault("hold", at, dice.choice((150, 400, 1500)), node=node)
    return [held, ClusterFault("kill", at + dice.choice((0.02, 0.06, 0.15)), node=node)]


def _late_markers(dice, brokers):
    """Markers of a coordinator arrive when its successor has ended their transactions, and others have begun."""
    node = dice.randint(1, brokers)
    return tuple(
        ClusterFault("late marker", 0.1 + number * 0.5, dice.randint(150, 450), node=node) for number in range(8)
    )


def _reset(dice, brokers):
    node, other = dice.sample(range(1, brokers + 1), 2)
    return [ClusterFault("reset", _at(dice), node=node, other=other)]


STORIES = (
    _kill,
    _kill,
    _kill,
    _power_cut,
    _stop,
    _supervisor,
    _error,
    _cut,
    _cut,
    _cut_and_kill,
    _hold_and_kill,
    _hold_and_kill,
    _reset,
)
