"""Every request that is served, in every version, damaged in every place: the dispatcher closes and changes nothing.

In one process, because the product is large; a sample of it goes over sockets in test_requests.
"""

import attrs
import pytest

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import Ports
from pipeline_broker.config.settings import load_settings
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from stages.request import Close, Request
from tests.bad_input.raw_client import each_served_version, frame_of, request_class
from tests.wire.generated import sample
from tests.wire.reference import Reference

NOW_MS = 1_700_000_000_000
TEXT = b"name"
"""What `sample` puts into every text."""


@attrs.define(eq=False)
class Connection:
    """What a dispatcher sees of one."""

    id: str = "1"
    index: int = 1
    peer: str = "127.0.0.1"
    listener: str = "PLAINTEXT"
    session: object = None
    response_room_bytes: int = 2**30


@pytest.fixture(scope="module")
def dispatch(tmp_path_factory):
    journal = Journal.open(tmp_path_factory.mktemp("every-byte"), flush="os")
    broker = Broker(load_settings((), ())[0], LogManager(journal), ports=Ports(clock_ms=lambda: NOW_MS))
    broker.recover(NOW_MS)
    entries = broker.first_entries(NOW_MS)
    journal.sync(journal.write(entries))
    broker.entries_durable(entries)
    dispatcher = Dispatcher(broker)
    yield lambda frame: dispatcher.handle(Request(Connection(), 0, frame, 0))
    journal.close()


def header_of(key, version):
    return encode_request_header(RequestHeader(key, version, 1, "every-byte"))


@each_served_version()
def test_cut_at_any_byte_it_closes(dispatch, key, version):
    """No request is the beginning of another, so whatever is cut off is missed."""
    frame = frame_of(sample(request_class(key), version, elements=2), version)
    for size in range(len(frame)):
        result = dispatch(frame[:size])
        assert isinstance(result, Close), f"{size} of {len(frame)} bytes"


@each_served_version()
def test_any_length_or_count_beyond_the_rest_closes(dispatch, key, version):
    """Also those that claim the most, or less than nothing; null where it is not allowed."""
    message = sample(request_class(key), version)
    header = header_of(key, version)
    honest = Reference(message, version)
    assert honest.data == b"".join(encode(message, version))
    largest = (2**31 - 1, 2**32 - 2) if honest.flexible else (2**15 - 1, -2)
    for index, nullable in enumerate(honest.lengths):
        for false in (len(honest.data) + 1, *largest, *(() if nullable else (-1,))):
            damaged = Reference(message, version, false_lengths={index: false})
            assert isinstance(dispatch(header + damaged.data), Close), f"length {index} = {false}"


@each_served_version()
def test_text_that_is_no_utf_8_closes(dispatch, key, version):
    """Case 61: in every text of a request, one at a time; the bytes are as many as were declared."""
    frame = frame_of(sample(request_class(key), version), version)
    header_size = len(frame) - len(b"".join(encode(sample(request_class(key), version), version)))
    position = frame.find(TEXT, header_size)
    while position >= 0:
        damaged = frame[:position] + b"\xff" * len(TEXT) + frame[position + len(TEXT) :]
        assert isinstance(dispatch(damaged), Close), f"at {position}"
        position = frame.find(TEXT, position + 1)


@each_served_version()
def test_any_byte_changed_closes_or_is_answered(dispatch, key, version):
    """The dispatcher's two ways out, never an exception."""
    frame = frame_of(sample(request_class(key), version), version)
    for position in range(8, len(frame)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(frame)
            damaged[position] ^= mask
            dispatch(bytes(damaged))
