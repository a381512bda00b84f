"""Every codec round trips, is read by other libraries, and never yields more than allowed."""

import contextlib
import gzip
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.decompression import decompress
from pipeline_broker.records.errors import BatchTooLarge, RecordError, UnknownCompression, UnreadableCompression

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
data_strategy = st.one_of(
    st.binary(max_size=300), st.builds(lambda b, n: b * n, st.binary(max_size=40), st.integers(0, 3000))
)


@given(st.sampled_from([Compression.NONE, *CODECS]), data_strategy)
def test_compressed_data_is_read_back(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(compress(codec, bytearray(data)))) == data


@given(st.sampled_from(CODECS), st.binary(min_size=1, max_size=2000), st.data())
def test_output_is_never_larger_than_allowed(codec, data, draw):
    size_max = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(BatchTooLarge):
        decompress(codec, compress(codec, data), size_max)


@given(st.sampled_from(CODECS), data_strategy, st.data())
def test_damaged_input_gives_output_or_a_record_error(codec, data, draw):
    damaged = bytearray(compress(codec, data))
    for _ in range(draw.draw(st.integers(1, 3))):
        if damaged:
            damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    del damaged[draw.draw(st.integers(0, len(damaged))) :]
    with contextlib.suppress(RecordError):
        assert len(decompress(codec, damaged, 100_000)) <= 100_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_stopped_at_the_bound(codec):
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    with pytest.raises((BatchTooLarge, UnreadableCompression)):
        decompress(codec, bomb, 1024 * 1024)


def test_snappy_that_declares_four_gigabytes_takes_no_memory():
    lie = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(BatchTooLarge):
        decompress(Compression.SNAPPY, lie)
    with pytest.raises(UnreadableCompression):
        decompress(Compression.SNAPPY, lie, 1 << 33)
    chunk = b"\x82SNAPPY\x00" + struct.pack(">iiI", 1, 1, 0xFFFFFFFF) + b"x" * 20
    with pytest.raises(UnreadableCompression):
        decompress(Compression.SNAPPY, chunk)


def test_zstd_with_a_two_gigabyte_window_is_refused():
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, (31 - 10) << 3]) + b"\x01\x00\x00"
    with pytest.raises(UnreadableCompression):
        decompress(Compression.ZSTD, frame)


def test_lz4_checksum_damage_is_found():
    frame = bytearray(cramjam.lz4.compress(b"payload" * 100))
    frame[-1] ^= 0xFF
    with pytest.raises(UnreadableCompression):
        decompress(Compression.LZ4, frame)


def test_lz4_frames_have_independent_blocks_and_no_content_checksum():
    flags = compress(Compression.LZ4, b"payload" * 100_000)[4]
    assert flags & 0x20
    assert not flags & 0x04


@given(data_strategy)
def test_raw_snappy_is_read_too(data):
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


@given(data_strategy)
def test_gzip_is_read_by_and_from_the_standard_library(data):
    assert gzip.decompress(compress(Compression.GZIP, data)) == data
    assert decompress(Compression.GZIP, gzip.compress(data)) == data


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec):
    with pytest.raises(UnknownCompression):
        decompress(codec, b"x")
    with pytest.raises(UnknownCompression):
        compress(codec, b"x")
