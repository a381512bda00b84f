"""Tests of invariant 11 of docs/evidence/invariants.md under drawn schedules: the identity of a client."""

import pytest

from stages.authentication import Conversation, Reply
from stages.testing.order_checks import check_response_order
from tests.stages.request_scripts import ANSWERED, MODES, SILENT, Ask, scripts
from tests.stages.sabotage import eager_conversation
from tests.stages.script_runner import fails, holds, run_script

pytestmark = pytest.mark.properties
both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

RENEWING = scripts((*ANSWERED, *SILENT, "parked-pending", "again", "again"), asks_min=4)


class Login:
    """Takes the first frame of a connection, and the one after `again`, as a proof; each proof gives a new identity."""

    frame_bytes_max = 100

    def __init__(self, connection, outcome):
        self.connection = connection
        self.outcome = outcome
        self.is_asked = False
        connection.session = 0

    def receive(self, frame):
        connection, reply = self.connection, (b"welcome " + bytes(frame),)
        if connection.order or connection.unsent_bytes:
            self.outcome.complaints.append(f"{frame!r} was given with {len(connection.order)} requests in flight")
        self.is_asked = not self.is_asked and Ask.decode(frame).action == "again"
        if self.is_asked:
            return Reply(Conversation.CONTINUES, reply)
        connection.session += 1
        return Reply(Conversation.SUCCEEDED, reply)

    def begins(self, frame):
        return Ask.decode(frame).action == "again"

    def has_expired(self):
        return False


def logins(outcome):
    return lambda connection, transport: Login(connection, outcome)


def expected(script):
    """Return the responses and the identity of each request that every schedule must give."""
    responses, identities, identity, is_conversing, is_asked = [], {}, 0, True, False
    for ask in script.asks:
        if not is_conversing and ask.action == "again":
            is_conversing = True
        if not is_conversing:
            identities[ask.connection, ask.place] = identity
            if ask.action not in SILENT:
                responses.append(b"answer " + ask.encode())
            continue
        responses.append(b"welcome " + ask.encode())
        is_asked = not is_asked and ask.action == "again"
        if not is_asked:
            is_conversing = False
            identity += 1
    return responses, identities


def the_identity_changes_only_between_requests(script, mode, **options):
    outcome = run_script(script, mode, open_session=logins, **options)
    assert not outcome.is_wedged
    assert outcome.complaints == []
    outcome.application.check_start_order()
    identities = {}
    for client, client_script in zip(outcome.clients, script.clients, strict=True):
        responses, of_connection = expected(client_script)
        check_response_order(responses, client.received)
        identities |= of_connection
    assert outcome.identities == identities
    return outcome


@both_modes
def test_11_requests_in_flight_are_drained_before_the_identity_changes(mode):
    holds(
        f"invariant 11, {mode.name}", RENEWING, lambda script: the_identity_changes_only_between_requests(script, mode)
    )


def test_11_fails_when_a_conversation_begins_at_once():
    fails(
        RENEWING,
        lambda script: the_identity_changes_only_between_requests(
            script, MODES["pipelined"], sabotage=eager_conversation
        ),
    )
