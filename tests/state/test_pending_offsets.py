"""Offsets that transactions have stored: the later record counts, and each is unstable until its marker."""

from __future__ import annotations

import pytest

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.pending_offsets import Holder

KEY, OTHER = OffsetKey("g", "t", 0), OffsetKey("g", "t", 1)
MINE, ANOTHER = Holder(0, 7), Holder(0, 8)


def offset_of(offsets: CommittedOffsets, key: OffsetKey = KEY) -> int | None:
    found = offsets.get(key)
    return None if found is None else found.offset


def store(offsets: CommittedOffsets, offset: int | None, holder: Holder | None = None, key: OffsetKey = KEY) -> None:
    committed = None if offset is None else CommittedOffset(offset, -1, "", 0)
    offsets.apply(offsets.change([(key, committed)], holder))


@pytest.fixture
def offsets() -> CommittedOffsets:
    return CommittedOffsets(GroupMemory(1 << 20))


def test_what_a_transaction_stored_counts_when_it_commits(offsets: CommittedOffsets) -> None:
    store(offsets, 5)
    store(offsets, 9, MINE)
    assert offset_of(offsets) == 5
    assert offsets.is_unstable(KEY)
    offsets.end_transaction(MINE, committed=True)
    assert offset_of(offsets) == 9
    assert not offsets.is_unstable(KEY)


def test_what_an_aborted_transaction_stored_never_counts(offsets: CommittedOffsets) -> None:
    store(offsets, 5)
    store(offsets, 9, MINE)
    offsets.end_transaction(MINE, committed=False)
    assert offset_of(offsets) == 5
    assert not offsets.is_unstable(KEY)


@pytest.mark.parametrize("later", [3, None], ids=["commit", "tombstone"])
def test_a_record_without_a_transaction_overtakes_what_waits(offsets: CommittedOffsets, later: int | None) -> None:
    store(offsets, 9, MINE)
    store(offsets, 9, MINE, OTHER)
    store(offsets, later)
    assert offsets.is_unstable(KEY)
    offsets.end_transaction(MINE, committed=True)
    assert (offset_of(offsets), offset_of(offsets, OTHER)) == (later, 9)


def test_what_a_transaction_stores_again_after_it_was_overtaken_counts(offsets: CommittedOffsets) -> None:
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
