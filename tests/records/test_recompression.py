"""A recompressed batch holds the same records, with the broker's header fields, within its limits."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import CHECKED_FROM, NewRecord, build_batch, read_header
from pipeline_broker.records.check import Rules, as_stored, check_batch
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.errors import BatchTooLarge, RecordError, RecordListTooLarge
from pipeline_broker.records.recompression import Target
from pipeline_broker.records.record import iterate_records
from tests.records.test_check import NOW_MS, changed, records_of_clients

LEVELS = {
    Compression.NONE: [None],
    Compression.GZIP: [None, 1, 9],
    Compression.SNAPPY: [None],
    Compression.LZ4: [None, 1, 3, 9, 12, 17],
    Compression.ZSTD: [None, -131072, -1, 1, 5],
}
targets = st.sampled_from([Target(codec, level) for codec, levels in LEVELS.items() for level in levels])
codecs = st.sampled_from(Compression)
producers = st.sampled_from([(-1, -1, -1), (5, 0, 0), (2**60, 7, 2**31 - 2)])


def stored(batch, rules):
    return as_stored(check_batch(batch, NOW_MS, rules), batch, rules)


@given(records_of_clients, codecs, targets, producers, st.booleans(), st.integers(-5, 5))
def test_a_batch_in_another_codec_is_the_same_batch(records, codec, target, producer, append_time, base_shift_ms):
    """For every pair of codecs, also if the base timestamp is not that of the first record."""
    names = ("producer_id", "producer_epoch", "base_sequence")
    batch = build_batch(records, compression=codec, **dict(zip(names, producer, strict=True)))
    if base_shift_ms and not codec:
        batch = changed(batch, base_timestamp=read_header(batch).base_timestamp + base_shift_ms)
    rules = Rules(compression=target, append_time=append_time, timestamp_after_max_ms=10)
    plain = check_batch(batch, NOW_MS, rules)

    header, made = stored(batch, rules)

    assert header == (plain if codec == target.codec else read_header(made))
    assert header.compression == target.codec
    assert (header.max_timestamp, header.timestamp_type) == (plain.max_timestamp, plain.timestamp_type)
    assert header[-4:] == plain[-4:]
    assert header.last_offset_delta == plain.last_offset_delta
    if codec != target.codec:
        assert header.crc == crc32c(made[CHECKED_FROM:])
        assert len(made) == header.size_bytes
        first = next(iterate_records(batch)).timestamp
        assert header.base_timestamp == first, "as Kafka counts"
    found = list(iterate_records(made, header))
    assert found == list(iterate_records(batch, plain))


@given(records_of_clients, codecs, targets)
def test_a_recompressed_batch_passes_again(records, codec, target):
    rules = Rules(compression=target)
    _, made = stored(build_batch(records, compression=codec), rules)
    assert stored(made, rules)[1] is made


def test_a_batch_in_the_wanted_codec_is_unchanged():
    batch = build_batch([NewRecord(b"value" * 100)], compression=Compression.GZIP)
    assert stored(batch, Rules(compression=Target(Compression.GZIP, 9)))[1] is batch
    assert stored(batch, Rules())[1] is batch


def test_flags_that_only_a_broker_sets_are_cleared():
    batch = changed(build_batch([NewRecord(b"value", timestamp=NOW_MS)]), attributes=0x40 | 0x08 | 0x100)
    header, _ = stored(batch, Rules(compression=Target(Compression.LZ4)))
    assert header.attributes == Compression.LZ4


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_batch_that_becomes_too_large_is_refused(codec):
    batch = build_batch([NewRecord(bytes(5000), timestamp=NOW_MS)], compression=codec)
    plain_bytes = len(build_batch([NewRecord(bytes(5000), timestamp=NOW_MS)]))
    target = Target(Compression.NONE)
    assert len(stored(batch, Rules(compression=target, size_max=plain_bytes))[1]) == plain_bytes
    with pytest.raises(BatchTooLarge):
        stored(batch, Rules(compression=target, size_max=plain_bytes - 1))
    with pytest.raises(RecordListTooLarge):
        stored(batch, Rules(compression=target, segment_size_max=plain_bytes - 1))


def test_a_batch_that_shrinks_must_be_small_enough_before():
    """Kafka checks max.message.bytes before and after recompression, segment.bytes only after."""
    batch = build_batch([NewRecord(bytes(5000), timestamp=NOW_MS)])
    target = Target(Compression.ZSTD)
    with pytest.raises(BatchTooLarge):
        stored(batch, Rules(compression=target, size_max=len(batch) - 1))
    assert len(stored(batch, Rules(compression=target, segment_size_max=len(batch) - 1))[1]) < 200
    with pytest.raises(RecordListTooLarge):
        stored(batch, Rules(segment_size_max=len(batch) - 1))


def test_random_bytes_that_compression_makes_larger_are_refused():
    batch = build_batch([NewRecord(random.Random(1).randbytes(3000), timestamp=NOW_MS)])
    with pytest.raises(BatchTooLarge):
        stored(batch, Rules(compression=Target(Compression.GZIP), size_max=len(batch)))


def test_a_decompression_bomb_is_bounded():
    bomb = changed(build_batch([NewRecord(b"", timestamp=NOW_MS)], compression=4), compress(4, bytes(1 << 22)))
    with pytest.raises(RecordError):
        stored(bomb, Rules(compression=Target(Compression.NONE), decompressed_size_max=1 << 20))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_levels_are_applied(codec):
    data = b"".join(b"%d and %d;" % (index * index, index % 17) for index in range(5000))
    sizes = {level: len(compress(codec, data, level)) for level in LEVELS[codec]}
    assert len(set(sizes.values())) > 1
    assert sizes[None] == len(compress(codec, data))
