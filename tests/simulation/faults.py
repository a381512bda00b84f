"""What happens to a simulated broker: a task that carries out the faults of a scenario at their times.

Rules of this file: a fault is done to whatever life there is; a broker that ended is started again on the same disk,
until the faults are over and the last one may serve to the end of the scenario.
"""

import itertools
from contextlib import suppress

import trio

from stages.request_handler import RequestHandlerPool
from stages.socket_server import ServerNotRunningError
from tests.simulation.world import LIVES_MAX

PAUSE_SECONDS = 5.0


async def happen(world, _nursery):
    """All faults of the scenario, in order."""
    began = trio.current_time()
    for fault in world.scenario.faults:
        await trio.sleep_until(began + fault.at)
        if world.life.is_serving:
            await FAULTS[fault.kind](world, world.life, fault)


async def keep_alive(world, nursery):
    """Start the broker again whenever it ended, except after a stop, until cancelled."""
    for _ in range(LIVES_MAX):
        await world.wait_until_ended(world.life)
        if world.life.ended_by == "stopped":
            world.end()
            return
        with trio.CancelScope(shield=True):  # a life that began is there for whoever comes next
            await world.begin_life(nursery)
    world.complain(f"the broker ended {LIVES_MAX} times")


async def _resize_handlers(world, life, fault):
    life.server.resize_handlers(fault.number)


async def _resize_processors(world, life, fault):
    with suppress(ServerNotRunningError):  # a commit failed meanwhile, between the processors of two listeners
        await life.server.resize_processors(fault.number)


async def _error(world, life, fault):
    world.disk.fail_later(fault.kind.split()[0], fault.number)


async def _kill(world, life, fault):
    life.kill(power=fault.kind == "power cut")


async def _stop(world, life, fault):
    life.stop()


async def _pause(world, life, fault):
    """The handler of one queue stands still for a while."""
    pool, queues = life.server.handlers, life.server.channel.queues
    paused = queues[fault.number % len(queues)]
    until = trio.current_time() + PAUSE_SECONDS

    async def turn(queue):
        if queue is paused:
            await trio.sleep_until(until)
        await RequestHandlerPool._turn(pool, queue)

    pool._turn = turn
    connections = itertools.chain(*(processor.connections for processor in life.server.processors))
    others = {one.index for one in connections if one.admission.queue is not paused}
    world.paused = (life, trio.current_time(), until, others)
    world.trace.note("pause", paused.index)


FAULTS = {
    "resize handlers": _resize_handlers,
    "resize processors": _resize_processors,
    "write error": _error,
    "sync error": _error,
    "power cut": _kill,
    "kill": _kill,
    "stop": _stop,
    "pause": _pause,
}
