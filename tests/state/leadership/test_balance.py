"""Moves for the balance end, and then all members lead equally many partitions within one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.balance import MOVES_MAX, Move, next_moves
from pipeline_broker.state.leadership.records import NO_NODE, PartitionKey, PartitionRecord
from tests.drawn import drawn, measured

NODES = range(4)
PARTITIONS = st.lists(
    st.tuples(st.sampled_from(NODES), st.permutations(NODES).map(lambda order: tuple(order[:2]))), max_size=24
)


def key(number):
    return PartitionKey(bytes(16), number)


def cluster(given_ones):
    return {
        key(number): PartitionRecord(leader, 0, candidates) for number, (leader, candidates) in enumerate(given_ones)
    }


def carried_out(partitions, moves):
    after = dict(partitions)
    for move in moves:
        now = after[move.key]
        assert move.to != now.leader
        after[move.key] = PartitionRecord(move.to, now.epoch + 1, move.candidates)
    return after


@measured(uneven=0.15, away=0.3)
@given(PARTITIONS, st.sets(st.sampled_from(NODES), min_size=1), st.sampled_from([1, 2, len(NODES)]))
def test_moves_end_with_leaders_that_are_preferred_and_even(given_ones, members, leaders):
    leading = sorted(members)[:leaders]
    partitions = cluster([(leading[leader % len(leading)], candidates) for leader, candidates in given_ones])
    before = Counter(it.leader for it in partitions.values())
    drawn("uneven", max(before.values(), default=0) - min((before[node] for node in members), default=0) > 1)
    drawn("away", any(it.candidates[0] != it.leader for it in partitions.values()))
    for _ in range(4 * len(partitions) + 1):
        moves = next_moves(partitions, members)
        assert len(moves) <= MOVES_MAX
        assert len({move.key for move in moves}) == len(moves)
        assert {move.to for move in moves} <= members
        if not moves:
            break
        partitions = carried_out(partitions, moves)
    else:
        raise AssertionError("the moves never end")
    led = Counter(it.leader for it in partitions.values())
    assert max(led[node] for node in members) - min(led[node] for node in members) <= 1
    assert all(it.candidates[0] == it.leader or it.candidates[0] not in members for it in partitions.values())


def test_a_partition_that_has_not_rested_stays():
    partitions = cluster([(0, (0, 1))] * 4)
    assert next_moves(partitions, {0, 1}, lambda _: False) == []
    (first, second) = next_moves(partitions, {0, 1})
    assert (first, second) == (Move(key(0), 1, (1, 0)), Move(key(1), 1, (1, 0)))


def test_moves_in_progress_count_and_are_not_repeated():
    partitions = cluster([(0, (0, 1))] * 12)
    for number in range(MOVES_MAX):
        partitions[key(number)] = partitions[key(number)]._replace(wanted=1)
    assert next_moves(partitions, {0, 1}) == []
    partitions[key(0)] = partitions[key(0)]._replace(wanted=NO_NODE)
    assert [move.to for move in next_moves(partitions, {0, 1})] == [1]
