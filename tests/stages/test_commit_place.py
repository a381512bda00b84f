"""Commits run on the event loop if a try was fast, otherwise in threads."""

import pytest

from stages.commit_place import ALONE_COMMITS_MIN, COMMITS_MEASURED, LOOP_NS_MAX, PAUSE_NS, THREAD_NS_MAX, CommitPlace
from stages.mode import Batching, CommitOn

BUSY_NS = 3 * LOOP_NS_MAX
"""Duration of a commit of a fast disk in a thread, while the event loop is busy."""


def suits_loop(place):
    assert not place.must_gather(1, 0, is_in_flight=True)
    return place.suits_loop


def after(*durations_ns):
    """Return the place after commits that ran where it decided."""
    place = CommitPlace(Batching.GROUP)
    for duration_ns in durations_ns:
        place.commit_ended(duration_ns, was_on_loop=suits_loop(place), alone_requests=0)
    return place


def is_on_loop_after(*durations_ns):
    return suits_loop(after(*durations_ns))


ENTERED = [BUSY_NS] * COMMITS_MEASURED


def test_the_loop_is_tried_after_some_commits_in_threads():
    assert not is_on_loop_after(*ENTERED[1:])
    assert is_on_loop_after(*ENTERED)


def test_the_fastest_of_them_decides_because_threads_wait_for_more_than_the_disk():
    slow = [THREAD_NS_MAX + 1] * COMMITS_MEASURED
    assert not is_on_loop_after(*slow, *slow)
    assert is_on_loop_after(*slow[1:], THREAD_NS_MAX)
    assert not is_on_loop_after(THREAD_NS_MAX, *slow)  # too long ago
    assert not is_on_loop_after(*slow, THREAD_NS_MAX + 1)


def test_a_slow_first_commit_on_the_loop_moves_commits_back_to_threads():
    assert not is_on_loop_after(*ENTERED, LOOP_NS_MAX + 1)
    assert is_on_loop_after(*ENTERED, LOOP_NS_MAX)


@pytest.mark.parametrize("slow", [1, COMMITS_MEASURED - 1])
def test_a_few_slow_commits_stay_on_the_loop(slow):
    assert is_on_loop_after(*ENTERED, LOOP_NS_MAX, *[LOOP_NS_MAX + 1] * slow)


def test_slow_commits_in_a_row_move_to_threads():
    assert not is_on_loop_after(*ENTERED, LOOP_NS_MAX, *[LOOP_NS_MAX + 1] * COMMITS_MEASURED)


def test_one_long_pause_moves_commits_to_threads():
    assert is_on_loop_after(*ENTERED, 1, PAUSE_NS)
    assert not is_on_loop_after(*ENTERED, 1, PAUSE_NS + 1)


def test_the_measurement_of_threads_starts_again_after_the_loop():
    over = [*ENTERED, PAUSE_NS + 1]
    assert not is_on_loop_after(*over, *ENTERED[1:])
    assert is_on_loop_after(*over, *ENTERED)


def test_a_commit_in_the_other_place_is_ignored():
    """It started before the change of place."""
    place = after(*ENTERED)
    place.commit_ended(PAUSE_NS + 1, was_on_loop=False, alone_requests=0)
    assert suits_loop(place)
    place = after(*ENTERED[1:])
    place.commit_ended(1, was_on_loop=True, alone_requests=0)
    assert not suits_loop(place)


@pytest.mark.parametrize("batching", Batching)
def test_unsynced_commits_suit_the_loop_from_the_start(batching):
    place = CommitPlace(batching)
    assert not place.must_gather(1, 0, is_in_flight=True, is_synced=False)
    assert place.suits_loop


def test_commits_per_request_move_to_the_loop_after_some_ran_alone_in_a_row():
    place = CommitPlace(Batching.REQUEST)
    for duration_ns in ENTERED:
        place.commit_ended(duration_ns, was_on_loop=False, alone_requests=0)
    alone = (1, 0, False)
    for not_alone in ((1, 1, False), (2, 0, False), (1, 0, True)):
        seen = []
        for waiting, following, is_in_flight in [not_alone] * ALONE_COMMITS_MIN + [alone] * ALONE_COMMITS_MIN:
            assert not place.must_gather(waiting, following, is_in_flight=is_in_flight)
            seen.append(place.suits_loop)
        assert seen == [False] * (2 * ALONE_COMMITS_MIN - 1) + [True]


@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_only_group_commits_on_an_idle_loop_wait_for_following_requests(batching, is_in_flight):
    gathers = CommitPlace(batching).must_gather(1, 5, is_in_flight=is_in_flight, is_synced=False)
    assert gathers == (batching is Batching.GROUP and not is_in_flight)


@pytest.mark.parametrize("batching", list(Batching))
@pytest.mark.parametrize("is_synced", [False, True])
def test_the_place_of_commits_may_be_fixed_despite_measurements(batching, is_synced):
    for commit_on in (CommitOn.LOOP, CommitOn.THREAD):
        place = CommitPlace(batching, commit_on)
        for duration_ns in (1_000, 10 * PAUSE_NS) * COMMITS_MEASURED:
            place.must_gather(1, 0, is_in_flight=False, is_synced=is_synced)
            assert place.suits_loop is (commit_on is CommitOn.LOOP)
            place.commit_ended(duration_ns, was_on_loop=place.suits_loop, alone_requests=0)
