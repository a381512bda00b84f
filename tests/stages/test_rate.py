"""A rate is measured over windows, like every quota of Apache Kafka."""

from hypothesis import given
from hypothesis import strategies as st

from stages.rate import Rate, Windows

WINDOWS = Windows(count=3, seconds=1.0)


def recorded(*times, windows=WINDOWS):
    rate = Rate()
    for time in times:
        rate.record(time, windows)
    return rate


def test_a_rate_is_the_sum_of_the_windows_over_their_time():
    rate = recorded(0.0, 0.5, 1.0, 2.4)
    assert rate.observed(2.5, WINDOWS) == 4 / 2.5


def test_time_counts_as_all_windows_but_one_at_least_so_a_quiet_client_may_burst():
    assert recorded(0.0, 0.0).observed(0.0, WINDOWS) == 1.0
    assert recorded(0.0, 0.0).observed(0.5, WINDOWS) == 2 / 2.5


def test_windows_may_have_any_length():
    windows = Windows(count=3, seconds=4.0)
    assert recorded(0.0, 0.0, windows=windows).observed(2.0, windows) == 2 / 10.0


def test_a_window_is_forgotten_when_it_began_too_long_ago():
    rate = recorded(0.0, 1.5)
    assert rate.observed(2.9, WINDOWS) == 2 / 2.9
    assert rate.observed(3.0, WINDOWS) == 1 / 2.5
    assert not rate.is_over(4.4, WINDOWS)
    assert rate.is_over(4.5, WINDOWS)
    assert rate.observed(9.0, WINDOWS) == 0.0


def test_the_events_of_a_window_are_forgotten_together_whenever_it_began():
    rate = recorded(50.0, 50.25, 50.75)
    assert rate.observed(52.75, WINDOWS) == 3 / 2.75
    assert rate.observed(53.0, WINDOWS) == 0.0
    assert rate.is_over(53.0, WINDOWS)


def test_no_more_windows_are_kept_than_count():
    assert len(recorded(*range(100))._windows) == WINDOWS.count


def test_events_taken_back_no_longer_count_and_never_make_a_rate_negative():
    rate = recorded(0.0, 1.5)
    rate.take_back(1.5)
    assert rate.observed(1.5, WINDOWS) == 1 / 2.5
    rate.take_back(1.5)
    rate.take_back(-1.0)
    assert rate.observed(1.5, WINDOWS) == 1 / 2.5
    rate.take_back(0.2)
    assert rate.is_over(1.5, WINDOWS)


def test_the_throttle_brings_the_rate_back_to_its_limit_within_one_window():
    rate = recorded(0.0, 0.0, 0.0)
    assert rate.throttle_seconds(0.0, WINDOWS, 1.5) == 0.0
    assert rate.throttle_seconds(0.0, WINDOWS, 1.2) == (1.5 - 1.2) / 1.2 * 2
    assert recorded(0.0, 0.0).throttle_seconds(0.0, WINDOWS, 0.8) == (1.0 - 0.8) / 0.8 * 2
    assert rate.throttle_seconds(0.0, WINDOWS, 0.1) == WINDOWS.seconds
    assert [each.throttle_seconds(0.0, WINDOWS, 0.0) for each in (rate, Rate())] == [WINDOWS.seconds, 0.0]


def test_a_single_window_still_has_a_length():
    windows = Windows(count=1, seconds=2.0)
    assert recorded(0.0, windows=windows).observed(0.0, windows) == 0.5


@given(st.floats(0.5, 50), st.lists(st.floats(0, 0.3), min_size=30, max_size=200), st.integers(2, 11))
def test_a_client_that_waits_out_its_throttles_keeps_to_the_limit(limit, gaps, count):
    """In any period the events are at most those that the limit allows in it and in the remembered windows.

    One more passes each time the windows are forgotten, because an event is recorded before its wait. Below one per
    window the limit is one per window, the longest throttle.
    """
    windows, now, times, rate = Windows(count, 1.0), 0.0, [], Rate()
    for gap in gaps:
        now += gap
        rate.record(now, windows)
        times.append(now)
        now += rate.throttle_seconds(now, windows, limit)
    limit = max(limit, 1 / windows.seconds)
    for place, start in enumerate(times):
        stretch = times[-1] - start
        forgotten = stretch / ((count - 1) * windows.seconds)
        assert len(times) - place <= limit * (stretch + count * windows.seconds) + forgotten + 2
