"""Group commits never overlap on a fast disk, and start a little apart on slow storage."""

from hypothesis import given
from hypothesis import strategies as st

from stages.commit_pace import (
    COMMITS_IN_FLIGHT_MAX,
    COMMITS_REMEMBERED,
    PAID_LARGE_BYTES,
    SLOW_GROUP_NS,
    CommitPace,
    PaidCommitPace,
)

MS = 1_000_000


def pace_after(*durations_ns):
    pace = CommitPace()
    for duration_ns in durations_ns:
        pace.commit_ended(duration_ns)
    return pace


def test_commits_do_not_overlap_before_the_storage_proves_slow():
    for count in range(COMMITS_REMEMBERED):
        assert pace_after(*[10 * MS] * count).next_begin_ns(0) is None
    assert pace_after(*[10 * MS] * COMMITS_REMEMBERED).next_begin_ns(0) is not None
    anything_is_slow = CommitPace(slow_ns=1)
    anything_is_slow.commit_ended(1)
    assert anything_is_slow.next_begin_ns(0) is None


def test_commits_in_flight_are_spread_over_the_time_that_one_takes():
    pace = pace_after(*[80 * MS] * COMMITS_REMEMBERED)
    assert pace.next_begin_ns(5) == 5 + 80 * MS // COMMITS_IN_FLIGHT_MAX


def test_one_fast_commit_stops_overlapping():
    pace = pace_after(*[10 * MS] * COMMITS_REMEMBERED, SLOW_GROUP_NS - 1)
    assert pace.next_begin_ns(0) is None


@given(st.lists(st.integers(0, 100 * MS), min_size=COMMITS_REMEMBERED, max_size=40))
def test_storage_is_slow_if_all_recent_commits_were(durations_ns):
    fastest_ns = min(durations_ns[-COMMITS_REMEMBERED:])
    expected = fastest_ns // COMMITS_IN_FLIGHT_MAX if fastest_ns >= SLOW_GROUP_NS else None
    assert pace_after(*durations_ns).next_begin_ns(0) == expected


def begun(pace, wanted_ns, waiting_bytes=0):
    """Return when commits submitted alone at these times start, each as soon as it may."""
    times, now_ns = [], 0
    for time_ns in wanted_ns:
        now_ns = max(now_ns, time_ns)
        now_ns += pace.wait_ns(now_ns, None, waiting_bytes)
        pace.commit_began(now_ns)
        times.append(now_ns)
    return times


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60).map(sorted), st.integers(1, 50), st.integers(1, 6))
def test_paid_commits_keep_their_rate_apart_from_a_burst(wanted_ms, per_second, burst):
    times = begun(PaidCommitPace(per_second, burst), [time * MS for time in wanted_ms])
    token_ns = int(1e9 / per_second)
    for first, begin_ns in enumerate(times):
        for number, end_ns in enumerate(times[first:], 1):
            assert number <= burst + (end_ns - begin_ns) // token_ns


def test_the_first_paid_commit_starts_at_once():
    assert begun(PaidCommitPace(10, burst=1), [0, 0]) == [0, 100 * MS]


def test_after_a_rest_a_burst_starts_at_once_and_each_later_commit_waits_for_a_token():
    assert begun(PaidCommitPace(10), [5000 * MS] * 6) == [time * MS for time in (5000, 5000, 5000, 5000, 5100, 5200)]


def test_a_large_commit_does_not_wait_for_a_token():
    assert begun(PaidCommitPace(10), [0] * 9, PAID_LARGE_BYTES) == [0] * 9


def test_overlapping_paid_commits_keep_their_distance():
    pace = PaidCommitPace(1000)
    assert pace.wait_ns(0, 0, 0) is None
    for _ in range(COMMITS_REMEMBERED):
        pace.commit_ended(80 * MS)
    assert pace.wait_ns(0, 0, PAID_LARGE_BYTES) == 80 * MS // COMMITS_IN_FLIGHT_MAX
