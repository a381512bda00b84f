"""The rules about kept and dropped records, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.cleaner import CleaningRound, DirtyPart, LastRecord, RoundParameters
from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.log.compaction.transactions import AbortedTransaction
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.control_batch import ABORT, COMMIT
from pipeline_broker.records.errors import WrongChecksum
from pipeline_broker.records.record import iterate_records
from tests.log.compaction.logs import marker, parsed, placed

NOW_MS = 10_000
RETENTION_MS = 100
ELSEWHERE = 1 << 40


def batch_of(*records, **options):
    return build_batch([NewRecord(value, key, timestamp=5) for key, value in records], **options)


def log_of(*batches):
    log, offset = [], 0
    for batch in batches:
        log.append(placed(batch, offset))
        offset = read_header(log[-1]).last_offset + 1
    return log


def clean(log, *, now_ms=NOW_MS, retention_ms=RETENTION_MS, bound=ELSEWHERE, live=None, aborted=(), keys_max=100):
    offset_map = OffsetMap(keys_max=keys_max)
    DirtyPart(offset_map, 0, aborted).add_segment(parsed(log), read_header(log[-1]).last_offset + 1)
    parameters = RoundParameters(
        now_ms=now_ms, delete_retention_ms=retention_ms, upper_bound_offset=bound, last_records=live or {}
    )
    cleaning = CleaningRound(offset_map, parameters, aborted)
    return [bytes(batch) for _, batch in cleaning.clean(parsed(log))]


def left(log):
    return [(record.offset, record.key, record.value) for _, batch in parsed(log) for record in iterate_records(batch)]


def test_of_a_key_the_last_value_stays():
    log = log_of(batch_of((b"a", b"1"), (b"b", b"1"), (b"a", b"2")), batch_of((b"b", b"2")), batch_of((b"c", b"1")))
    assert left(clean(log)) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]


def test_an_unchanged_batch_is_the_very_bytes():
    log = log_of(batch_of((b"a", b"1"), compression=4), batch_of((b"b", b"1")))
    batches = parsed(log)
    cleaning = CleaningRound(
        OffsetMap(keys_max=100), RoundParameters(now_ms=0, delete_retention_ms=0, upper_bound_offset=ELSEWHERE)
    )
    assert [batch for _, batch in cleaning.clean(batches)] == [batch for _, batch in batches]
    assert all(ours is theirs for (_, ours), (_, theirs) in zip(cleaning.clean(batches), batches, strict=True))


def test_records_without_a_key_are_dropped():
    log = log_of(batch_of((None, b"1"), (b"a", b"1")), batch_of((None, b"2")))
    assert left(clean(log)) == [(1, b"a", b"1")]


def test_everything_after_the_mapped_range_is_kept():
    log = log_of(batch_of((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (None, b"3"), (b"b", b"4")))
    assert left(clean(log, keys_max=1)) == left(log)


def test_a_full_map_ends_the_round_within_a_batch():
    offset_map = OffsetMap(keys_max=2)
    log = log_of(batch_of((b"a", b"1")), batch_of((b"b", b"1"), (b"c", b"1")))
    dirty = DirtyPart(offset_map, 0)
    assert not dirty.add_segment(parsed(log), 3)
    assert dirty.end_offset == 2


def test_records_processed_before_the_map_is_full_count_even_without_a_slot():
    log = log_of(batch_of((b"a", b"1")), batch_of((None, b"1"), (None, b"2")), batch_of((b"b", b"1")))
    dirty = DirtyPart(OffsetMap(keys_max=1), 0)
    assert not dirty.add_segment(parsed(log), 4)
    assert dirty.end_offset == 3


def test_a_dirty_part_without_keys_is_clean_afterwards():
    dirty = DirtyPart(OffsetMap(keys_max=100), 1)
    assert dirty.end_offset == 1
    assert dirty.add_segment(parsed(log_of(batch_of((None, b"1"), (None, b"2")))), 7)
    assert dirty.end_offset == 7


def test_records_below_the_first_dirty_offset_are_not_mapped():
    offset_map = OffsetMap(keys_max=100)
    log = log_of(batch_of((b"a", b"1")), batch_of((b"b", b"1"), (b"c", b"1")))
    DirtyPart(offset_map, 2).add_segment(parsed(log), 3)
    assert (len(offset_map), offset_map.get(b"c")) == (1, 2)


def test_a_tombstone_stays_until_the_horizon_of_its_first_clean():
    log = log_of(batch_of((b"a", b"1"), (b"b", b"1")), batch_of((b"a", None)))
    first = clean(log)
    assert left(first) == [(1, b"b", b"1"), (2, b"a", None)]
    assert [read_header(batch).delete_horizon_ms for batch in first] == [None, NOW_MS + RETENTION_MS]
    assert [record.timestamp for _, batch in parsed(first) for record in iterate_records(batch)] == [5, 5]
    early = clean(first, now_ms=NOW_MS + RETENTION_MS - 1, retention_ms=0)
    assert early == first, "neither removed nor given another horizon"
    assert left(clean(first, now_ms=NOW_MS + RETENTION_MS)) == [(1, b"b", b"1")]


def test_unlimited_retention_sets_the_latest_possible_horizon():
    (batch,) = clean(log_of(batch_of((b"a", None))), retention_ms=2**63 - 1)
    assert read_header(batch).delete_horizon_ms == 2**63 - 1
    assert [record.timestamp for record in iterate_records(batch)] == [5]


def transaction(kind):
    log = log_of(batch_of((b"a", b"1"), producer_id=1, transactional=True), marker(1, kind, 5))
    return log, [AbortedTransaction(1, 0, 1)] if kind == ABORT else []


def test_records_of_an_aborted_transaction_are_dropped_and_hide_no_others():
    log = log_of(
        batch_of((b"a", b"old")), batch_of((b"a", b"new"), producer_id=1, transactional=True), marker(1, ABORT, 5)
    )
    cleaned = clean(log, aborted=[AbortedTransaction(1, 1, 2)])
    assert [(it[0], it[2]) for it in left(cleaned)][:1] == [(0, b"old")]
    assert [read_header(batch).base_offset for batch in cleaned] == [0, 2]


def test_an_aborted_transaction_is_an_entry_of_the_group_that_has_its_marker_and_of_no_later_one():
    first, second = (
        log_of(batch_of((b"a", b"1"), producer_id=1, transactional=True), marker(1, ABORT, 5)) for _ in range(2)
    )
    second = [placed(batch, 2 + number) for number, batch in enumerate(second)]
    aborted = [AbortedTransaction(1, 0, 1), AbortedTransaction(1, 2, 3)]
    parameters = RoundParameters(now_ms=NOW_MS, delete_retention_ms=0, upper_bound_offset=ELSEWHERE)
    cleaning = CleaningRound(OffsetMap(keys_max=100), parameters, aborted)
    for group, entry in zip((first, second), aborted, strict=True):
        assert [bytes(batch) for _, batch in cleaning.clean(parsed(group))] == group[1:]
        assert cleaning.take_aborted() == [entry]
    assert cleaning.take_aborted() == []


def test_a_marker_is_kept_until_its_data_is_removed_and_its_horizon_passed():
    log, aborted = transaction(ABORT)
    first = clean(log, aborted=aborted)
    assert first == log[1:], "the data goes, the marker is as it was"
    second = clean(first)
    assert [read_header(batch).delete_horizon_ms for batch in second] == [NOW_MS + RETENTION_MS]
    assert left(second) == left(first)
    assert clean(second, now_ms=NOW_MS + RETENTION_MS - 1) == second
    assert clean(second, now_ms=NOW_MS + RETENTION_MS) == []


def test_a_marker_stays_while_data_of_its_transaction_does():
    log, _ = transaction(COMMIT)
    assert clean(log, retention_ms=0) == log
    (with_horizon,) = clean(log[1:], retention_ms=0)
    assert clean([log[0], with_horizon], retention_ms=0) == [log[0], with_horizon]
    superseded = [*log, placed(batch_of((b"a", b"2")), 2)]
    once = clean(superseded, retention_ms=0)
    assert [read_header(batch).base_offset for batch in once] == [1, 2]
    twice = clean(once, retention_ms=0)
    assert [read_header(batch).base_offset for batch in clean(twice, retention_ms=0)] == [2]


def test_the_last_batch_of_a_live_producer_is_kept_as_an_empty_header():
    log = log_of(batch_of((b"a", b"1"), producer_id=0, producer_epoch=2, base_sequence=40), batch_of((b"a", b"2")))
    header = read_header(clean(log, live={0: LastRecord(2, 0)})[0])
    assert (header.record_count, header.last_offset, header.last_sequence, header.producer_epoch) == (0, 0, 40, 2)
    kept = clean(log, live={0: LastRecord(2, 0)})
    assert clean(kept, live={0: LastRecord(2, 0)}) == kept
    assert len(clean(kept, live={0: LastRecord(2, 90)})) == 1, "a later batch has the last sequence now"
    assert len(clean(log)) == 1, "a producer that is forgotten needs nothing"


def test_a_marker_with_the_epoch_of_a_live_producer_without_data_is_kept():
    with_horizon = clean(log_of(marker(7, COMMIT, 5, epoch=3)), retention_ms=0)
    for live, kept in ((LastRecord(3, None), True), (LastRecord(4, None), False), (LastRecord(3, 99), False)):
        cleaned = clean(with_horizon, live={7: live})
        assert [read_header(batch).record_count for batch in cleaned] == ([0] if kept else [])
    kept = clean(with_horizon, live={7: LastRecord(3, None)})
    assert clean(kept, live={7: LastRecord(3, None)}) == kept
    assert clean(kept, live={7: LastRecord(4, None)}) == clean(kept) == [], "without its record it goes as well"


def test_the_batch_before_the_bound_is_kept_as_an_empty_header():
    log = log_of(batch_of((b"a", b"1")), batch_of((None, b"1"), (None, b"2")))
    (_, last) = clean(log, bound=3)
    header = read_header(last)
    assert (header.base_offset, header.last_offset, header.record_count) == (1, 2, 0)
    assert len(clean(log, bound=4)) == 1


@given(st.integers(17, 72), st.integers(1, 255))
def test_a_damaged_batch_ends_the_round(position, change):
    damaged = bytearray(log_of(batch_of((b"a", b"1"), (b"b", b"1")))[0])
    damaged[position] ^= change
    batches = [(read_header(damaged), damaged)]
    dirty = DirtyPart(OffsetMap(keys_max=100), -ELSEWHERE)
    with pytest.raises(WrongChecksum):
        dirty.add_segment(batches, 2)
    cleaning = CleaningRound(
        OffsetMap(keys_max=100), RoundParameters(now_ms=0, delete_retention_ms=0, upper_bound_offset=ELSEWHERE)
    )
    with pytest.raises(WrongChecksum):
        list(cleaning.clean(batches))


def test_after_its_horizon_a_batch_loses_tombstones_and_keeps_values():
    first = clean(log_of(batch_of((b"a", None), (b"b", b"1"), (b"c", None), (b"d", b""))))
    assert left(first) == [(0, b"a", None), (1, b"b", b"1"), (2, b"c", None), (3, b"d", b"")]
    assert left(clean(first, now_ms=NOW_MS + RETENTION_MS)) == [(1, b"b", b"1"), (3, b"d", b"")]


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_the_key_of_a_marker_supersedes_no_record(kind):
    end = marker(7, kind, 5)
    (record,) = iterate_records(end)
    log = log_of(batch_of((bytes(record.key), b"1")), end)
    assert left(clean(log, live={7: LastRecord(0, None)}))[0] == (0, bytes(record.key), b"1")


def test_data_of_a_producer_of_whom_only_a_marker_is_known_leaves_no_header():
    log = log_of(batch_of((b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=0), batch_of((b"a", b"2")))
    assert [read_header(batch).base_offset for batch in clean(log, live={7: LastRecord(3, None)})] == [1]
    assert [read_header(batch).base_offset for batch in clean(log, live={7: LastRecord(3, 0)})] == [0, 1]
