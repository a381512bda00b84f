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
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.registry import ApiKey
from pipeline_broker.wire.text import REPLACEMENT
from stages.request import Close, Request, Send, Unfinished, go_on
from tests.bad_input.raw_client import each_served_version, frame_of, request_class
from tests.wire.generated import sample
from tests.wire.reference import Reference

NOW_MS = 1_700_000_000_000
TEXT = b"name"
"""What `sample` puts into every text."""
MALFORMED = b"\xff" * len(TEXT)


@attrs.define(eq=False)
class Connection:
    """What a dispatcher sees of one."""

    id: str = "1"
    index: int = 1
    peer: str = "127.0.0.1"
    listener: str = "PLAINTEXT"
    session: object = None
    response_room_bytes: int = 2**30
    sends_ranges: bool = False


@pytest.fixture(scope="module")
def dispatch(tmp_path_factory):
    journal = Journal.open(tmp_path_factory.mktemp("every-byte"), flush="os")
    broker = Broker(load_settings((), ())[0], LogManager(journal), ports=Ports(clock_ms=lambda: NOW_MS))
    broker.recover(NOW_MS)
    entries = broker.first_entries(NOW_MS)
    journal.sync(journal.write(entries))
    broker.entries_durable(entries)
    dispatcher = Dispatcher(broker)
    yield lambda frame, connection=None: dispatcher.handle(Request(connection or Connection(), 0, frame, 0))
    journal.close()


def header_of(key, version, client_id="every-byte"):
    return encode_request_header(RequestHeader(key, version, 1, client_id))


@each_served_version()
def test_cut_at_any_byte_it_closes(dispatch, key, version):
    """No request is the beginning of another, so whatever is cut off is missed. Case 63."""
    frame = frame_of(sample(request_class(key), version, elements=2), version)
    for size in range(len(frame)):
        result = dispatch(frame[:size])
        assert isinstance(result, Close), f"{size} of {len(frame)} bytes"


@each_served_version()
def test_any_length_or_count_beyond_the_rest_closes(dispatch, key, version):
    """Also those that claim the most, or less than nothing; null where it is not allowed. Cases 60 and 61."""
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
def test_text_that_is_not_utf_8_is_answered_as_if_it_were_replaced(dispatch, key, version):
    """Case 61: in every text of a request, one at a time, and in its client id."""
    message = sample(request_class(key), version)
    data = b"".join(encode(message, version))
    dispatch(header_of(key, version) + data)  # the first member of a group creates the topic of its coordinator
    for client_id in (b"c" * len(TEXT), MALFORMED):
        header = header_of(key, version, "c" * len(TEXT)).replace(b"c" * len(TEXT), client_id)
        position = data.find(TEXT)
        while position >= 0:
            damaged = data[:position] + MALFORMED + data[position + len(TEXT) :]
            replaced, _ = decode(type(message), version, damaged)
            valid = b"".join(encode(replaced, version))
            assert (REPLACEMENT * len(TEXT)).encode() in valid
            found, expected = (dispatch(header + body) for body in (damaged, valid))
            assert type(found) is type(expected), f"at {position}"
            if isinstance(found, Close):
                assert found.reason == expected.reason
            position = data.find(TEXT, position + 1)


def test_text_that_is_not_utf_8_is_logged_once_for_each_connection(dispatch, caplog):
    frame = header_of(ApiKey.METADATA, 9, "c" * 4).replace(b"c" * 4, MALFORMED) + b"".join(encode(MetadataRequest(), 9))
    large = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="name" * 5000)])
    first, second, third = Connection(), Connection(), Connection()
    for connection, sent in (
        (first, frame),
        (first, frame),
        (second, frame_of(sample(MetadataRequest, 9), 9).replace(TEXT, MALFORMED)),
        (third, frame_of(large, 9).replace(TEXT, MALFORMED)),
    ):
        result = dispatch(sent, connection)
        while isinstance(result, Unfinished):
            result = go_on(result.steps)
        assert isinstance(result, Send)
    assert [record.message for record in caplog.records] == [
        f"127.0.0.1 (client id {name!r}) sent text that is not UTF-8 in a request of Metadata. The broker reads "
        "malformed bytes as U+FFFD. Correct the encoding of names in the client."
        for name in (REPLACEMENT * 4, "bad-input", "bad-input")
    ]


@each_served_version()
def test_any_byte_changed_closes_or_is_answered(dispatch, key, version):
    """The dispatcher's two ways out, never an exception. Case 64."""
    frame = frame_of(sample(request_class(key), version), version)
    for position in range(8, len(frame)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(frame)
            damaged[position] ^= mask
            dispatch(bytes(damaged))
