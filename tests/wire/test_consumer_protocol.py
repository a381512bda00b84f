"""Assignments of classic groups: clients write these bytes, so they may be malformed."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, assigned_partitions
from pipeline_broker.wire.messages.groups.consumer_protocol import ConsumerProtocolAssignment

VERSIONS = st.integers(0, 32767)
NAMED = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.lists(st.integers(0, 9), max_size=4)), max_size=5)


def written(named, version):
    message = ConsumerProtocolAssignment([ConsumerProtocolAssignment.TopicPartition(*each) for each in named])
    return struct.pack(">h", version) + b"".join(encode(message, min(version, 3)))


@given(NAMED, VERSIONS, st.binary(max_size=8))
def test_an_assignment_of_any_version_is_read_with_appended_fields(named, version, behind):
    expected = {}
    for topic, partitions in named:
        expected[topic] = tuple(sorted({*expected.get(topic, ()), *partitions}))
    data = written(named, version) + behind
    assert assigned_partitions(CONSUMER_PROTOCOL_TYPE, data) == expected


def test_no_bytes_are_an_empty_assignment():
    assert assigned_partitions(CONSUMER_PROTOCOL_TYPE, b"") == {}


@given(st.binary(max_size=64), st.sampled_from(["connect", "", "sr"]))
def test_assignments_of_other_protocol_types_are_not_read(data, protocol_type):
    assert assigned_partitions(protocol_type, data) is None


@given(NAMED.filter(bool), VERSIONS, st.data())
def test_a_malformed_assignment_is_not_an_error(named, version, data):
    whole = bytearray(written(named, version))
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = (
        bytes(whole[:place]) + data.draw(st.binary(max_size=8)) + bytes(whole[place + data.draw(st.integers(0, 8)) :])
    )
    found = assigned_partitions(CONSUMER_PROTOCOL_TYPE, changed)
    assert found is None or isinstance(found, dict)
    cut = assigned_partitions(CONSUMER_PROTOCOL_TYPE, bytes(whole[: place or 1]))
    assert cut is None
