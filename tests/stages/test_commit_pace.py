"""When a group commit may begin beside others: never on a fast disk, a little apart on slow storage."""

from hypothesis import given
from hypothesis import strategies as st

from stages.commit_pace import COMMITS_IN_FLIGHT_MAX, COMMITS_REMEMBERED, SLOW_COMMIT_NS, CommitPace

MS = 1_000_000


def pace_after(*durations_ns):
    pace = CommitPace()
    for duration_ns in durations_ns:
        pace.commit_ended(duration_ns)
    return pace


def test_nothing_overlaps_before_the_storage_is_known_to_be_slow():
    for count in range(COMMITS_REMEMBERED):
        assert pace_after(*[10 * MS] * count).next_begin_ns(0) is None
    assert pace_after(*[10 * MS] * COMMITS_REMEMBERED).next_begin_ns(0) is not None


def test_commits_in_flight_are_spread_over_the_time_that_one_takes():
    pace = pace_after(*[80 * MS] * COMMITS_REMEMBERED)
    assert pace.next_begin_ns(5) == 5 + 80 * MS // COMMITS_IN_FLIGHT_MAX


def test_one_fast_commit_ends_the_overlapping():
    pace = pace_after(*[10 * MS] * COMMITS_REMEMBERED, SLOW_COMMIT_NS - 1)
    assert pace.next_begin_ns(0) is None


@given(st.lists(st.integers(0, 100 * MS), min_size=COMMITS_REMEMBERED, max_size=40))
def test_storage_is_slow_when_the_last_commits_all_were(durations_ns):
    fastest_ns = min(durations_ns[-COMMITS_REMEMBERED:])
    expected = fastest_ns // COMMITS_IN_FLIGHT_MAX if fastest_ns >= SLOW_COMMIT_NS else None
    assert pace_after(*durations_ns).next_begin_ns(0) == expected
