"""Rules of a share partition, one by one.

Longer than most files: one test for each rule.
"""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.share_partitions.messages import (
    AcknowledgeError,
    AcknowledgementBatch,
    Acquired,
    AcquireLimits,
    AcquireMode,
    FetchedBatch,
    StateBatch,
)
from pipeline_broker.state.share_partitions.record_state import AFTER, TERMINAL, AcknowledgeType, RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs, Span
from pipeline_broker.state.share_partitions.share_partition import NEVER_MS, SharePartition

NOW_MS = 1_000_000
DEFAULTS = ShareGroupSettings()
LOCK_MS = 30_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
MANY = AcquireLimits(records_max=500, batch_size=500)


def batches(*ranges):
    return [FetchedBatch(*each) for each in ranges]


def taken(partition, *ranges, member="m", wanted=MANY, now_ms=NOW_MS, read_from=None):
    read_from = partition.next_offset() if read_from is None else read_from
    return partition.acquire(member, read_from, batches(*ranges), wanted, now_ms)


def said(partition, first, last, *types, member="m", now_ms=NOW_MS):
    return partition.acknowledge(member, [AcknowledgementBatch(first, last, types)], now_ms)


def states(partition):
    return [(run.first, run.last, run.state) for run in partition.runs]


def test_the_table_moves_only_what_is_acquired():
    """Every acknowledgement begins at Acquired, and final states have no transition."""
    assert {before for before, _ in AFTER} == {ACQUIRED}
    assert {kind for _, kind in AFTER} == set(AcknowledgeType)
    assert not TERMINAL & {before for before, _ in AFTER}


def test_records_are_acquired_once():
    partition = SharePartition(0, DEFAULTS)
    assert taken(partition, (0, 9)) == [Acquired(0, 9, 1)]
    assert partition.next_offset() == 10
    assert taken(partition, (0, 9), member="other", read_from=0) == []
    assert taken(partition, (10, 14), member="other") == [Acquired(10, 14, 1)]


def test_deleted_records_do_not_count_for_the_limit():
    partition = SharePartition(0, ShareGroupSettings(partition_max_record_locks=10))
    assert taken(partition, (100, 109), read_from=0) == [Acquired(100, 109, 1)]
    assert (partition.start_offset, partition.next_offset()) == (100, None)


def test_accepted_records_move_the_start():
    """Complete records at the start are dropped, others are remembered."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    change = said(partition, 5, 9, ACCEPT)
    assert (change.start_offset, change.delivery_complete_count) == (0, 5)
    assert change.batches == (StateBatch(5, 9, ACKNOWLEDGED, 1),)
    change = said(partition, 0, 4, ACCEPT)
    assert (change.start_offset, change.batches) == (10, ())
    assert (partition.start_offset, partition.in_flight) == (10, 0)


def test_one_type_for_each_record():
    """Accepted, released, rejected and missing records of one batch."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 4))
    change = said(partition, 0, 4, RELEASE, ACCEPT, ACCEPT, REJECT, GAP)
    assert change.batches == (
        StateBatch(0, 0, AVAILABLE, 1),
        StateBatch(1, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 4, ARCHIVED, 1),
    )
    assert states(partition) == [(0, 0, AVAILABLE), (1, 2, ACKNOWLEDGED), (3, 4, ARCHIVED)]
    assert partition.next_offset() == 0


def test_a_released_record_counts_its_deliveries_and_is_archived_at_the_limit():
    """After the last allowed delivery a released record is archived."""
    partition = SharePartition(0, ShareGroupSettings(delivery_count_limit=2))
    assert taken(partition, (0, 0)) == [Acquired(0, 0, 1)]
    said(partition, 0, 0, RELEASE)
    assert taken(partition, (0, 0)) == [Acquired(0, 0, 2)]
    change = said(partition, 0, 0, RELEASE)
    assert (change.start_offset, change.batches) == (1, ())


def test_locks_expire():
    """Records with an expired lock are available again, and the delivery counts; a renewed lock lasts longer."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    assert partition.next_lock_ms == NOW_MS + LOCK_MS
    assert said(partition, 0, 4, RENEW, now_ms=NOW_MS + 20_000) is None
    assert partition.expire_locks(NOW_MS + LOCK_MS - 1) is None
    change = partition.expire_locks(NOW_MS + LOCK_MS)
    assert change.batches == (StateBatch(5, 9, AVAILABLE, 1),)
    assert partition.next_lock_ms == NOW_MS + 20_000 + LOCK_MS
    assert partition.expire_locks(NOW_MS + 20_000 + LOCK_MS).batches == (StateBatch(0, 4, AVAILABLE, 1),)
    assert states(partition) == [(0, 9, AVAILABLE)], "equal neighbours are joined again"
    assert partition.next_lock_ms == NEVER_MS


def test_a_lock_renewed_for_a_shorter_time_expires_then():
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 0))
    partition.settings = ShareGroupSettings(record_lock_duration_ms=LOCK_MS // 2)
    assert said(partition, 0, 0, RENEW) is None
    assert partition.expire_locks(NOW_MS + LOCK_MS // 2 - 1) is None
    assert partition.expire_locks(NOW_MS + LOCK_MS // 2).batches == (StateBatch(0, 0, AVAILABLE, 1),)


def test_release_returns_all_records_of_a_member():
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 4), member="gone")
    taken(partition, (5, 9), member="stays")
    change = partition.release("gone")
    assert change.batches == (StateBatch(0, 4, AVAILABLE, 1),)
    assert partition.release("gone") is None
    assert taken(partition, (0, 9), member="stays") == [Acquired(0, 4, 2)]


@pytest.mark.parametrize(
    ("first", "last", "code"),
    [
        (20, 21, ErrorCode.INVALID_REQUEST),
        (8, 21, ErrorCode.INVALID_REQUEST),
        (0, 9, ErrorCode.INVALID_RECORD_STATE),
        (3, 3, ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_records_that_are_not_acquired_cannot_be_acknowledged(first, last, code):
    """Kafka's errors for records after the window or released ones; nothing changes."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    said(partition, 3, 3, RELEASE)
    before = states(partition)
    with pytest.raises(AcknowledgeError) as refused:
        said(partition, first, last, ACCEPT)
    assert refused.value.code is code
    assert states(partition) == before


def test_other_members_and_empty_windows_reject_acknowledgements():
    partition = SharePartition(0, DEFAULTS)
    with pytest.raises(AcknowledgeError) as refused:
        said(partition, 0, 0, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    taken(partition, (0, 9))
    with pytest.raises(AcknowledgeError, match="owner"):
        said(partition, 0, 9, ACCEPT, member="other")


def test_one_invalid_batch_rejects_all():
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    with pytest.raises(AcknowledgeError):
        partition.acknowledge("m", [AcknowledgementBatch(0, 4, [ACCEPT]), AcknowledgementBatch(4, 5, [ACCEPT])], NOW_MS)
    assert states(partition) == [(0, 9, ACQUIRED)]


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ((5, 5), (5, 5), True),
        ((5, 7), (5, 6), True),
        ((5, 7), (7, 9), True),
        ((6, 7), (7, 9), True),
        ((5, 6), (7, 9), False),
        ((3, 6), (7, 9), False),
        ((3, 4), (4, 4), False),
        ((3, 4), (3, 9), False),
    ],
)
def test_a_request_acknowledges_each_record_of_the_window_once(first, second, is_refused):
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    said(partition, 0, 4, ACCEPT)
    spoken = [AcknowledgementBatch(*offsets, [ACCEPT]) for offsets in (first, second)]
    if is_refused:
        with pytest.raises(AcknowledgeError) as refused:
            partition.acknowledge("m", spoken, NOW_MS)
        assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
        assert states(partition) == [(5, 9, ACQUIRED)]
    else:
        partition.acknowledge("m", spoken, NOW_MS)
        told = {offset for start, end in (first, second) for offset in range(start, end + 1)}
        assert partition.runs.done + partition.start_offset == 5 + len(told - set(range(5)))


def test_records_before_the_start_may_be_acknowledged_again():
    """Of a batch across the start, the records after it count."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    said(partition, 0, 4, ACCEPT)
    assert said(partition, 0, 4, RELEASE) is None
    assert said(partition, 3, 9, ACCEPT).start_offset == 10


def test_batch_optimized_goes_to_the_end_of_a_batch():
    """A limit of three with batches of two acquires four, listed in parts of `batch_size`."""
    partition = SharePartition(0, DEFAULTS)
    wanted = AcquireLimits(records_max=3, batch_size=2)
    assert taken(partition, (0, 1), (2, 3), (4, 5), wanted=wanted) == [Acquired(0, 1, 1), Acquired(2, 3, 1)]
    assert taken(partition, (4, 5), (6, 7), wanted=MANY) == [Acquired(4, 7, 1)]


def test_record_limit_is_exact():
    """KIP-1206: a limit of three acquires three; the next fetch gets the rest of the batch separately."""
    partition = SharePartition(0, DEFAULTS)
    exact = AcquireLimits(records_max=3, batch_size=1, mode=AcquireMode.RECORD_LIMIT)
    assert taken(partition, (0, 4), (5, 9), (10, 14), wanted=exact) == [Acquired(0, 2, 1)]
    assert states(partition) == [(0, 2, ACQUIRED), (3, 4, AVAILABLE)]
    assert partition.next_offset() == 3
    assert taken(partition, (0, 4), (5, 9), (10, 14), wanted=exact) == [Acquired(3, 4, 1), Acquired(5, 5, 1)]
    assert taken(partition, (5, 9), (10, 14), wanted=MANY) == [Acquired(6, 9, 1), Acquired(10, 14, 1)]


def test_errors_distinguish_available_records_from_those_after_the_window():
    """The rest of a batch is in the window although no member has acquired it."""
    partition = SharePartition(0, DEFAULTS)
    exact = AcquireLimits(records_max=3, batch_size=1, mode=AcquireMode.RECORD_LIMIT)
    taken(partition, (0, 4), (5, 9), wanted=exact)
    with pytest.raises(AcknowledgeError) as refused:
        said(partition, 3, 3, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    with pytest.raises(AcknowledgeError) as refused:
        said(partition, 5, 5, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_returned_records_are_delivered_in_their_first_spans():
    """A limit of one delivers the first span; a high limit delivers each span separately."""
    partition = SharePartition(0, DEFAULTS)
    pairs = [(first, first + 1) for first in range(0, 12, 2)]
    taken(partition, *pairs, wanted=AcquireLimits(records_max=12, batch_size=3))
    said(partition, 0, 11, RELEASE)
    one, many = AcquireLimits(records_max=1, batch_size=1), AcquireLimits(records_max=500, batch_size=500)
    assert taken(partition, *pairs, wanted=one) == [Acquired(0, 3, 2)]
    said(partition, 1, 1, ACCEPT)
    said(partition, 2, 2, RELEASE)
    said(partition, 0, 0, RELEASE)
    assert taken(partition, *pairs, wanted=one) == [Acquired(0, 0, 3), Acquired(2, 2, 3)]
    assert taken(partition, *pairs, wanted=many) == [Acquired(4, 7, 2), Acquired(8, 11, 2)]


def test_a_change_joins_neighbours_of_different_spans():
    """The stored state does not grow with the number of fetches."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, *((first, first) for first in range(10)), wanted=AcquireLimits(records_max=10, batch_size=1))
    assert partition.release("m").batches == (StateBatch(0, 9, AVAILABLE, 1),)


def test_a_fetch_reads_as_far_as_its_limit_reaches():
    """It skips acquired records and reads to the end of a span, or as many new records as the limit leaves."""
    partition = SharePartition(0, DEFAULTS)
    assert partition.last_wanted(5) == 4
    taken(partition, (0, 9), (10, 19), wanted=AcquireLimits(records_max=20, batch_size=10))
    assert partition.last_wanted(5) == 24
    said(partition, 2, 3, RELEASE)
    said(partition, 12, 12, RELEASE)
    assert [partition.last_wanted(wanted) for wanted in (1, 2, 3, 4)] == [9, 9, 19, 20]


def test_the_window_is_bounded():
    """A full window delivers returned records, but no new ones."""
    partition = SharePartition(0, ShareGroupSettings(partition_max_record_locks=100))
    assert taken(partition, *((n, n + 9) for n in range(0, 200, 10))) == [Acquired(0, 99, 1)]
    assert partition.next_offset() is None
    said(partition, 50, 59, ACCEPT)
    assert partition.next_offset() is None
    said(partition, 20, 21, RELEASE)
    assert partition.next_offset() == 20
    assert taken(partition, (20, 29), (100, 109)) == [Acquired(20, 21, 2)]
    said(partition, 0, 9, ACCEPT)
    assert partition.next_offset() == 100


def test_records_deleted_from_the_log_are_archived():
    """Compaction removed 5 to 9 while they were available; reading and the start continue after them."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 4), (5, 9), (10, 14))
    said(partition, 0, 14, RELEASE)
    assert taken(partition, (10, 14), read_from=0) == [Acquired(10, 14, 2)]
    assert partition.start_offset == 10


def test_a_gap_in_the_log_is_acquired_with_its_neighbours():
    """The member acknowledges it as a gap."""
    partition = SharePartition(0, DEFAULTS)
    assert taken(partition, (0, 4), (8, 9)) == [Acquired(0, 9, 1)]
    said(partition, 0, 7, ACCEPT, ACCEPT, ACCEPT, ACCEPT, ACCEPT, GAP, GAP, GAP)
    assert partition.start_offset == 8


def test_a_gap_at_the_start_of_the_log_is_archived():
    partition = SharePartition(0, DEFAULTS)
    assert taken(partition, (10, 14), read_from=0) == [Acquired(10, 14, 1)]
    assert (partition.start_offset, partition.delivery_complete_count) == (10, 0)
    assert taken(partition, (20, 24), read_from=15) == [Acquired(20, 24, 1)]
    assert (partition.start_offset, partition.delivery_complete_count) == (10, 5)
    assert states(partition) == [(10, 14, ACQUIRED), (15, 19, ARCHIVED), (20, 24, ACQUIRED)]


@pytest.mark.parametrize(
    ("found", "wanted", "read_from"),
    [
        ([], MANY, 4),
        ([(4, 9)], AcquireLimits(records_max=0, batch_size=1), 4),
        ([(0, 3)], MANY, 0),
        ([(0, 3)], MANY, 4),
    ],
    ids=["nothing read", "limit of 0", "before the start", "after the batches"],
)
def test_there_is_nothing_to_acquire(found, wanted, read_from):
    partition = SharePartition(4, DEFAULTS)
    assert taken(partition, *found, wanted=wanted, read_from=read_from) == []
    assert (partition.start_offset, partition.in_flight, partition.next_lock_ms) == (4, 0, NEVER_MS)


def test_a_full_window_delivers_returned_records_only():
    partition = SharePartition(0, ShareGroupSettings(partition_max_record_locks=10))
    taken(partition, (0, 9))
    assert taken(partition, (10, 14), read_from=10) == []
    said(partition, 9, 9, RELEASE)
    assert taken(partition, (9, 14), read_from=9) == [Acquired(9, 9, 2)]
    assert (partition.end_offset, partition.next_offset()) == (9, None)


def test_invisible_batches_are_archived():
    """With read_committed, aborted records are never delivered, but count for the limit."""
    partition = SharePartition(0, DEFAULTS)
    assert taken(partition, (0, 4), (5, 5, False), (6, 9)) == [Acquired(0, 4, 1), Acquired(6, 9, 1)]
    said(partition, 0, 4, ACCEPT)
    assert partition.start_offset == 6
    few = AcquireLimits(records_max=3, batch_size=1)
    for found, wanted in (([(0, 4, False)], MANY), ([(0, 4, False), (5, 9)], few)):
        partition = SharePartition(0, DEFAULTS)
        assert taken(partition, *found, wanted=wanted) == []
        assert (partition.start_offset, partition.in_flight) == (5, 0)


def test_a_raised_log_start_moves_the_window():
    """Records before it are complete, whichever member has them."""
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    partition.raise_start(5)
    assert (partition.start_offset, states(partition)) == (5, [(5, 9, ACQUIRED)])
    assert said(partition, 0, 9, ACCEPT).start_offset == 10
    partition.raise_start(3)
    assert partition.start_offset == 10
    partition.raise_start(100)
    assert (partition.start_offset, partition.next_offset()) == (100, 100)


def test_bad_records_are_isolated():
    """After half of the allowed deliveries a run is halved; before the last one a record is delivered alone."""
    partition = SharePartition(0, DEFAULTS)
    sizes = []
    for _ in range(5):
        (first, last, _), *_ = taken(partition, (0, 99))
        sizes.append(last - first + 1)
        partition.release("m")
    assert sizes == [100, 100, 100, 50, 1]


@pytest.mark.parametrize(("most", "sizes"), [(2, [10, 10]), (3, [10, 10, 1]), (4, [10, 10, 5, 1])])
def test_with_few_allowed_deliveries_no_record_is_isolated(most, sizes):
    partition = SharePartition(0, ShareGroupSettings(delivery_count_limit=most))
    found = []
    for _ in range(most):
        (first, last, _), *_ = taken(partition, (0, 9))
        found.append(last - first + 1)
        partition.release("m")
    assert found == sizes


def test_a_record_before_its_last_delivery_is_delivered_without_its_neighbours():
    """Also if the neighbours are before their last delivery, too."""
    settings = ShareGroupSettings(delivery_count_limit=5)
    partition = SharePartition(0, settings, [StateBatch(0, 0, AVAILABLE, 4), StateBatch(1, 2, AVAILABLE, 2)])
    assert taken(partition, (0, 9)) == [Acquired(0, 0, 5)]
    partition = SharePartition(0, settings)
    taken(partition, (0, 3))
    for _ in range(3):
        said(partition, 0, 0, RELEASE)
        assert taken(partition, (0, 3))[0][:2] == (0, 0)
    said(partition, 0, 3, RELEASE)
    assert taken(partition, (0, 3)) == [Acquired(0, 0, 5)]
    assert taken(partition, (0, 3)) == [Acquired(1, 3, 2)]


def test_the_size_of_parts_depends_on_the_span():
    """Half of a span of four records is delivered, although one of them is complete."""
    partition = SharePartition(0, DEFAULTS)
    spans = (0, 3), (4, 7)
    taken(partition, *spans, wanted=AcquireLimits(records_max=8, batch_size=4))
    said(partition, 0, 0, ACCEPT)
    for _ in range(2):
        said(partition, 1, 3, RELEASE)
        assert taken(partition, *spans, wanted=AcquireLimits(records_max=1, batch_size=4))[0][:2] == (1, 3)
    said(partition, 1, 7, RELEASE)
    assert taken(partition, *spans) == [Acquired(1, 2, 4)]
    assert taken(partition, *spans) == [Acquired(3, 3, 4)]
    assert taken(partition, *spans) == [Acquired(4, 7, 2)]


def test_a_restart_keeps_what_was_durable():
    """Delivery counts and complete records; records between them were acquired and never acknowledged."""
    partition = SharePartition(
        4, DEFAULTS, [StateBatch(6, 6, ACKNOWLEDGED, 1), StateBatch(7, 7, AVAILABLE, 2), StateBatch(8, 9, ARCHIVED, 1)]
    )
    assert states(partition) == [
        (4, 5, AVAILABLE),
        (6, 6, ACKNOWLEDGED),
        (7, 7, AVAILABLE),
        (8, 9, ARCHIVED),
    ]
    assert taken(partition, (0, 14)) == [Acquired(4, 5, 1), Acquired(7, 7, 3), Acquired(10, 14, 1)]
    assert SharePartition(4, DEFAULTS, [StateBatch(4, 9, ACKNOWLEDGED, 1)]).start_offset == 10


def test_neighbours_are_one_run():
    """A thousand records with the same history take one entry."""
    partition = SharePartition(0, DEFAULTS)
    for first in range(0, 1000, 10):
        taken(partition, (first, first + 9))
    for offset in range(1, 1000):
        said(partition, offset, offset, ACCEPT)
    assert len(partition.runs) == 2


def test_sizes_include_both_offsets():
    for first, last, size in ((0, 0, 1), (5, 5, 1), (5, 9, 5)):
        assert Span(first, last).size == Run(first, last, AVAILABLE, 0).size == size


@pytest.mark.parametrize(("log_start", "start"), [(3, 3), (5, 10), (7, 10), (10, 10), (12, 12)])
def test_a_raised_log_start_skips_complete_records(log_start, start):
    partition = SharePartition(0, DEFAULTS)
    taken(partition, (0, 9))
    said(partition, 5, 9, ACCEPT)
    partition.raise_start(log_start)
    assert (partition.start_offset, partition.next_offset(), partition.delivery_complete_count) == (
        start,
        max(start, 10),
        5 if start < 5 else 0,
    )


def test_loaded_complete_neighbours_are_joined():
    known = [StateBatch(1, 2, ACKNOWLEDGED, 1), StateBatch(3, 4, ACKNOWLEDGED, 1), StateBatch(5, 6, ARCHIVED, 1)]
    assert states(SharePartition(0, DEFAULTS, known)) == [(0, 0, AVAILABLE), (1, 4, ACKNOWLEDGED), (5, 6, ARCHIVED)]


@pytest.mark.parametrize(
    ("state", "span", "end_offset", "last"),
    [
        (AVAILABLE, None, 4, 4),
        (AVAILABLE, None, 9, 9),
        (AVAILABLE, None, 12, 9),
        (AVAILABLE, None, -1, None),
        (AVAILABLE, Span(0, 9), 4, 9),
        (ACQUIRED, None, 4, 9),
    ],
)
def test_unspanned_records_after_an_offset_are_dropped(state, span, end_offset, last):
    runs = Runs()
    runs.append(Run(0, 9, state, 0, span=span))
    runs.drop_unspanned(end_offset)
    assert (runs.last if runs else None) == last


def test_archived_neighbours_of_different_acquisitions_are_joined():
    partition = SharePartition(0, DEFAULTS)
    for offsets in ((0, 4), (5, 9)):
        taken(partition, offsets)
    said(partition, 1, 9, RELEASE)
    taken(partition, (10, 12), read_from=1)
    assert states(partition) == [(0, 0, ACQUIRED), (1, 9, ARCHIVED), (10, 12, ACQUIRED)]


def test_the_record_at_the_offset_stays_when_later_ones_are_dropped():
    runs = Runs()
    runs.append(Run(0, 3, ACQUIRED, 1, "m"))
    runs.append(Run(4, 4, AVAILABLE, 0))
    runs.drop_unspanned(4)
    assert runs.last == 4


def test_acknowledged_records_join_loaded_complete_ones():
    partition = SharePartition(0, DEFAULTS, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    taken(partition, (0, 9))
    said(partition, 1, 4, ACCEPT)
    assert states(partition) == [(0, 0, ACQUIRED), (1, 9, ACKNOWLEDGED)]


def test_a_full_window_delivers_nothing_if_returned_records_were_deleted():
    partition = SharePartition(0, ShareGroupSettings(partition_max_record_locks=10))
    taken(partition, (0, 9))
    said(partition, 5, 9, RELEASE)
    assert taken(partition, (10, 14), read_from=5) == []
    assert states(partition) == [(0, 4, ACQUIRED), (5, 9, ARCHIVED)]


def test_a_limit_of_0_changes_nothing():
    partition = SharePartition(0, DEFAULTS)
    assert taken(partition, (5, 9), wanted=AcquireLimits(records_max=0, batch_size=1)) == []
    assert (states(partition), partition.start_offset) == ([], 0)


def test_acquisitions_do_not_exceed_the_window():
    partition = SharePartition(0, ShareGroupSettings(partition_max_record_locks=10))
    exact = AcquireLimits(records_max=500, batch_size=500, mode=AcquireMode.RECORD_LIMIT)
    assert taken(partition, (0, 3), wanted=exact) == [Acquired(0, 3, 1)]
    assert taken(partition, (4, 20), wanted=exact) == [Acquired(4, 9, 1)]


def test_renewal_covers_records_of_several_acquisitions():
    partition = SharePartition(0, DEFAULTS)
    for offsets in ((0, 4), (5, 9)):
        taken(partition, offsets)
    assert said(partition, 0, 9, RENEW, now_ms=NOW_MS + 10_000) is None
    assert partition.expire_locks(NOW_MS + LOCK_MS) is None
    assert partition.expire_locks(NOW_MS + LOCK_MS + 10_000).batches == (StateBatch(0, 9, AVAILABLE, 1),)
