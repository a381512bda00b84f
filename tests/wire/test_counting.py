"""A large message of a stranger has only so many elements, however small they are."""

import pytest

from pipeline_broker.wire.codec import DecodeError, counting_decoder, decoder, encode
from pipeline_broker.wire.messages.metadata import MetadataRequest
from pipeline_broker.wire.messages.produce import ProduceRequest
from pipeline_broker.wire.primitives import ELEMENTS_MAX, write_uvarint
from tests.wire.generated import REQUESTS, each_version, plain, sample

EMPTY_TOPIC = b"\1\1\0"
FIRST = MetadataRequest(topics=[])


@each_version(REQUESTS)
def test_counting_changes_nothing_else(message, version):
    data = b"".join(encode(sample(message, version, elements=3), version))
    counted, position = counting_decoder(message, version)(data, 0)
    assert position == len(data)
    assert plain(counted) == plain(decoder(message, version)(data, 0)[0])


def produce_topics(count):
    """Produce v9: so many topics without name and partitions, three bytes each."""
    return b"\0" + bytes(6) + write_uvarint(count + 1) + EMPTY_TOPIC * count + b"\0"


def test_one_element_more_than_the_most_is_refused():
    decode = counting_decoder(ProduceRequest, 9)
    message, _ = decode(produce_topics(ELEMENTS_MAX), 0)
    assert len(message.topic_data) == ELEMENTS_MAX
    with pytest.raises(DecodeError, match="topic_data"):
        decode(produce_topics(ELEMENTS_MAX + 1), 0)


def test_elements_of_all_arrays_count_together():
    """Each list alone is within the bound, and so are the lists inside it."""
    partitions = b"\1" + write_uvarint(11) + (bytes(4) + b"\0\0") * 10 + b"\0"
    count = ELEMENTS_MAX // 10
    with pytest.raises(DecodeError, match="partition_data"):
        counting_decoder(ProduceRequest, 9)(bytes(7) + write_uvarint(count + 1) + partitions * count + b"\0", 0)


@pytest.mark.parametrize("count", [ELEMENTS_MAX, ELEMENTS_MAX + 1])
def test_unknown_tagged_fields_count_too(count):
    data = b"".join(encode(FIRST, 9))[:-1] + write_uvarint(count) + b"\x63\0" * count
    if count > ELEMENTS_MAX:
        with pytest.raises(DecodeError, match="tagged"):
            counting_decoder(MetadataRequest, 9)(data, 0)
    else:
        assert counting_decoder(MetadataRequest, 9)(data, 0) == (FIRST, len(data))
