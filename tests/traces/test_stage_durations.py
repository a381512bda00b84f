"""The stages of a request, from its stamps."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.traces.stage_durations import PARTS, STAGES, StageDurations, stage_durations
from stages.timeline import NO_STAMP, STAMPS, Stamps

steps = st.tuples(*[st.integers(0, 10**9)] * len(STAMPS))
any_stamps = st.tuples(*[st.integers(0, 10**12) | st.just(NO_STAMP)] * len(STAMPS))


def stamped(values):
    stamps = Stamps()
    for name, value in zip(STAMPS, values, strict=True):
        setattr(stamps, name, value)
    return stamps


def test_each_stage_has_two_stamps_in_their_order():
    names = "RequestQueue Local LaterSteps Remote CommitWait ResponseOrderWait ResponseQueue ResponseSend Total"
    assert list(STAGES) == names.split()
    assert all(STAMPS.index(began) < STAMPS.index(ended) for began, ended in STAGES.values())


def test_the_times_of_hand_made_stamps():
    """received, enqueued, dequeued, handled, decided, submitted, durable, completed, released, send started, sent."""
    found = stage_durations(stamped([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]))
    assert found == StageDurations(
        request_queue_ns=3,
        local_ns=12,
        later_steps_ns=8,
        remote_ns=112,
        commit_wait_ns=32,
        response_order_wait_ns=128,
        response_queue_ns=384,
        response_send_ns=512,
        total_ns=1023,
    )
    assert found.parts == (3, 12, 32, 80, 128, 256, 512)


@given(steps)
def test_the_parts_of_a_request_add_up_to_the_whole(steps):
    durations = stage_durations(stamped(itertools.accumulate(steps)))
    assert len(durations.parts) == len(PARTS)
    assert sum(durations.parts) == durations.total_ns


@given(any_stamps, st.integers(0, 10**12))
def test_no_stage_is_negative_whatever_the_stamps_are(values, ended_ns):
    durations = stage_durations(stamped(values), ended_ns)
    assert min(*durations.parts, durations.later_steps_ns, durations.total_ns) >= 0


def test_stages_that_a_request_did_not_reach_take_no_time():
    """The request was dropped during its write, so it has no later stamp."""
    durations = stage_durations(stamped([10, 11, 20, 30, 30, NO_STAMP, NO_STAMP, 0, 0, 0, 0]), ended_ns=100)
    assert (durations.remote_ns, durations.response_queue_ns, durations.response_send_ns) == (70, 0, 0)
    assert (durations.commit_wait_ns, durations.total_ns) == (0, 90)
