"""Stepwise codecs: large messages are decoded and encoded over several turns, with a limit on elements."""

import pytest

from pipeline_broker.wire.codec import (
    DecodeError,
    ResponseTooLargeError,
    decoder,
    encode,
    encoder,
    stepwise_decoder,
    stepwise_encoder,
)
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.primitives import (
    ELEMENTS_A_TURN,
    ELEMENTS_MAX,
    MALFORMED_UNIT_BYTES,
    OWN_PART_BYTES_MIN,
    RESPONSE_BYTES_MAX,
    TAGS_MAX,
    write_uvarint,
)
from tests.wire.generated import REQUESTS, RESPONSES, each_version, plain, sample

EMPTY_TOPIC = b"\1\1\0"
FIRST = MetadataRequest(topics=[])
TOPIC = MetadataRequest.MetadataRequestTopic(name="t")


def finished(steps):
    """Run a generator; return its result and the number of turns."""
    turns = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def stepwise(message, version, **options):
    """Return a stepwise decoder that runs to its end."""
    decode = stepwise_decoder(message, version, **options)
    return lambda data, position: finished(decode(data, position))[0][:2]


@each_version(REQUESTS)
def test_stepwise_decoding_gives_the_same_message(message, version):
    data = b"".join(encode(sample(message, version, elements=3), version))
    counted, position = stepwise(message, version)(data, 0)
    assert position == len(data)
    assert plain(counted) == plain(decoder(message, version)(data, 0)[0])


def test_malformed_text_is_replaced_in_turns():
    """A thousand names of 1,024 bytes are as much work as 32,000 elements."""
    topics = [MetadataRequest.MetadataRequestTopic(name="n" * 1024)] * 1000
    data = b"".join(encode(MetadataRequest(topics=topics), 12))
    _, turns = finished(stepwise_decoder(MetadataRequest, 12)(data.replace(b"n", b"\xff"), 0))
    assert turns == 1 + 1000 * (1 + 1024 // MALFORMED_UNIT_BYTES) // ELEMENTS_A_TURN


@each_version(RESPONSES)
def test_stepwise_encoding_gives_the_same_bytes(message, version):
    response = sample(message, version, elements=3)
    parts, turns = finished(stepwise_encoder(message, version)(response))
    assert turns == 1
    assert b"".join(parts) == b"".join(encoder(message, version)(response))


def test_large_messages_yield():
    count = 3 * ELEMENTS_A_TURN
    data = b"".join(encode(MetadataRequest(topics=[TOPIC] * count), 9))
    (message, _, left), turns = finished(stepwise_decoder(MetadataRequest, 9)(data, 0))
    assert (len(message.topics), left, turns) == (count, ELEMENTS_MAX - count, 3)
    parts, turns = finished(stepwise_encoder(MetadataRequest, 9)(message))
    assert (b"".join(parts), turns) == (data, 3)


def test_large_bytes_of_a_response_are_not_copied():
    """A hundred connections with slow clients share them."""
    large = bytes(OWN_PART_BYTES_MIN)
    member = DescribeGroupsResponse.DescribedGroupMember(member_metadata=large, member_assignment=large[:-2])
    group = DescribeGroupsResponse.DescribedGroup(members=[member])
    parts, _ = finished(stepwise_encoder(DescribeGroupsResponse, 5)(DescribeGroupsResponse(groups=[group])))
    assert [part is large for part in parts] == [False, True, False]
    assert b"".join(parts) == b"".join(encode(DescribeGroupsResponse(groups=[group]), 5))


def test_a_response_above_the_limit_is_refused():
    group = DescribeGroupsResponse.DescribedGroup(
        members=[DescribeGroupsResponse.DescribedGroupMember(member_metadata=bytes(1 << 20))]
    )
    count = RESPONSE_BYTES_MAX >> 20
    finished(stepwise_encoder(DescribeGroupsResponse, 5)(DescribeGroupsResponse(groups=[group] * (count - 1))))
    written = stepwise_encoder(DescribeGroupsResponse, 5)(DescribeGroupsResponse(groups=[group] * 2 * count))
    with pytest.raises(ResponseTooLargeError, match="DescribeGroupsResponse"):
        finished(written)


def produce_topics(count):
    """Encode a Produce v9 request of `count` topics without name and partitions, three bytes each."""
    return b"\0" + bytes(6) + write_uvarint(count + 1) + EMPTY_TOPIC * count + b"\0"


def test_one_element_too_many_is_refused():
    decode = stepwise(ProduceRequest, 9)
    message, _ = decode(produce_topics(ELEMENTS_MAX), 0)
    assert len(message.topic_data) == ELEMENTS_MAX
    with pytest.raises(DecodeError, match="topic_data"):
        decode(produce_topics(ELEMENTS_MAX + 1), 0)


def test_elements_of_all_arrays_count_together():
    """Each array alone is within the limit, and so are the nested ones."""
    partitions = b"\1" + write_uvarint(11) + (bytes(4) + b"\0\0") * 10 + b"\0"
    count = ELEMENTS_MAX // 10
    with pytest.raises(DecodeError, match="partition_data"):
        stepwise(ProduceRequest, 9)(bytes(7) + write_uvarint(count + 1) + partitions * count + b"\0", 0)


@pytest.mark.parametrize("read", [stepwise, decoder])
def test_too_many_unknown_tagged_fields_are_refused(read):
    def tagged(count):
        return b"".join(encode(FIRST, 9))[:-1] + write_uvarint(count) + b"\x63\0" * count

    data = tagged(TAGS_MAX)
    assert read(MetadataRequest, 9)(data, 0) == (FIRST, len(data))
    with pytest.raises(DecodeError, match="tagged"):
        read(MetadataRequest, 9)(tagged(TAGS_MAX + 1), 0)


def test_unknown_tagged_fields_count_as_elements():
    topic = b"\2a" + write_uvarint(TAGS_MAX) + b"\x63\0" * TAGS_MAX
    count = ELEMENTS_MAX // TAGS_MAX
    with pytest.raises(DecodeError, match="tagged"):
        stepwise(MetadataRequest, 9)(write_uvarint(count + 1) + topic * count + bytes(4), 0)
