"""What happens to brokers on a simulated store: a task that carries out the faults of a scenario at their times.

Rules of this file: as of `faults`; a fault is done to the newest process, whatever that does, and to the store.
"""

import trio

from tests.simulation.environment import MILLISECOND

RESTART_SECONDS = 0.5
"""After which a supervisor starts a broker again."""
SESSION_SECONDS = 6.0
"""Of a lease, see `broker.session.timeout.ms`."""
WANTED = (
    "a kill with PUTs in flight",
    "a standby took over",
    "a takeover from an owner that lives",
    "a zombie woke up",
    "a zombie woke up with PUTs in flight",
    "an outage longer than a session",
    "an unsure PUT was applied",
    "writes were refused",
)
"""What many scenarios must have seen, or they were blind."""


async def happen(world, nursery):
    """All faults of the scenario, in order; each lasts as long as it says."""
    began = trio.current_time()
    world.store.is_troubled = True
    for fault in world.scenario.faults:
        await trio.sleep_until(began + fault.at)
        world.trace.note("fault", fault.kind, fault.number)
        FAULTS[fault.kind](world, world.life, fault, nursery)


async def keep_alive(world, nursery):
    """Start a broker again whenever the newest ended and nobody stands by, except after a stop; until cancelled."""
    while True:
        await world.wait_until_newest_ended()
        life = world.life
        if world.standby is not None:
            await world.wait_for_change(None)
            continue
        if life.ended_by == "stopped":
            world.end()
            return
        if world.falls_to_another():
            continue
        await trio.sleep(RESTART_SECONDS)
        if world.life is life and world.standby is None:
            with trio.CancelScope(shield=True):  # a life that began is there for whoever comes next
                await world.begin_life(nursery)


def _seconds(fault):
    """What the number of a fault stands for: how long it lasts."""
    return fault.number * MILLISECOND


def _outage(world, life, fault, nursery):
    _note_length(world, "an outage longer than a session", fault)
    world.store.fail(_seconds(fault), is_silent=fault.kind == "silent outage")


def _cut(world, life, fault, nursery):
    """One process does not reach the store, the others do."""
    _note_length(world, "a process without the store for longer than a session", fault)
    world.store.fail(_seconds(fault), process=life.process, is_silent=fault.kind == "silent cut")


def _note_length(world, what, fault):
    if _seconds(fault) > SESSION_SECONDS:
        world.seen[what] += 1


def _slow(world, life, fault, nursery):
    async def be_slow():
        world.store.is_slow = True
        await trio.sleep(_seconds(fault))
        world.store.is_slow = False

    nursery.start_soon(be_slow)


def _kill(world, life, fault, nursery):
    if not life.is_over:
        life.kill(power=True)


def _take_over(world, life, fault, nursery):
    world.begin_takeover(nursery)


def _freeze(world, life, fault, nursery):
    """The process stands still, and wakes up later, perhaps behind a takeover."""

    async def stand_still():
        life.process.freeze()
        await trio.sleep(_seconds(fault))
        if world.life is not life and not life.is_over:
            world.seen["a zombie woke up"] += 1
            if life.store.in_flight:
                world.seen["a zombie woke up with PUTs in flight"] += 1
        life.process.thaw()
        world.changed()

    if not life.is_over:
        nursery.start_soon(stand_still)


def _stand_by(world, life, fault, nursery):
    if world.standby is None:
        world.begin_standby(nursery)


def _stop(world, life, fault, nursery):
    if life.is_serving:
        life.stop()


FAULTS = {
    "outage": _outage,
    "silent outage": _outage,
    "cut": _cut,
    "silent cut": _cut,
    "slow": _slow,
    "kill": _kill,
    "takeover": _take_over,
    "freeze": _freeze,
    "standby": _stand_by,
    "stop": _stop,
}
