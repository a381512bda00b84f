"""Tests of invariants 8, 9 and 10 of docs/evidence/invariants.md under drawn schedules: reading and queues."""

import attrs
import pytest
import trio
from hypothesis import strategies as st

from stages.mode import PIPELINED
from stages.request_channel import shard_of
from stages.testing.order_checks import check_response_order
from tests.stages.request_scripts import ANSWERED, MILLISECOND, MODES, SILENT, STEPPING, scripts
from tests.stages.sabotage import (
    blocking_put,
    forgotten_room,
    lost_unmute,
    move_at_once,
    paused_queue,
    single_bit_mute,
)
from tests.stages.script_runner import IN_TURNS_SHARE_MIN, LIMITS, fails, holds, run_script

pytestmark = pytest.mark.properties
both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

MUTING = scripts((*ANSWERED, "throttle", "throttle", *SILENT))
MUTING_IN_TURNS = scripts(("send", "send", "parked", "throttle", "pending", *STEPPING), asks_min=6, asks_max=16)
MANY_IN_FLIGHT = attrs.evolve(MODES["pipelined"], in_flight_max=16)
"""Enough requests in flight that the deferred ones fill the connection once they start."""
CROWDED = scripts(("send", "pending", "parked"), clients_max=5, asks_min=4)
RESIZED = scripts(
    ("send", "pending", "parked", "parked-pending", *STEPPING),
    resizes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4).map(tuple),
)


def everything_is_answered(script, outcome):
    assert not outcome.is_wedged
    assert outcome.complaints == []
    outcome.application.check_start_order()
    for client, client_script in zip(outcome.clients, script.clients, strict=True):
        check_response_order(client_script.expected(), client.received)


def reading_follows_the_bounds(script, mode, **options):
    """Check that a connection is never read against a bound (`observed_order`), and that no client waits forever."""
    outcome = run_script(script, mode, **options)
    everything_is_answered(script, outcome)
    return outcome


@both_modes
def test_8_reading_resumes_exactly_when_no_reason_is_left(mode):
    holds(f"invariant 8, {mode.name}", MUTING, lambda script: reading_follows_the_bounds(script, mode))


@pytest.mark.parametrize("mode", [MODES["classic"], MANY_IN_FLIGHT], ids=MODES)
def test_8_reading_resumes_beside_requests_in_several_turns(mode):
    holds(
        f"invariant 8 in turns, {mode.name}",
        MUTING_IN_TURNS,
        lambda script: reading_follows_the_bounds(script, mode),
        in_turns_share_min=IN_TURNS_SHARE_MIN,
    )


def test_8_fails_when_the_end_of_a_request_in_several_turns_forgets_the_unsent_bytes():
    fails(
        MUTING_IN_TURNS,
        lambda script: reading_follows_the_bounds(script, MANY_IN_FLIGHT, sabotage=forgotten_room),
    )


@pytest.mark.parametrize("sabotage", [single_bit_mute, lost_unmute])
def test_8_fails_when_a_reason_is_lost_or_not_lifted(sabotage):
    fails(MUTING, lambda script: reading_follows_the_bounds(script, MODES["pipelined"], sabotage=sabotage))


PAUSED_QUEUE = 1
PAUSE_SECONDS = 1.0


def a_paused_queue_delays_only_its_own(script, *, sabotage=None):
    until = trio.Event()
    mode = attrs.evolve(PIPELINED, queues=3, in_flight_max=5)
    answered_in_time = {}

    async def resume(server, outcome):
        await trio.sleep(PAUSE_SECONDS)
        answered_in_time.update(
            (connection, len(requests) == len(script.clients[connection].asks) and not outcome.is_wedged)
            for connection, requests in outcome.requests.items()
        )
        until.set()

    with paused_queue(PAUSED_QUEUE, until):
        options = {} if sabotage is None else {"sabotage": sabotage}
        outcome = run_script(script, mode, during=resume, **options)
    everything_is_answered(script, outcome)
    for connection, requests in outcome.requests.items():
        if requests and requests[0].queue != PAUSED_QUEUE:
            assert answered_in_time.get(connection), f"connection {connection} waited for another queue"
    return outcome


def test_9_a_paused_queue_delays_only_the_connections_routed_to_it():
    holds("invariant 9", CROWDED, a_paused_queue_delays_only_its_own)


def test_9_fails_when_a_full_queue_blocks_its_processor():
    fails(CROWDED, lambda script: a_paused_queue_delays_only_its_own(script, sabotage=blocking_put))


def a_connection_moves_only_when_idle(script, *, is_eager=False):
    async def resize(server, outcome):
        for pause, count in script.resizes:
            await trio.sleep(pause * MILLISECOND)
            server.handlers.resize_queues(count)
            if is_eager:
                move_at_once(server)

    outcome = run_script(script, MODES["pipelined"], during=resize)
    everything_is_answered(script, outcome)
    for requests in outcome.requests.values():
        queue = None
        for request in requests:
            if queue is not None and request.queue != queue:
                assert request.depth == 1, f"{request!r} came by another queue with {request.depth - 1} in flight"
            queue = request.queue
    channel = outcome.server.channel
    assert len(channel.queues) == script.resizes[-1][1]
    assert sum(queue.connections for queue in (*channel.queues, *channel.retired)) == 0
    return outcome


def test_10_a_connection_changes_its_queue_only_with_nothing_in_flight():
    holds("invariant 10", RESIZED, a_connection_moves_only_when_idle, in_turns_share_min=IN_TURNS_SHARE_MIN)


def test_10_fails_when_a_resize_moves_connections_at_once():
    fails(RESIZED, lambda script: a_connection_moves_only_when_idle(script, is_eager=True))


def test_scripts_of_crowds_use_the_paused_queue_and_others():
    """The fault of invariant 9 affects some of the connections and not all."""
    shards = {
        shard_of(f"MEMORY-{index}-{index % LIMITS.processors}-{index // LIMITS.processors}", 3) for index in range(5)
    }
    assert PAUSED_QUEUE in shards
    assert len(shards) > 1
