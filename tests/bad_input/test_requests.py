"""Whole frames whose content is not a request that this broker serves, and what is said to them."""

import random
import struct

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.registry import API_KEYS, ApiKey
from tests.bad_input.conftest import TOPIC
from tests.bad_input.raw_client import (
    SERVED_VERSIONS,
    answer_of,
    batch_of,
    each_served_version,
    fetch_request,
    frame_of,
    produce_answers,
    produce_request,
    request_class,
)
from tests.tables import each_row
from tests.wire.generated import sample

PRODUCE_VERSION = 9
NAMED_BY_ID_FROM = 13
NO_SOFTWARE = ["", " ", "-x", "x-", ".x", "a b", "a_b", "a/b", "\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 300 + "."]
MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""What random bytes may well ask for is to wait for other members for weeks."""
REMOVED = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
NOT_SERVED = [int(key) for key in API_KEYS if key not in SERVED]
BOUNDS = [(key, SERVED[key].versions[0], SERVED[key].versions[-1]) for key in SERVED if key != ApiKey.API_VERSIONS]
WRONG_VERSIONS = [
    (key, version) for key, first, last in BOUNDS for version in sorted({-32768, -1, first - 1, last + 1, 32767})
]


def bare_header(key, version, correlation_id=1):
    """API key, version, correlation id, a null client id, and plenty of zeros for whatever follows."""
    return struct.pack(">hhih", key, version, correlation_id, -1) + bytes(64)


@each_served_version()
def test_a_truncated_request_closes(broker, key, version):
    """Cut at the header's end, in the middle, and one byte short; every other byte: test_every_byte."""
    message = sample(request_class(key), version)
    body_size = len(b"".join(encode(message, version)))
    frame = frame_of(message, version)
    for size in sorted({len(frame) - body_size, len(frame) - body_size // 2, len(frame) - 1} - {len(frame)}):
        with broker.connect() as client:
            assert client.ask_raw(frame[:size]) is None
    broker.check_healthy()


@each_served_version()
def test_bytes_behind_a_request_are_ignored(broker, key, version):
    """Cases 63 and 67."""
    message = request_class(key)()
    if key == ApiKey.PRODUCE:
        message.acks = -1
    if key == ApiKey.API_VERSIONS:
        message.client_software_name = message.client_software_version = "x"
    if key == ApiKey.DESCRIBE_ACLS:  # whose zeros stand for what closes
        message.resource_type_filter = message.pattern_type_filter = message.operation = message.permission_type = 1
    with broker.connect() as client:
        answer = client.ask_raw(frame_of(message, version) + b"\xff" * 9)
        assert answer is not None
        answer_of(message, version, answer)
    broker.check_healthy()


@pytest.mark.parametrize("key", [-32768, -1, max(API_KEYS) + 1, 32767, *REMOVED])
def test_an_api_that_does_not_exist_closes(broker, key):
    """Behaviour 63. Case 59."""
    for version in (0, 1, 5):
        with broker.connect() as client:
            assert client.ask_raw(bare_header(key, version)) is None


@each_row("key", NOT_SERVED, NOT_SERVED)
def test_an_api_that_is_not_served_closes(broker, key):
    """Behaviour 5."""
    with broker.connect() as client:
        assert client.ask_raw(bare_header(key, max(API_KEYS[key].versions, default=0))) is None
    broker.check_healthy()


@each_row("key, version", WRONG_VERSIONS, [f"{SERVED[key].name}-{version}" for key, version in WRONG_VERSIONS])
def test_a_version_that_is_not_served_closes(broker, key, version):
    """Without an error response, as in Apache Kafka; Produce 0 to 2 too, although they are advertised.

    Behaviour 64. Case 59.
    """
    with broker.connect() as client:
        assert client.ask_raw(bare_header(key, version)) is None
    broker.check_healthy()


@pytest.mark.parametrize("version", [-32768, -1, 6, 9, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_layout_0(broker, version):
    """Error 35 with the range of this API only; the body is not looked at, and the connection stays usable. Case 59."""
    with broker.connect() as client:
        answer = client.ask_raw(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 5, -1) + b"\0\xff\xff")
        assert answer is not None
        assert answer[:4] == struct.pack(">i", 5)
        response, end = decode(ApiVersionsResponse, 0, answer, 4)
        assert end == len(answer)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        (only,) = response.api_keys
        assert (only.api_key, only.min_version, only.max_version) == (ApiKey.API_VERSIONS, 0, 5)
        assert client.ask(ApiVersionsRequest("again", "1"), 3).error_code == 0


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", NO_SOFTWARE)
def test_a_bad_client_software_name_or_version_is_42(broker, name, version):
    """Answered in the request's own version."""
    with broker.connect() as client:
        for software in ((name, "1.0"), ("good", name)):
            response = client.ask(ApiVersionsRequest(*software), version)
            assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
        assert client.ask(ApiVersionsRequest("good-Name.1", "1-2.3"), version).error_code == 0


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize("acks", [7, -2, 2, 32767])
def test_acks_that_do_not_exist_are_21(broker, acks, version):
    """For every partition that exists; nothing is appended. Case 66."""
    with broker.connect() as client:
        response = client.ask(produce_request((0, batch_of(b"x")), (999, None), acks=acks), version)
    assert produce_answers(response) == [
        (0, ErrorCode.INVALID_REQUIRED_ACKS),
        (999, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(
    ("partition", "records", "topic"),
    [(0, b"garbage", TOPIC), (999, batch_of(b"x"), TOPIC), (0, batch_of(b"x"), "missing"), (0, None, TOPIC)],
    ids=["bad records", "unknown partition", "unknown topic", "null records"],
)
def test_an_error_without_acks_closes_after_earlier_answers(broker, partition, records, topic):
    """Without acks no response can carry the error; earlier requests are answered. Case 66."""
    with broker.connect() as client:
        client.send_frame(frame_of(MetadataRequest(topics=[]), 1))
        client.send_frame(frame_of(produce_request((partition, records), topic=topic, acks=0), PRODUCE_VERSION))
        client.send_frame(frame_of(MetadataRequest(topics=[]), 1))
        assert client.receive_frame() is not None
        assert client.receive_frame() is None


def test_success_without_acks_is_silent(broker):
    """The next response is that of the next request. Behaviour 8."""
    with broker.connect() as client:
        client.send_frame(frame_of(produce_request((0, batch_of(b"x")), acks=0), PRODUCE_VERSION, 1))
        assert client.ask(MetadataRequest(topics=[]), 1, correlation_id=2) is not None


@pytest.mark.parametrize("version", [3, 9, 12])
def test_an_unknown_topic_or_partition_is_3(broker, version):
    with broker.connect() as client:
        response = client.ask(produce_request((-1, b""), (3, None), (2**31 - 1, batch_of(b"x"))), version)
        assert [code for _, code in produce_answers(response)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
        for topic in ("missing", "", "..", "x" * 250, "a\0b", "../../etc"):
            response = client.ask(produce_request((0, batch_of(b"x")), topic=topic), version)
            assert produce_answers(response) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_an_unknown_topic_id_is_100(broker):
    """By the version from which topics are named by id; the zero id is as unknown as any other."""
    with broker.connect() as client:
        for topic_id in (bytes(16), bytes(range(16)), bytes(15) + b"\1"):
            produce = produce_request((0, batch_of(b"x")), topic="")
            produce.topic_data[0].topic_id = topic_id
            assert produce_answers(client.ask(produce, NAMED_BY_ID_FROM)) == [(0, ErrorCode.UNKNOWN_TOPIC_ID)]
            fetch = fetch_request("", 0)
            fetch.topics[0].topic_id = topic_id
            (topic,) = client.ask(fetch, NAMED_BY_ID_FROM).responses
            assert [data.error_code for data in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_the_brokers_own_log_cannot_be_reached(broker):
    """The metadata partition is in no catalogue: neither its name nor its id is known to clients."""
    with broker.connect() as client:
        response = client.ask(produce_request((0, batch_of(b"x")), topic="__cluster_metadata"), PRODUCE_VERSION)
        assert produce_answers(response) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        (topic,) = client.ask(fetch_request("__cluster_metadata", 0), 11).responses
        assert [data.error_code for data in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_partition_named_twice_in_list_offsets_is_42_once(broker):
    """Case 66."""
    partition = ListOffsetsRequest.ListOffsetsPartition
    topic = ListOffsetsRequest.ListOffsetsTopic(
        TOPIC, [partition(0, -1, -1), partition(1, -1, -1), partition(0, -1, -2)]
    )
    with broker.connect() as client:
        (answer,) = client.ask(ListOffsetsRequest(topics=[topic]), 5).topics
    codes = [(data.partition_index, data.error_code) for data in answer.partitions]
    assert codes == [(0, ErrorCode.INVALID_REQUEST), (1, 0)]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "x" * 250, "a\0b", "a b", "\N{SNOWMAN}", "a/b", "a:b"])
def test_a_topic_name_that_cannot_be_is_17_and_creates_nothing(broker, name):
    """Case 65."""
    with broker.connect() as client:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
        (topic,) = client.ask(request, 8).topics
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        names = [topic.name for topic in client.ask(MetadataRequest(topics=None), 8).topics]
    assert name not in names


def test_empty_lists_are_legal(broker):
    """A request about nothing is answered with nothing (CVE-2026-83525 was a broker that fell over one). Case 67."""
    with broker.connect() as client:
        assert client.ask(produce_request(), PRODUCE_VERSION).responses[0].partition_responses == []
        assert client.ask(ListOffsetsRequest(), 5).topics == []
        assert client.ask(MetadataRequest(topics=[]), 8).topics == []
        assert client.ask(FetchRequest(session_epoch=-1, max_wait_ms=60_000, min_bytes=1), 11).responses == []


def test_unknown_tagged_fields_are_ignored_and_bad_ones_close(broker):
    """Case 62: in the header, where everybody may put them; the same tag twice, and tags out of order, too."""
    body = b"".join(encode(MetadataRequest(topics=[]), 9))
    fixed = encode_request_header(RequestHeader(ApiKey.METADATA, 9, 1, None))[:-1]
    with broker.connect() as client:
        for tags in (b"\1\x63\2ab", b"\2\0\0\0\0", b"\2\5\0\1\0", b"\1\xff\xff\xff\xff\x0f\0"):
            assert client.ask_raw(fixed + tags + body) is not None
    for tags in (b"\1\0\x7f", b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\xff", b"\x01\x00\xff\xff\xff\xff\x0f"):
        with broker.connect() as client:
            assert client.ask_raw(fixed + tags + body) is None


def test_random_bytes_close_or_are_answered(broker):
    """Whatever the bytes are, the broker answers or closes; no connection is left waiting. Case 58."""
    dice = random.Random(4)
    for _ in range(200):
        with broker.connect() as client:
            key, version = dice.choice([served for served in SERVED_VERSIONS if served[0] not in MAY_WAIT])
            head = struct.pack(">hhih", key, version, 1, -1)
            client.send_frame(head + dice.randbytes(dice.randrange(1, 200)))
            client.send_frame(bytes(1))
            while client.receive_frame() is not None:
                pass
