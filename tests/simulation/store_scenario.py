"""What happens in a simulation on a store, drawn from a seed.

Rules of this file: as of `scenario`, whose traffic it has, a little slower and longer; what is drawn beside that is the
store, and what befalls it and the processes.
"""

import random

import attrs

from tests.simulation.environment import MILLISECOND
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT, Fault, client_of, draw_kind
from tests.simulation.store import StorePlan

CLIENTS = ("mixed", "idempotent", "consumer", "member")
SHORT_MS, LONG_MS = (50, 700, 2500, 8000), (20_000, 150_000)
LONG_SHARE = 0.12
"""Of the scenarios, how many have an outage, a cut or a zombie of a long time."""

OVERTAKEN_SHARE = 0.6
"""Of those who take over and stand still, how many have another one take over meanwhile."""


def draw_on_store(seed):
    """The scenario of a seed."""
    script_seed = seed // SCHEDULES_PER_SCRIPT
    dice = random.Random(f"store script {script_seed}")
    scenario = draw_kind(seed, f"store {script_seed}", "store")
    clients = [
        client_of(dice, kind, f"c{index}", scenario.partitions)
        for index, kind in enumerate(dice.choices(CLIENTS, weights=(5, 4, 2, 1), k=dice.randint(2, 4)))
    ]
    return attrs.evolve(
        scenario,
        seed=seed,
        script_seed=script_seed,
        clients=tuple(_slowed(dice, client) for client in clients),
        faults=_faults(dice),
        commits_in_flight=dice.choice((1, 3, 8)),
        store=StorePlan(
            delay_ms_max=dice.choice((0, 3, 20)),
            troubles=dice.choice((0, 30, 120)),
            is_remote=dice.random() < 0.5,
            entries_a_segment=dice.choice((3, 8, 1000)),
            copied_bytes_min=dice.choice((1, 100, 1 << 30)),
        ),
    )


def _slowed(dice, client):
    """A commit takes longer than on a disk."""
    return attrs.evolve(
        client,
        acts=client.acts * dice.choice((1, 1, 3)),
        pause=dice.choice((0, 5, 40)) * MILLISECOND,
        reset_after=None if client.reset_after is None else 10 * client.reset_after,
    )


def _milliseconds(dice, is_long):
    return dice.choice(LONG_MS if is_long else SHORT_MS)


def _faults(dice):
    """One story, and what else happens."""
    is_long = dice.random() < LONG_SHARE
    at = dice.randint(0, 400) * MILLISECOND
    story = dice.choice(STORIES)
    return tuple(sorted(story(dice, at, is_long), key=lambda fault: fault.at))


def _nothing(dice, at, is_long):
    return ()


def _outage(dice, at, is_long):
    kind = dice.choice(("outage", "silent outage"))
    faults = [Fault(kind, at, _milliseconds(dice, is_long))]
    if dice.random() < 0.5:
        faults.append(Fault(dice.choice(("kill", "takeover", "slow")), at + dice.random(), 500))
    return faults


def _kill(dice, at, is_long):
    return [Fault("kill", at + index * dice.choice((0.05, 0.4, 2.0))) for index in range(dice.randint(1, 3))]


def _take_over(dice, at, is_long):
    faults = [Fault("takeover", at + index * dice.choice((0.01, 0.2))) for index in range(dice.randint(1, 2))]
    if dice.random() < 0.5:
        faults.append(Fault("slow", at, dice.choice((300, 3000))))
    return faults


def _zombie(dice, at, is_long):
    """One stands still while another one takes over."""
    faults = [Fault("freeze", at, _milliseconds(dice, is_long))]
    if dice.random() < 0.6:
        return [*faults, Fault("takeover", at + dice.choice((0.0, 0.01, 0.3)))]
    return [*faults, Fault("standby", 0.0)]


def _late_taker(dice, at, is_long):
    """One that takes over stands still in the middle of it, while the owner goes on, or another one is faster."""
    still_at = at + dice.randint(1, 120) * MILLISECOND
    faults = [Fault("takeover", at), Fault("freeze", still_at, dice.choice((700, 2500, 8000)))]
    if dice.random() < OVERTAKEN_SHARE:
        faults.append(Fault("takeover", still_at + dice.choice((1, 50)) * MILLISECOND))
    return faults


def _standby(dice, at, is_long):
    """One stands by while something befalls the owner."""
    what = dice.choice(("kill", "cut", "silent cut", "freeze", "stop"))
    return [Fault("standby", 0.0), Fault(what, at, dice.choice((8000, 20_000)) if not is_long else 150_000)]


STORIES = (_nothing, _outage, _outage, _kill, _kill, _take_over, _take_over, _zombie, _zombie, _standby, _late_taker)
