"""What happens to the brokers of a simulated cluster: a task that carries out the faults of a scenario at their times.

Rules of this file: as of `faults`; the supervisor of the world starts again what ended.
"""

import trio

from tests.simulation.environment import MILLISECOND


async def happen(world, nursery):
    """All faults of the scenario, in order; each cut lasts as long as it says."""
    began = trio.current_time()
    for fault in world.scenario.faults:
        await trio.sleep_until(began + fault.at)
        world.trace.note("fault", fault.kind, fault.node, fault.other, fault.number)
        life = world.nodes[fault.node].life if fault.node else None
        FAULTS[fault.kind](world, life, fault, nursery)


async def keep_alive(world, nursery):
    """Do nothing: the world has a supervisor of its own, which serves to the end."""


def _kill(world, life, fault, nursery):
    if not life.is_over:
        life.kill(power=False)


def _power_cut(world, life, fault, nursery):
    """Of the machine."""
    for each in world.lives:
        if not each.is_over:
            each.kill(power=True)


def _stop(world, life, fault, nursery):
    life.end()


def _supervisor(world, life, fault, nursery):
    nursery.start_soon(world.lose_supervisor, nursery)


def _error(world, life, fault, nursery):
    life.disk.fail_later(fault.kind.split()[0], fault.number)


def _cut(world, life, fault, nursery):
    pair = (fault.node, fault.other)
    directions = (pair, pair[::-1]) if fault.kind == "cut" else (pair,)

    async def be_cut():
        world.links.cut(*directions)
        await trio.sleep(fault.number * MILLISECOND)
        world.links.heal(*directions)

    nursery.start_soon(be_cut)


def _reset(world, life, fault, nursery):
    life.sockets.reset(fault.other)


FAULTS = {
    "kill": _kill,
    "power cut": _power_cut,
    "stop": _stop,
    "supervisor": _supervisor,
    "write error": _error,
    "sync error": _error,
    "cut": _cut,
    "cut one way": _cut,
    "reset": _reset,
}
