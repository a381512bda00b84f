"""The list of a log's leader epochs against one epoch for each offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.leader_epochs import FIRST_EPOCH, UNKNOWN_END, LeaderEpochs

REIGNS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=6)
"""Of each leader after the first: by how much the epoch rises, and how many records it appends."""


def reigns(first_count, rest):
    """Return the epochs, and the epoch of each offset."""
    epochs, by_offset = FIRST_EPOCH, [0] * first_count
    for rise, count in rest:
        epochs = epochs.begun(epochs.latest + rise, len(by_offset))
        by_offset += [epochs.latest] * count
    return epochs, by_offset


@given(st.integers(0, 4), REIGNS)
def test_each_offset_has_the_epoch_of_its_leader(first_count, rest):
    epochs, by_offset = reigns(first_count, rest)
    assert [epochs.epoch_at(offset) for offset in range(len(by_offset))] == by_offset
    assert epochs.epoch_at(len(by_offset)) == epochs.latest
    assert list(epochs.starts) == sorted(epochs.starts)
    assert len({offset for _, offset in epochs.starts}) == len(epochs.starts)


@given(st.integers(0, 4), REIGNS, st.data())
def test_an_epoch_ends_where_a_later_one_begins(first_count, rest, data):
    epochs, by_offset = reigns(first_count, rest)
    start = data.draw(st.integers(0, len(by_offset)))
    kept = by_offset[start:]
    for asked in range(-2, epochs.latest + 2):
        if asked == -1 or asked > epochs.latest:
            expected = UNKNOWN_END
        else:
            # An epoch without records is known only to the latest leader.
            known = max((each for each in (*kept, epochs.latest) if each <= asked), default=asked)
            after = next((number for number, epoch in enumerate(kept) if epoch > known), len(kept))
            expected = known, start + after
        assert epochs.end_of(asked, start, len(by_offset)) == expected
        assert epochs.since(start).end_of(asked, start, len(by_offset)) == expected


@given(st.integers(0, 4), REIGNS, st.integers(0, 30))
def test_epochs_that_begin_later_are_left_out(first_count, rest, offset):
    epochs, _ = reigns(first_count, rest)
    kept = epochs.until(offset)
    assert kept.starts == tuple(each for each in epochs.starts if each[1] <= offset) or kept.starts == epochs.starts[:1]


def test_a_leader_that_appends_nothing_leaves_no_epoch():
    epochs = FIRST_EPOCH.begun(2, 0).begun(5, 0).begun(7, 3).begun(8, 3)
    assert epochs.starts == ((5, 0), (8, 3))
    assert (epochs.end_of(0, 0, 9), epochs.end_of(6, 0, 9), epochs.end_of(8, 0, 9)) == ((0, 0), (5, 3), (8, 9))


def test_deleted_records_leave_the_epochs_of_a_log_whose_leader_never_changed():
    assert FIRST_EPOCH.since(100) is FIRST_EPOCH


def test_epochs_only_rise():
    with pytest.raises(AssertionError, match="only rise"):
        LeaderEpochs(((3, 0),)).begun(3, 1)
