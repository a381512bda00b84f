"""Invariants 5 and 6 of docs/evidence/invariants.md, as far as the committer owns them, under drawn schedules."""

import pytest
from hypothesis import strategies as st

from stages.testing.memory_storage import MemoryStorage
from stages.testing.order_checks import check_response_order
from tests.stages.request_scripts import MODES, STEPPING, scripts
from tests.stages.sabotage import AcknowledgingCommits, RetryingCommits, hasty_steps, replaced
from tests.stages.script_runner import IN_TURNS_SHARE_MIN, fails, holds, run_script

pytestmark = pytest.mark.properties
both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

DURABLE = scripts(("pending", "quiet", "parked-pending", "send"))
DURABLE_IN_TURNS = scripts(("pending", "send", *STEPPING))
FAULTY = scripts(("pending", "quiet", "parked-pending", "send", *STEPPING), fault=st.integers(0, 6))


def acknowledged_is_durable(script, mode, **options):
    outcome = run_script(script, mode, **options)
    assert not outcome.is_wedged
    assert outcome.complaints == []  # checked at each response
    assert outcome.storage.durable == outcome.storage.written
    return outcome


@both_modes
def test_5_what_is_acknowledged_is_durable(mode):
    holds(f"invariant 5, {mode.name}", DURABLE, lambda script: acknowledged_is_durable(script, mode))


@both_modes
def test_5_what_steps_commit_is_durable_before_they_answer(mode):
    holds(
        f"invariant 5 in turns, {mode.name}",
        DURABLE_IN_TURNS,
        lambda script: acknowledged_is_durable(script, mode),
        in_turns_share_min=IN_TURNS_SHARE_MIN,
    )


@both_modes
def test_5_fails_when_steps_go_on_before_their_entries_are_durable(mode):
    fails(DURABLE_IN_TURNS, lambda script: acknowledged_is_durable(script, mode, sabotage=hasty_steps))


@both_modes
def test_5_fails_on_an_acknowledgement_before_the_sync(mode):
    fails(DURABLE, lambda script: acknowledged_is_durable(script, mode, executor=AcknowledgingCommits))


def nothing_follows_a_failed_sync(script, mode, **options):
    """Check that a prefix is answered, nothing is acknowledged or written later, each slot ends once, and the server
    ends.
    """
    seen = {}
    original = MemoryStorage.sync

    def sync(storage, ticket):
        storage.sync_fault = script.fault
        if storage.syncs == script.fault:
            seen["writes"] = storage.writes
        original(storage, ticket)

    with replaced(MemoryStorage, "sync", sync):
        outcome = run_script(script, mode, **options)
    assert not outcome.is_wedged
    assert outcome.complaints == []
    assert all(times == 1 for times in outcome.completions.values())
    for client, client_script in zip(outcome.clients, script.clients, strict=True):
        check_response_order(client_script.expected(), client.received, is_whole=outcome.failure is None)
    if "writes" in seen:
        assert outcome.failure is not None, "the server continued after a failed sync"
        more = outcome.storage.writes - seen["writes"]
        assert more <= script.has_threads, "something was written after a failed sync"  # except for a concurrent write
    else:
        assert outcome.failure is None
    return outcome


@both_modes
def test_6_a_failed_sync_fails_all_that_is_behind_it_once_and_ends_the_server(mode):
    holds(f"invariant 6, {mode.name}", FAULTY, lambda script: nothing_follows_a_failed_sync(script, mode))


@both_modes
def test_6_fails_on_a_sync_that_is_tried_again(mode):
    fails(FAULTY, lambda script: nothing_follows_a_failed_sync(script, mode, executor=RetryingCommits))


@both_modes
def test_6_a_failed_write_is_a_failed_sync(mode):
    def check(script):
        original = MemoryStorage.write

        def write(storage, entries):
            storage.write_fault = script.fault
            return original(storage, entries)

        with replaced(MemoryStorage, "write", write):
            outcome = run_script(script, mode)
        assert not outcome.is_wedged
        assert outcome.complaints == []
        assert (outcome.failure is not None) == (outcome.storage.writes > script.fault)
        assert outcome.storage.writes <= script.fault + 1
        return outcome

    holds(f"invariant 6 (write), {mode.name}", FAULTY, check)
