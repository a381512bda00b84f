"""A batch that is checked in steps passes, or is refused, like one that is checked in one turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records import record_walk
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.check import BatchCheck, LongBatchError, Rules, as_stored, check_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.recompression import Target
from pipeline_broker.records.record_walk import HEADERS_MAX, RECORD_HEADERS_MAX, RECORDS_A_TURN
from tests.records.strategies import new_records
from tests.records.test_check import NOW_MS, changed

SMALL_TURN = 3
codecs = st.sampled_from(Compression)
rules_of_topics = st.builds(
    Rules,
    size_max=st.sampled_from([300, 1 << 20]),
    segment_size_max=st.sampled_from([200, 1 << 30]),
    decompressed_size_max=st.sampled_from([100, 1 << 20]),
    timestamp_before_max_ms=st.sampled_from([0, NOW_MS // 2, 1 << 70]),
    timestamp_after_max_ms=st.sampled_from([0, 1 << 70]),
    keys_required=st.booleans(),
    append_time=st.booleans(),
    compression=st.none() | st.just(Target(Compression.NONE)) | st.just(Target(Compression.GZIP)),
)


def steps_of(batch, rules, **options):
    """Check a batch as if each record were one too many for a turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_walk, "RECORDS_A_TURN", 0)
        with pytest.raises(LongBatchError) as caught:
            check_batch(batch, NOW_MS, rules, **options)
    return BatchCheck(caught.value, NOW_MS, rules)


def in_steps(batch, rules, **options):
    """Return the stored header and batch, and the number of turns."""
    check = steps_of(batch, rules, **options)
    check.open()
    turns = sum(1 for _ in check.steps())
    return check.stored(), turns


def verdict(check):
    try:
        header, stored = check()
    except RecordError as error:
        return type(error), error.message, error.record_errors
    return header, bytes(stored)


@given(
    records=new_records(st.integers(0, NOW_MS + 10), count_max=12, bytes_max=40),
    codec=codecs,
    rules=rules_of_topics,
    damage=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    is_summed=st.booleans(),
    tail=st.sampled_from([b"", b"short", bytes(30)]),
    options=st.fixed_dictionaries({"zstd_allowed": st.booleans(), "transactions_allowed": st.booleans()}),
)
def test_the_verdict_is_the_same_for_every_batch(records, codec, rules, damage, is_summed, tail, options):
    """Valid, compressed, damaged with and without a good checksum, with headers, bad timestamps, no keys."""
    batch = build_batch(records, compression=codec)
    body = bytearray(batch[61:] if is_summed else batch)
    for place, value in damage:
        body[place % len(body)] = value
    batch = (changed(batch, bytes(body)) if is_summed else bytes(body)) + tail

    def at_once():
        header = check_batch(batch, NOW_MS, rules, **options)
        return as_stored(header, batch[: header.size_bytes], rules)

    expected = verdict(at_once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_walk, "RECORDS_A_TURN", SMALL_TURN)
        assert verdict(lambda: in_steps(batch, rules, **options)[0]) == expected


@given(new_records(st.just(NOW_MS), count_max=30, bytes_max=5))
def test_no_turn_checks_more_records_and_headers_than_allowed(records):
    batch = build_batch(records)
    most = SMALL_TURN + max(len(record.headers) for record in records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_walk, "RECORDS_A_TURN", SMALL_TURN)
        _, turns = in_steps(batch, Rules())
    looked_at = len(records) + sum(len(record.headers) for record in records)
    assert turns >= looked_at / (most + SMALL_TURN)
    assert turns >= len(records) / SMALL_TURN


def test_a_batch_longer_than_a_turn_is_left_to_steps():
    many = build_batch([NewRecord(None, timestamp=NOW_MS)] * (RECORDS_A_TURN + 1))
    assert check_batch(build_batch([NewRecord(None, timestamp=NOW_MS)] * RECORDS_A_TURN), NOW_MS)
    with_headers = build_batch([NewRecord(None, timestamp=NOW_MS, headers=(("h", b""),) * 2000)] * 3)
    large = build_batch([NewRecord(bytes(2 << 20), timestamp=NOW_MS)], compression=Compression.ZSTD)
    for batch in (many, with_headers, large):
        with pytest.raises(LongBatchError):
            check_batch(batch, NOW_MS)
        (header, stored), _ = in_steps(batch, Rules())
        assert (header, bytes(stored)) == (read_header(batch), batch)


def test_offending_records_are_searched_in_turns_too():
    stamps = [NOW_MS] * (2 * RECORDS_A_TURN) + [NOW_MS + 11]
    batch = build_batch([NewRecord(None, timestamp=stamp) for stamp in stamps], compression=Compression.GZIP)
    check = steps_of(batch, Rules(timestamp_after_max_ms=10))
    check.open()
    steps = check.steps()
    for _ in range(3 + 2):
        next(steps)
    with pytest.raises(RecordError) as caught:
        next(steps)
    assert [index for index, _ in caught.value.record_errors] == [len(stamps) - 1]


def batch_with_headers(*counts):
    return build_batch([NewRecord(None, timestamp=NOW_MS, headers=(("", None),) * count) for count in counts])


def test_the_headers_of_a_record_are_limited():
    in_steps(batch_with_headers(RECORD_HEADERS_MAX), Rules())
    with pytest.raises(RecordError, match="a record has at most") as caught:
        in_steps(batch_with_headers(RECORD_HEADERS_MAX + 1), Rules())
    assert caught.value.error_name == "MESSAGE_TOO_LARGE"


def test_the_headers_of_a_batch_are_limited_over_all_turns():
    full = [RECORD_HEADERS_MAX] * (HEADERS_MAX // RECORD_HEADERS_MAX)
    rules = Rules(size_max=1 << 30)
    _, turns = in_steps(batch_with_headers(*full), rules)
    assert turns >= HEADERS_MAX / (RECORDS_A_TURN + RECORD_HEADERS_MAX)
    with pytest.raises(RecordError, match="a batch has at most") as caught:
        in_steps(batch_with_headers(*full, 1), rules)
    assert caught.value.error_name == "MESSAGE_TOO_LARGE"
