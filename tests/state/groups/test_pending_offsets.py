"""Offsets of transactions: the later record wins, and offsets are unstable until their marker."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets
from pipeline_broker.state.groups.pending_offsets import PendingOffsets, size_of_offset

KEY, OTHER = OffsetKey("g", "t", 0), OffsetKey("g", "t", 1)
MINE, ANOTHER = 7, 8


def offset_of(offsets: CommittedOffsets, key: OffsetKey = KEY) -> int | None:
    found = offsets.get(key)
    return None if found is None else found.offset


def store(offsets: CommittedOffsets, offset: int | None, producer_id: int | None = None, key: OffsetKey = KEY) -> None:
    committed = None if offset is None else CommittedOffset(offset, -1, "", 0)
    offsets.apply(offsets.change([(key, committed)], producer_id))


@pytest.fixture
def offsets() -> CommittedOffsets:
    return CommittedOffsets(GroupMemory(1 << 20))


def test_offsets_of_a_transaction_apply_when_it_commits(offsets: CommittedOffsets) -> None:
    store(offsets, 5)
    store(offsets, 9, MINE)
    assert offset_of(offsets) == 5
    assert offsets.is_unstable(KEY)
    offsets.end_transaction(MINE, committed=True)
    assert offset_of(offsets) == 9
    assert not offsets.is_unstable(KEY)


def test_offsets_of_an_aborted_transaction_are_discarded(offsets: CommittedOffsets) -> None:
    store(offsets, 5)
    store(offsets, 9, MINE)
    offsets.end_transaction(MINE, committed=False)
    assert offset_of(offsets) == 5
    assert not offsets.is_unstable(KEY)


@pytest.mark.parametrize("later", [3, None], ids=["commit", "tombstone"])
def test_a_record_without_a_transaction_overrides_a_held_offset(offsets: CommittedOffsets, later: int | None) -> None:
    store(offsets, 9, MINE)
    store(offsets, 9, MINE, OTHER)
    store(offsets, later)
    assert offsets.is_unstable(KEY)
    offsets.end_transaction(MINE, committed=True)
    assert (offset_of(offsets), offset_of(offsets, OTHER)) == (later, 9)


def test_a_record_without_a_transaction_overrides_the_offset_of_every_transaction(offsets: CommittedOffsets) -> None:
    for producer_id in (MINE, ANOTHER):
        store(offsets, 9, producer_id)
    store(offsets, 3)
    for producer_id in (MINE, ANOTHER):
        offsets.end_transaction(producer_id, committed=True)
    assert offset_of(offsets) == 3


def test_an_offset_stored_again_after_an_override_applies(offsets: CommittedOffsets) -> None:
    store(offsets, 9, MINE)
    store(offsets, 3)
    store(offsets, 10, MINE)
    offsets.end_transaction(MINE, committed=True)
    assert offset_of(offsets) == 10


def test_an_offset_is_unstable_until_the_last_transaction_about_it_has_ended(offsets: CommittedOffsets) -> None:
    store(offsets, 1, MINE)
    store(offsets, 2, ANOTHER)
    offsets.end_transaction(ANOTHER, committed=True)
    assert (offset_of(offsets), offsets.is_unstable(KEY), offsets.is_unstable(OTHER)) == (2, True, False)
    offsets.end_transaction(MINE, committed=False)
    assert (offset_of(offsets), offsets.is_unstable(KEY)) == (2, False)


def test_a_record_that_never_became_durable_leaves_no_offset_unstable(offsets: CommittedOffsets) -> None:
    change = offsets.change([(KEY, CommittedOffset(9, -1, "", 0))], MINE)
    assert offsets.is_unstable(KEY)
    offsets.drop(change)
    assert not offsets.is_unstable(KEY)
    offsets.end_transaction(MINE, committed=True)
    assert offset_of(offsets) is None


def committed(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, -1, metadata, 0)


SMALL, LARGE, NEXT = (KEY, committed(1)), (KEY, committed(2, "x" * 1000)), (OTHER, committed(3))


def assert_held(offsets: CommittedOffsets, *stored: tuple[OffsetKey, CommittedOffset]) -> None:
    assert offsets.memory.bytes_held == sum(size_of_offset(*each) for each in stored)


def test_memory_of_held_offsets_is_counted_until_the_end(offsets: CommittedOffsets) -> None:
    offsets.apply(offsets.change([SMALL]))
    offsets.apply(offsets.change([LARGE], MINE))
    offsets.apply(offsets.change([LARGE, NEXT], ANOTHER))
    assert_held(offsets, SMALL, LARGE, LARGE, NEXT)
    offsets.apply(offsets.change([SMALL], MINE))
    assert_held(offsets, SMALL, SMALL, LARGE, NEXT)
    offsets.end_transaction(MINE, committed=False)
    assert_held(offsets, SMALL, LARGE, NEXT)
    offsets.end_transaction(ANOTHER, committed=True)
    assert_held(offsets, LARGE, NEXT)


def test_memory_of_overridden_offsets_is_not_counted(offsets: CommittedOffsets) -> None:
    offsets.apply(offsets.change([LARGE, NEXT], MINE))
    offsets.apply(offsets.change([SMALL]))
    assert_held(offsets, SMALL, NEXT)
    offsets.end_transaction(MINE, committed=True)
    assert_held(offsets, SMALL, NEXT)


def test_repeated_overrides_do_not_change_the_memory(offsets: CommittedOffsets) -> None:
    offsets.apply(offsets.change([LARGE], MINE))
    for _ in range(2):
        offsets.apply(offsets.change([SMALL]))
        assert_held(offsets, SMALL)
    for _ in range(2):
        offsets.apply(offsets.change([(KEY, None)]))
        assert_held(offsets)


def test_the_end_of_an_empty_transaction_does_not_change_the_memory(offsets: CommittedOffsets) -> None:
    offsets.apply(offsets.change([SMALL], MINE))
    for is_committed in (True, False):
        offsets.end_transaction(ANOTHER, committed=is_committed)
        assert_held(offsets, SMALL)


def test_all_yields_committed_and_held_offsets_except_overridden_ones(
    offsets: CommittedOffsets,
) -> None:
    offsets.apply(offsets.change([LARGE, NEXT], MINE))
    offsets.apply(offsets.change([NEXT], ANOTHER))
    assert list(offsets.all()) == [LARGE, NEXT, NEXT]
    offsets.apply(offsets.change([SMALL]))
    assert list(offsets.all()) == [SMALL, NEXT, NEXT]


def test_offsets_of_a_topic_include_pending_and_held_ones(
    offsets: CommittedOffsets,
) -> None:
    """They are deleted with the topic; otherwise a later commit of the transaction would restore them."""
    store(offsets, 5)
    offsets.change([(OffsetKey("h", "t", 2), committed(1))])
    for key in (OTHER, OffsetKey("i", "t", 3), OffsetKey("i", "u", 0)):
        store(offsets, 9, MINE, key)
    assert offsets.of_topic("t") == {"g": {0: None, 1: None}, "h": {2: None}, "i": {3: None}}


def test_replayed_offsets_of_transactions_are_counted(offsets: CommittedOffsets) -> None:
    offsets.replay_held(MINE, *LARGE)
    assert_held(offsets, LARGE)


def test_a_transaction_cannot_exceed_the_memory() -> None:
    """It replaces only its own offsets until it ends, so all others need additional memory."""
    offsets = CommittedOffsets(GroupMemory(2 * size_of_offset(*LARGE)))
    offsets.apply(offsets.change([LARGE]))
    assert offsets.admits([LARGE], MINE)
    offsets.apply(offsets.change([LARGE], MINE))
    assert offsets.admits([LARGE], MINE)
    assert not offsets.admits([SMALL], ANOTHER)
    assert not offsets.admits([NEXT], MINE)
    offsets.end_transaction(MINE, committed=True)
    assert offsets.admits([SMALL], ANOTHER)


def test_unstable_offsets_do_not_expire(offsets: CommittedOffsets) -> None:
    store(offsets, 5)
    store(offsets, 6, key=OTHER)
    store(offsets, 9, MINE)
    assert offsets.expired("g", lambda *_: True) == [OTHER]
    offsets.end_transaction(MINE, committed=False)
    assert offsets.expired("g", lambda *_: True) == [KEY, OTHER]


def test_a_commit_applies_the_offsets_of_each_group(offsets: CommittedOffsets) -> None:
    keys = [OffsetKey(group, "t", partition) for partition in (0, 1) for group in ("g", "h")]
    for offset, key in enumerate(keys):
        store(offsets, offset, MINE, key)
    offsets.end_transaction(MINE, committed=True)
    assert [offset_of(offsets, key) for key in keys] == [0, 1, 2, 3]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "drop", "end"]),
            st.sampled_from([MINE, ANOTHER]),
            st.sampled_from("gh"),
            st.sets(st.integers(0, 2), min_size=1),
        ),
        max_size=12,
    )
)
def test_an_offset_is_unstable_as_long_as_an_open_transaction_has_it(story) -> None:
    """In any number of transactions and groups; a failed append counts until it is dropped."""
    pending, held = PendingOffsets(GroupMemory(1 << 20)), {MINE: [], ANOTHER: []}
    for deed, producer_id, group_id, partitions in story:
        keys = [OffsetKey(group_id, "t", partition) for partition in partitions]
        if deed == "end":
            pending.end(producer_id)
            held[producer_id].clear()
        else:
            pending.append(keys)
            assert all(map(pending.is_unstable, keys))
        if deed == "drop":
            pending.drop(group_id, keys)
        elif deed == "hold":
            pending.hold(producer_id, [(key, committed(1)) for key in keys])
            held[producer_id] += keys
        unstable = {*held[MINE], *held[ANOTHER]}
        assert bool(pending) is bool(unstable)
        assert sorted(pending.groups()) == sorted({key.group_id for key in unstable})
        for name in "gh":
            of_group = {key for key in unstable if key.group_id == name}
            assert Counter(pending.of_group(name)) == Counter(of_group)
            for partition in range(3):
                key = OffsetKey(name, "t", partition)
                assert pending.is_unstable(key) is (key in of_group)
