"""Compressed records are accepted if Apache Kafka reads them, and only then; `frames` has examples of both."""

import contextlib
import struct
import tracemalloc

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.check import DEFAULT_RULES, BatchCheck, LongBatchError, check_batch
from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.decompression import (
    _INFLATED_BYTES,
    PIECE_BYTES,
    PIECES_MIN,
    decompress,
    decompress_stored,
)
from pipeline_broker.records.errors import BatchTooLarge, RecordError, UnreadableCompression
from pipeline_broker.records.record import iterate_records
from tests.records.frames import (
    BATCH,
    DATA,
    LARGE_BATCH,
    ROWS,
    SKIPPABLE,
    TIMESTAMP,
    XERIAL_HEADER,
    Outcome,
    batch_with,
    gz,
    linked_lz4,
    lz4,
    raw_snappy,
    zstd,
)
from tests.tables import each_row

EXPECTED = [list(iterate_records(batch)) for batch in (BATCH, LARGE_BATCH)]
SIZE_MAX = 1 << 20
PIECES_MAX = PIECES_MIN + SIZE_MAX // PIECE_BYTES
BLOCK = struct.pack(">i", len(raw_snappy(b"x"))) + raw_snappy(b"x")
MANY_PIECES = {
    Compression.GZIP: lambda count: gz(b"x") * count,
    Compression.SNAPPY: lambda count: XERIAL_HEADER + BLOCK * count,
    Compression.LZ4: lambda count: lz4(*[b"x"] * count),
    Compression.ZSTD: lambda count: zstd(b"x" * (count - 1), blocks=[b"x"] * (count - 1)) + zstd()[:7],
}
"""Data with the given number of blocks; zstd counts them if the end is missing."""


@each_row("outcome, batch", list(ROWS.values()), list(ROWS))
def test_a_batch_is_accepted_if_kafka_reads_it(outcome, batch):
    if outcome is Outcome.READ:
        assert list(iterate_records(batch, check_batch(batch, TIMESTAMP))) in EXPECTED
        return
    with pytest.raises(RecordError) as error:
        check_batch(batch, TIMESTAMP)
    assert outcome in {Outcome.REFUSED, Outcome.LOST} or ErrorCode[error.value.error_name] == outcome.value


@pytest.mark.parametrize("codec", MANY_PIECES)
def test_data_in_too_many_blocks_is_refused(codec):
    unpacked = decompress(codec, MANY_PIECES[codec](PIECES_MAX), SIZE_MAX)
    assert set(unpacked) == {ord("x")}
    with pytest.raises(BatchTooLarge, match=f"more than {PIECES_MAX} blocks"):
        decompress(codec, MANY_PIECES[codec](PIECES_MAX + 1), SIZE_MAX)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_a_batch_in_many_blocks_takes_more_than_a_turn(codec):
    """It is unpacked in a thread, which allows more blocks."""
    batch = batch_with(codec, MANY_PIECES[codec](PIECES_MAX + 1))
    with pytest.raises(LongBatchError) as found:
        check_batch(batch, TIMESTAMP)
    BatchCheck(found.value, TIMESTAMP, DEFAULT_RULES).open()


def test_lz4_that_an_earlier_version_stored_is_still_read():
    for data in (linked_lz4(), SKIPPABLE + lz4()):
        with pytest.raises(UnreadableCompression):
            decompress(Compression.LZ4, data)
        assert decompress_stored(Compression.LZ4, data) == DATA
        assert list(iterate_records(batch_with(Compression.LZ4, data))) == EXPECTED[0]
    with pytest.raises(UnreadableCompression):
        decompress_stored(Compression.LZ4, b"no frame")
    with pytest.raises(UnreadableCompression):
        decompress_stored(Compression.GZIP, gz(crc_xor=1))


@pytest.mark.parametrize("tail", [b"", bytes(4)], ids=["whole", "with bytes after it"])
def test_gzip_of_any_size_is_read_whole_wherever_the_pieces_end(tail):
    """zlib returns a limited piece at a time, and may hold more output of its consumed input."""
    for size in [0, 1, *(pieces * _INFLATED_BYTES + more for pieces in (1, 2) for more in range(-260, 261, 4))]:
        assert decompress(Compression.GZIP, gz(bytes(size)) + tail) == bytes(size)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_the_largest_data_is_in_memory_once(codec):
    tracemalloc.start()
    try:
        for size in (16 << 20, 64 << 20):
            data = compress(codec, bytes(size))
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(BatchTooLarge):
                decompress(codec, data, 16 << 20)
            assert tracemalloc.get_traced_memory()[1] - before < (18 << 20) + len(data)
    finally:
        tracemalloc.stop()
