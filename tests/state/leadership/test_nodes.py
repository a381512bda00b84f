"""States of a member at the controller, and a process that waits for its record."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.nodes import Membership, NodeEvent, NodeState, next_node_state

EVENTS = st.lists(st.sampled_from(NodeEvent))


def state_after(events, state=NodeState.JOINED):
    for event in events:
        state = next_node_state(state, event)
    return state


@given(EVENTS)
def test_silence_alone_fences_no_member(events):
    harmless = [event for event in events if event not in {NodeEvent.LEFT, NodeEvent.FREE}]
    assert state_after(harmless) in {NodeState.JOINED, NodeState.WATCHED}


@given(EVENTS)
def test_only_a_later_process_returns_from_the_dead(events):
    without_join = [event for event in events if event is not NodeEvent.JOIN]
    assert state_after(without_join, NodeState.FENCED) in {NodeState.FENCED, NodeState.GONE}
    assert state_after([*events, NodeEvent.JOIN]) is NodeState.JOINED


def test_a_silent_member_that_polls_again_serves_on():
    assert state_after([NodeEvent.SILENCE, NodeEvent.POLL, NodeEvent.FREE]) is NodeState.JOINED
    assert state_after([NodeEvent.SILENCE, NodeEvent.FREE, NodeEvent.POLL, NodeEvent.EMPTIED]) is NodeState.GONE


def test_a_process_has_joined_with_its_own_record_only():
    member = Membership(2, 5)
    for node_id, generation in ((1, 5), (2, 4), (2, 6)):
        assert not member.applied(node_id, generation).has_joined
    joined = member.applied(2, 5)
    assert joined.has_joined
    assert joined.applied(2, 6).has_joined, "a later process fences it by the journal, not by the record"
