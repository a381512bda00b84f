"""New partitions are spread evenly, whatever the members lead already."""

from collections import Counter
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.placement import candidates_of, first_leaders
from tests.drawn import drawn, measured

LED = st.dictionaries(st.integers(0, 9), st.integers(0, 20), min_size=1, max_size=5)


@measured(uneven=0.2)
@given(st.integers(0, 60), LED, st.integers(0, 100))
def test_each_new_partition_goes_to_a_member_that_leads_the_fewest(count, led, start):
    drawn("uneven", max(led.values()) - min(led.values()) > 1)
    now = Counter(led)
    for leader in islice(first_leaders(led, start), count):
        assert now[leader] == min(now[node] for node in led)
        now[leader] += 1


def test_topics_of_one_partition_begin_at_different_members():
    assert [next(first_leaders({1: 0, 2: 0, 3: 0}, start)) for start in range(4)] == [1, 2, 3, 1]


@given(st.sets(st.integers(0, 20), min_size=1), st.data())
def test_candidates_are_different_members_and_the_leader_comes_first(members, data):
    leader, count = data.draw(st.sampled_from(sorted(members))), data.draw(st.integers(1, len(members)))
    candidates = candidates_of(leader, members, count)
    assert candidates[0] == leader
    assert len(set(candidates)) == len(candidates) == count
    assert set(candidates) <= members
