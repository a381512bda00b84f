"""Where commits run: on the loop where that was tried and was fast, else in threads."""

import pytest

from stages.fast_storage import COMMITS_LOOKED_AT, LOOP_NS_MAX, PAUSE_NS, THREAD_NS_MAX, FastStorage

BUSY_NS = 3 * LOOP_NS_MAX
"""What a thread measures of a fast disk while the loop is busy."""


def after(*durations_ns):
    """The storage after commits that ran where it said."""
    fast = FastStorage()
    for duration_ns in durations_ns:
        fast.commit_ended(duration_ns, was_on_loop=fast.is_fast)
    return fast


ENTERED = [BUSY_NS] * COMMITS_LOOKED_AT


def test_the_loop_is_tried_after_some_commits_of_threads():
    assert not after(*ENTERED[1:]).is_fast
    assert after(*ENTERED).is_fast


def test_the_fastest_of_them_decides_because_threads_wait_for_more_than_the_disk():
    slow = [THREAD_NS_MAX + 1] * COMMITS_LOOKED_AT
    assert not after(*slow, *slow).is_fast
    assert after(*slow[1:], THREAD_NS_MAX).is_fast
    assert not after(THREAD_NS_MAX, *slow).is_fast  # too long ago
    assert not after(*slow, THREAD_NS_MAX + 1).is_fast


def test_a_first_commit_on_the_loop_that_is_not_fast_ends_the_try():
    assert not after(*ENTERED, LOOP_NS_MAX + 1).is_fast
    assert after(*ENTERED, LOOP_NS_MAX).is_fast


@pytest.mark.parametrize("slow", [1, COMMITS_LOOKED_AT - 1])
def test_some_slower_commits_do_not_end_it(slow):
    assert after(*ENTERED, LOOP_NS_MAX, *[LOOP_NS_MAX + 1] * slow).is_fast


def test_slower_commits_in_a_row_end_it():
    assert not after(*ENTERED, LOOP_NS_MAX, *[LOOP_NS_MAX + 1] * COMMITS_LOOKED_AT).is_fast


def test_one_pause_ends_it_at_once():
    assert after(*ENTERED, 1, PAUSE_NS).is_fast
    assert not after(*ENTERED, 1, PAUSE_NS + 1).is_fast


def test_after_its_end_threads_are_looked_at_anew():
    ended = [*ENTERED, PAUSE_NS + 1]
    assert not after(*ended, *ENTERED[1:]).is_fast
    assert after(*ended, *ENTERED).is_fast


def test_a_commit_that_ran_elsewhere_says_nothing():
    """It began before the change."""
    fast = after(*ENTERED)
    fast.commit_ended(PAUSE_NS + 1, was_on_loop=False)
    assert fast.is_fast
    fast = after(*ENTERED[1:])
    fast.commit_ended(1, was_on_loop=True)
    assert not fast.is_fast
