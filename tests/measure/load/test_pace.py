"""The pace of requests: windows, think times, and intended times."""

import itertools
import random
import statistics

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.load.pace import NS_PER_S, ClosedPace, OpenPace, constant_moments, poisson_moments


def test_a_closed_loop_fills_its_window_and_ends_when_no_answer_can_arrive_in_time():
    pace = ClosedPace(3, stop_ns=100)
    assert pace.take(10, 0) == [10, 10, 10]
    assert pace.take(20, 2) == [20]
    assert pace.next_ns(3) is None, "only an answer frees a slot"
    pace.answered(1, 40, latency_ns=30)
    assert not pace.is_over(69)
    assert pace.take(69, 2) == [69]
    assert pace.is_over(70), "30 ns later it would be 100"
    assert pace.take(70, 0) == []


def test_a_slot_of_the_window_waits_for_the_think_time():
    pace = ClosedPace(2, stop_ns=1000, think_ns=50)
    assert pace.take(5, 0) == [5, 5]
    pace.answered(1, 20, latency_ns=15)
    assert pace.next_ns(1) == 70
    assert pace.take(69, 1) == []
    assert pace.take(71, 1) == [71]
    assert pace.next_ns(2) is None


@given(st.lists(st.integers(0, 50), max_size=30).map(sorted), st.integers(1, 5), st.data())
def test_an_open_loop_sends_as_the_window_allows_and_keeps_its_intended_times(moments, window, draw):
    pace = OpenPace(moments, window, stop_ns=40)
    meant = [it for it in moments if it < 40]
    sent, in_flight = [], 0
    for now_ns in range(0, 200, 3):
        taken = pace.take(now_ns, in_flight)
        sent += taken
        in_flight += len(taken)
        assert in_flight <= window
        assert all(it <= now_ns for it in taken)
        due = [it for it in meant if it <= now_ns]
        assert len(sent) == len(due) or in_flight == window, "nothing waits that could be sent"
        in_flight -= draw.draw(st.integers(0, in_flight))
        following = pace.next_ns(in_flight)
        assert following == (meant[len(sent)] if len(sent) < len(meant) and in_flight < window else None)
        assert pace.is_over(now_ns) == (len(sent) == len(meant))
    assert sent == meant[: len(sent)]


@given(st.integers(1, 7), st.floats(1, 100_000))
def test_constant_times_of_all_shares_together_have_equal_gaps(shares, rate):
    each = [itertools.islice(constant_moments(1_000, rate, share, shares), 20) for share in range(shares)]
    together = sorted(itertools.chain.from_iterable(each))
    gaps = [after - before for before, after in itertools.pairwise(together)]
    assert together[0] == 1_000
    assert max(gaps) - min(gaps) <= 1
    assert abs(statistics.fmean(gaps) - NS_PER_S / rate) <= 1


def test_poisson_moments_have_the_rate_and_the_spread_of_a_poisson_process():
    """The gaps of an exponential distribution have a standard deviation that equals their mean."""
    moments = list(itertools.islice(poisson_moments(0, 4_000, 4, random.Random(7)), 50_000))
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    mean = statistics.fmean(gaps)
    assert abs(mean / (NS_PER_S / 1_000) - 1) < 0.02
    assert abs(statistics.stdev(gaps) / mean - 1) < 0.02
    assert moments == sorted(moments)


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 32))
def test_the_gaps_of_poisson_moments_do_not_depend_on_the_start(start_ns, seed):
    first, later = (
        list(itertools.islice(poisson_moments(began_ns, 400, 2, random.Random(seed)), 200))
        for began_ns in (0, start_ns)
    )
    assert [start_ns + moment for moment in first] == later
