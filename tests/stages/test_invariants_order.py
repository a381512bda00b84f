"""Tests of invariants 1, 3, 4 and 12 of docs/evidence/invariants.md under drawn schedules: order of responses."""

import pytest
from hypothesis import strategies as st

from stages.testing.order_checks import check_key_order, check_response_order
from tests.stages.broken import BrokenResponseOrder
from tests.stages.request_scripts import ANSWERED, BAD, MODES, SILENT, STEPPING, STEPPING_BAD, scripts
from tests.stages.sabotage import (
    CorrelationOrder,
    completes_as_they_end,
    forgotten_slots,
    impatient_start,
    overtakes_the_rest,
    writes_in_any_order,
)
from tests.stages.script_runner import IN_TURNS_SHARE_MIN, RESTS_SHARE_MIN, fails, holds, run_script

pytestmark = pytest.mark.properties
both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

ORDERLY = scripts((*ANSWERED, *SILENT, "parked-pending", "close"))
IN_TURNS = scripts((*ANSWERED, *SILENT, *STEPPING, "close"))
PARKING = scripts(("send", "pending", "parked", "nothing"), clients_max=2)
BAD_HANDLERS = scripts((*ANSWERED, *BAD))
BAD_STEPS = scripts((*ANSWERED, *STEPPING, *STEPPING_BAD))
SAME_LOG = scripts((*ANSWERED, *SILENT, "raise", "close"))
SAME_LOG_IN_TURNS = scripts((*ANSWERED, *STEPPING, "steps-raise", "close"))


def answers_in_request_order(script, mode, **options):
    outcome = run_script(script, mode, **options)
    assert not outcome.is_wedged
    assert outcome.complaints == []
    outcome.application.check_start_order()
    for client, client_script in zip(outcome.clients, script.clients, strict=True):
        check_response_order(client_script.expected(), client.received)
    return outcome


@both_modes
def test_1_responses_leave_in_request_order(mode):
    holds(f"invariant 1, {mode.name}", ORDERLY, lambda script: answers_in_request_order(script, mode))


@both_modes
def test_1_and_2_requests_in_several_turns_keep_the_order(mode):
    """Later requests of the connection start after the last turn, so starts and the log keep their order."""
    holds(
        f"invariants 1 and 2 in turns, {mode.name}",
        IN_TURNS,
        lambda script: every_key_in_order(script, mode),
        in_turns_share_min=IN_TURNS_SHARE_MIN,
    )


def every_key_in_order(script, mode, **options):
    outcome = answers_in_request_order(script, mode, **options)
    check_key_order(outcome.storage.durable, key_of=lambda entry: entry[:2], sequence_of=lambda entry: entry[2])
    return outcome


def test_2_fails_when_later_requests_do_not_wait_for_the_last_turn():
    fails(IN_TURNS, lambda script: every_key_in_order(script, MODES["pipelined"], sabotage=impatient_start))


LOGGED = scripts(("pending", "quiet"), commits_in_flight=st.integers(2, 3), has_threads=st.just(True))


@both_modes
def test_2_log_order_does_not_depend_on_what_the_threads_of_commits_do(mode):
    """Several commits in flight are written, synced and handed over in a drawn order."""
    holds(f"invariant 2 with threads, {mode.name}", LOGGED, lambda script: every_key_in_order(script, mode))


@pytest.mark.parametrize("sabotage", [writes_in_any_order, completes_as_they_end])
def test_2_fails_when_threads_write_or_complete_as_they_come(sabotage):
    fails(LOGGED, lambda script: every_key_in_order(script, MODES["pipelined"], sabotage=sabotage))


def shown_in_order(script, mode, **options):
    """Check that each entry becomes visible once, in the order of the log, even if a completion takes several turns."""
    outcome = every_key_in_order(script, mode, **options)
    assert outcome.application.application.shown == outcome.storage.durable
    return outcome


@both_modes
def test_2_what_follows_commits_keeps_the_order_of_the_log_in_several_turns_too(mode):
    """In classic mode a commit is one request, so the next commits are the rest."""
    holds(
        f"invariant 2 after commits, {mode.name}",
        LOGGED,
        lambda script: shown_in_order(script, mode),
        rests_share_min=RESTS_SHARE_MIN,
    )


def test_2_fails_when_a_later_commit_overtakes_the_rest_of_an_earlier_one():
    fails(LOGGED, lambda script: shown_in_order(script, MODES["pipelined"], sabotage=overtakes_the_rest))


def test_1_fails_on_broken():
    fails(
        PARKING,
        lambda script: answers_in_request_order(script, MODES["pipelined"], order=BrokenResponseOrder),
    )


@both_modes
def test_3_order_does_not_depend_on_correlation_ids(mode):
    """The scripts repeat correlation ids in a connection, some while both requests are in flight."""
    holds(f"invariant 3, {mode.name}", PARKING, lambda script: answers_in_request_order(script, mode))


@pytest.mark.parametrize("order", [CorrelationOrder, BrokenResponseOrder])
def test_3_fails_on_order_by_correlation_id_and_on_broken(order):
    fails(PARKING, lambda script: answers_in_request_order(script, MODES["pipelined"], order=order))


def every_slot_ends_once(script, mode, **options):
    outcome = answers_in_request_order(script, mode, **options)
    for connection, requests in outcome.requests.items():
        for request in requests:
            is_twice = bytes(request.frame).startswith((b"twice", b"steps-twice"))
            ended = outcome.completions[connection, request.sequence]
            assert ended <= 1 + is_twice, f"{request!r} ended {ended} times"
    channel = outcome.server.channel
    assert channel.bytes_held == 0
    assert sum(len(queue) for queue in channel.queues) == 0
    assert sum(queue.connections for queue in channel.queues) == 0
    assert outcome.server.handlers.statistics().unfinished == 0
    return outcome


@both_modes
def test_4_every_slot_ends_once_whatever_the_handler_does(mode):
    """Handlers raise, forget, answer twice, complete with None, and answer with a value that is not bytes."""
    holds(f"invariant 4, {mode.name}", BAD_HANDLERS, lambda script: every_slot_ends_once(script, mode))


@both_modes
def test_4_every_slot_ends_once_whatever_its_steps_do(mode):
    """Steps raise, answer twice, and yield invalid values."""
    holds(
        f"invariant 4 in turns, {mode.name}",
        BAD_STEPS,
        lambda script: every_slot_ends_once(script, mode),
        in_turns_share_min=IN_TURNS_SHARE_MIN,
    )


def test_4_fails_on_forgotten_slots():
    fails(
        BAD_HANDLERS,
        lambda script: every_slot_ends_once(script, MODES["pipelined"], sabotage=forgotten_slots),
    )


def both_modes_agree(script, **options):
    classic = run_script(script, MODES["classic"])
    pipelined = run_script(script, MODES["pipelined"], **options)
    assert not classic.is_wedged
    assert not pipelined.is_wedged
    for one, other in zip(classic.clients, pipelined.clients, strict=True):
        check_response_order(one.received, other.received)
    assert log_by_key(script, classic) == log_by_key(script, pipelined)
    return pipelined


def log_by_key(script, outcome):
    """Return the indexes of entries by connection and key, up to a close: later requests may be read or not."""
    check_key_order(outcome.storage.durable, key_of=lambda entry: entry[:2], sequence_of=lambda entry: entry[2])
    closes = [
        next((ask.place for ask in client.asks if ask.action == "close"), len(client.asks)) for client in script.clients
    ]
    log = {}
    for connection, key, place in outcome.storage.durable:
        if place < closes[connection]:
            log.setdefault((connection, key), []).append(place)
    return log


def test_12_both_modes_give_the_same_responses_and_log():
    holds("invariant 12", SAME_LOG, both_modes_agree)


def test_12_both_modes_give_the_same_to_requests_in_several_turns():
    holds("invariant 12 in turns", SAME_LOG_IN_TURNS, both_modes_agree, in_turns_share_min=IN_TURNS_SHARE_MIN)


def test_12_fails_on_broken():
    fails(SAME_LOG, lambda script: both_modes_agree(script, order=BrokenResponseOrder))
