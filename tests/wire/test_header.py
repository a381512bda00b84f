"""Request and response headers, byte for byte and compared with Kafka's own definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import DecodeError, EncodeError
from pipeline_broker.wire.header import (
    RequestHeader,
    encode_request_header,
    read_request_header,
    read_response_header,
    response_header,
)
from pipeline_broker.wire.registry import API_KEYS, ApiKey, is_flexible
from tests.kafka_tools import require_kafka
from tests.wire.definitions import read
from tests.wire.generated import TEXTS, quick

HEADERS = st.builds(
    RequestHeader,
    api_key=st.sampled_from([int(key) for key, api in API_KEYS.items() if len(api.versions)]),
    api_version=st.integers(0, 20),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | TEXTS,
)


@quick
@given(header=HEADERS)
def test_request_headers_survive_and_agree_with_kafkas_definition(header):
    """Flexible requests have header version 2, others version 1."""
    data = encode_request_header(header)
    assert read_request_header(memoryview(data + b"body")) == (header, len(data))
    require_kafka()
    expected = {"request_api_key": header.api_key, "request_api_version": header.api_version}
    expected |= {"correlation_id": header.correlation_id, "client_id": header.client_id}
    assert read("RequestHeader", 1 + is_flexible(header.api_key, header.api_version), data) == (expected, len(data))


def test_the_client_id_keeps_its_old_form_in_a_flexible_header():
    """Produce version 9: two bytes of length, and the tag section after the client id."""
    data = b"\x00\x00\x00\x09\x00\x00\x00\x05\x00\x02me\x00"
    assert encode_request_header(RequestHeader(0, 9, 5, "me")) == data
    assert read_request_header(data) == (RequestHeader(0, 9, 5, "me"), len(data))


def test_unknown_tags_of_a_request_header_are_skipped():
    data = b"\x00\x00\x00\x09\x00\x00\x00\x05\xff\xff\x02\x00\x01x\x63\x00body"
    assert read_request_header(data) == (RequestHeader(0, 9, 5, None), len(data) - 4)


@pytest.mark.parametrize("header", [RequestHeader(0, 9, 5, "me"), RequestHeader(0, 3, 5, "me")])
def test_a_truncated_request_header_is_a_decode_error(header):
    data = encode_request_header(header)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            read_request_header(memoryview(data)[:size])


@quick
@given(noise=st.binary(max_size=40))
def test_noise_gives_a_header_or_a_decode_error(noise):
    try:
        _, position = read_request_header(memoryview(noise))
    except DecodeError:
        return
    assert position <= len(noise)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x5d\x00\x00\x00\x00\x00\x00\xff\xff",
        b"\xff\xff\x00\x00\x00\x00\x00\x00\xff\xff",
        b"\x00\x00\x00\x03\x00\x00\x00\x00\xff\xfe",
        b"\x00\x00\x00\x03\x00\x00\x00\x00\x7f\xffx",
        b"\x00\x00\x00\x09\x00\x00\x00\x00\xff\xff\x80\x80\x80\x80\x80\x00",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["key 93", "key -1", "length -2", "length beyond the rest", "varint too long", "HTTP"],
)
def test_bad_headers_are_decode_errors(data):
    with pytest.raises(DecodeError):
        read_request_header(data)


def test_a_client_id_that_is_not_utf8_is_replaced():
    data = b"\x00\x00\x00\x03\x00\x00\x00\x05\x00\x05b\xfcro\xffbody"
    assert read_request_header(data) == (RequestHeader(0, 3, 5, "b\ufffdro\ufffd"), len(data) - 4)


def test_read_request_header_does_not_check_versions():
    """A future version of ApiVersions gets a response. The handler of Produce refuses version 2."""
    for key, version in ((ApiKey.API_VERSIONS, 99), (ApiKey.PRODUCE, 2), (ApiKey.STOP_REPLICA, 0)):
        header = RequestHeader(int(key), version, 1, "c")
        assert read_request_header(encode_request_header(header))[0] == header


@pytest.mark.parametrize(
    ("key", "version", "data"),
    [
        (ApiKey.PRODUCE, 8, b"\x00\x00\x00\x07"),
        (ApiKey.PRODUCE, 9, b"\x00\x00\x00\x07\x00"),
        (ApiKey.API_VERSIONS, 0, b"\x00\x00\x00\x07"),
        (ApiKey.API_VERSIONS, 4, b"\x00\x00\x00\x07"),
        (ApiKey.API_VERSIONS, 99, b"\x00\x00\x00\x07"),
    ],
)
def test_response_headers(key, version, data):
    """A tag section exists if the request is flexible, but never in an ApiVersions response."""
    assert response_header(key, version, 7) == data
    assert read_response_header(key, version, data + b"body") == (7, len(data))
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            read_response_header(key, version, data[:size])


def test_unknown_tags_of_a_response_header_are_skipped():
    assert read_response_header(0, 9, b"\x00\x00\x00\x07\x01\x05\x02ab!") == (7, 9)


def test_a_client_id_that_is_too_long_cannot_be_written():
    with pytest.raises(EncodeError):
        encode_request_header(RequestHeader(0, 9, 5, "x" * 0x8000))
