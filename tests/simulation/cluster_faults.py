"""The faults of the brokers of a simulated cluster: a task that carries out the faults of a scenario at their times.

Rules of this file: as of `faults`; the supervisor of the world starts again what ended.
"""

import trio

from tests.simulation.environment import MILLISECOND

WANTED = (
    "bytes were under way when their process ended",
    "a request was forwarded",
    "AddPartitionsToTxnRequest to another broker",
    "WriteTxnMarkersRequest to another broker",
    *(
        f"fault: {kind}"
        for kind in ("kill", "power cut", "stop", "supervisor", "cut", "cut one way", "reset", "hold", "late marker")
    ),
)
"""Events that many scenarios must have seen."""


async def happen(world, _nursery):
    """All faults of the scenario, in order, to the end of the last one; each cut lasts as long as it says."""
    began = trio.current_time()
    async with trio.open_nursery() as happening:
        for fault in world.scenario.faults:
            await trio.sleep_until(began + fault.at)
            world.trace.note("fault", fault.kind, fault.node, fault.other, fault.number)
            world.seen[f"fault: {fault.kind}"] += 1
            FAULTS[fault.kind](world, world.nodes.get(fault.node), fault, happening)


async def keep_alive(world, nursery):
    """Do nothing: the world has a supervisor of its own, which serves to the end."""


def _kill(world, node, fault, happening):
    if not node.life.is_over:
        node.life.kill(power=False)


def _power_cut(world, _node, fault, happening):
    """Of the machine."""
    for node in world.nodes.values():
        if node.life.ended_by is None:
            node.life.kill(power=True)
        else:
            node.disk.power_cut()


def _stop(world, node, fault, happening):
    node.life.end()


def _supervisor(world, _node, fault, happening):
    happening.start_soon(world.lose_supervisor)


def _error(world, node, fault, happening):
    node.disk.fail_later(fault.kind.split()[0], fault.number)


def _cut(world, _node, fault, happening):
    pair = (fault.node, fault.other)
    directions = (pair, pair[::-1]) if fault.kind == "cut" else (pair,)

    async def be_cut():
        world.links.cut(*directions)
        await trio.sleep(fault.number * MILLISECOND)
        world.links.heal(*directions)

    happening.start_soon(be_cut)


def _reset(world, node, fault, happening):
    for stream in node.life.sockets.to(fault.other):
        stream.reset()


def _hold(world, node, fault, happening):
    for _, stream in node.life.sockets.streams:
        stream.hold(fault.number * MILLISECOND)


def _late_marker(world, node, fault, happening):
    node.life.marker_late_ms = fault.number


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
    "hold": _hold,
    "late marker": _late_marker,
}
