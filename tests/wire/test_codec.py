"""Codecs: decoders read the output of encoders, skip unknown fields, and raise DecodeError for anything else."""

from __future__ import annotations

import traceback
import tracemalloc
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import (
    DecodeError,
    EncodeError,
    NotUtf8Error,
    decode,
    decoder,
    encode,
    encoder,
    versions_of,
)
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsResponse
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsResponse
from pipeline_broker.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.schema import parse_versions
from tests.wire.generated import MESSAGES, RECORDS, REQUESTS, each_message, each_version, objects, plain, quick, sample
from tests.wire.reference import Reference
from tests.wire.test_steps import stepwise


def joined(message, version):
    return b"".join(encode(message, version))


def produce(records, name="t"):
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name=name, partition_data=[partition])])


@contextmanager
def traced_peak():
    """Yield a function that returns, after the block, the peak of allocated bytes within it."""
    tracemalloc.start()
    peaks = []
    try:
        yield lambda: peaks[0]
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def fetched(records):
    partition = FetchResponse.PartitionData(records=records)
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])])


@each_version(RECORDS)
@quick
@given(data=st.data())
def test_coordinator_records_agree_with_the_reference_encoder(message, version, data):
    built = data.draw(objects(message, version))

    encoded = joined(built, version)

    assert encoded == Reference(built, version).data
    assert decode(message, version, encoded) == (built, len(encoded))


@each_version(MESSAGES)
def test_bytes_after_a_message_are_ignored(message, version):
    """The returned position is the end of the message, wherever the message begins."""
    built = sample(message, version)
    data = joined(built, version)

    decoded, position = decode(message, version, memoryview(b"head" + data + b"tail"), 4)

    assert position == 4 + len(data)
    assert plain(decoded) == built


@each_version(MESSAGES, flexible_only=True)
def test_unknown_tagged_fields_are_skipped(message, version):
    """Every struct has tags of a newer release, after its known ones."""
    built = sample(message, version)
    unknown = {90: b"", 91: b"x" * 200, 2**31 - 1: b"last"}
    data = Reference(built, version, unknown_tags=unknown).data

    decoded, position = decode(message, version, memoryview(data))

    assert position == len(data)
    assert plain(decoded) == built


@each_version(MESSAGES)
def test_a_truncated_message_is_a_decode_error(message, version):
    """Covers every proper prefix, as bytes and as a view."""
    decode_one = decoder(message, version)
    for built in (message(), sample(message, version, elements=2)):
        data = joined(built, version)
        for size in range(len(data)):
            for buffer in (data[:size], memoryview(data)[:size]):
                with pytest.raises(DecodeError):
                    decode_one(buffer, 0)


@each_version(MESSAGES)
def test_false_lengths_and_counts_are_refused_without_allocation(message, version):
    """Covers lengths far beyond the buffer, negative ones, and null in fields that are not nullable."""
    built = sample(message, version)
    allowed = Reference(built, version).lengths
    decode_one = decoder(message, version)
    flexible = version in parse_versions(message.SCHEMA.flexible)
    with traced_peak() as peak:
        for index, nullable in enumerate(allowed):
            false = [2**31 - 1, 2**31, 2**32 - 2, 5_000] if flexible else [0x7FFF, -2, -0x8000]
            for value in false if nullable else [*false, -1]:
                data = Reference(built, version, false_lengths={index: value}).data
                with pytest.raises(DecodeError):
                    decode_one(memoryview(data), 0)
    assert peak() < 300_000


@each_message(MESSAGES, parts=4)
@quick
@given(data=st.data())
def test_mutated_bytes_give_a_message_or_a_decode_error(message, data):
    """Covers replaced, removed and added bytes."""
    version = data.draw(st.sampled_from(versions_of(message)))
    mutant = bytearray(joined(data.draw(objects(message, version)), version))
    decode_one = decoder(message, version)
    for _ in range(12):
        start = data.draw(st.integers(0, len(mutant)))
        stop = start + data.draw(st.integers(0, 3))
        mutant[start:stop] = data.draw(st.binary(max_size=4))
        try:
            decoded, position = decode_one(memoryview(bytes(mutant)), 0)
        except DecodeError:
            continue
        assert type(decoded) is message
        assert 0 <= position <= len(mutant)


@each_version(MESSAGES)
def test_text_that_is_not_utf8_is_replaced_or_reported(message, version):
    """Covers each text of a message, decoded at once and in steps. Valid text is the same for all decoders."""
    data = joined(sample(message, version), version)
    malformed = data.replace(b"name", b"n\xff\xfee")
    for make in (decoder, stepwise):
        assert plain(make(message, version, utf8_only=True)(data, 0)[0]) == sample(message, version)
        if malformed == data:
            continue
        decoded, position = make(message, version)(malformed, 0)
        assert position == len(malformed)
        assert plain(decoded) == sample(message, version, text="n\ufffd\ufffde")
        with pytest.raises(NotUtf8Error):
            make(message, version, utf8_only=True)(malformed, 0)


@each_message(REQUESTS)
@quick
@given(noise=st.binary(max_size=200), data=st.data())
def test_noise_gives_a_message_or_a_decode_error(message, noise, data):
    version = data.draw(st.sampled_from(versions_of(message)))
    try:
        decode(message, version, noise)
    except DecodeError:
        return


class TestLimits:
    def test_a_varint_of_more_than_five_bytes_is_refused(self):
        """The tag count of an empty Metadata request, padded to six bytes."""
        data = joined(MetadataRequest(), 12)[:-1]
        with pytest.raises(DecodeError, match="varint"):
            decode(MetadataRequest, 12, data + b"\x80\x80\x80\x80\x80\x00")

    def test_a_varint_padded_to_five_bytes_is_read(self):
        data = joined(MetadataRequest(), 12)[:-1] + b"\x80\x80\x80\x80\x00"
        assert decode(MetadataRequest, 12, data) == (MetadataRequest(), len(data))

    def test_more_unknown_tags_than_could_fit_are_refused(self):
        data = joined(MetadataRequest(), 12)[:-1]
        with pytest.raises(DecodeError, match="tagged fields"):
            decode(MetadataRequest, 12, data + b"\xff\xff\xff\xff\x07" + bytes(10))

    @pytest.mark.parametrize(
        ("message", "version", "head", "element"),
        [
            (DescribeGroupsRequest, 5, b"\xb1\xea\x01", b"\x01"),
            (DescribeGroupsRequest, 0, b"\x00\x00\x75\x30", b"\x00\x00"),
            (DescribeTopicPartitionsRequest, 0, b"\xb1\xea\x01", b"\x01\x00"),
        ],
    )
    def test_a_count_beyond_the_rest_is_refused_before_the_first_element(self, message, version, head, element):
        """The count says 30,000 elements, the buffer has 20,000: none is built."""
        data = head + element * 20_000
        with pytest.raises(DecodeError):  # compile the codec first, because that allocates memory too
            decode(message, version, data)
        with traced_peak() as peak, pytest.raises(DecodeError, match="length 30000"):
            decode(message, version, data)
        assert peak() < 100_000

    def test_an_unknown_tag_longer_than_the_rest_is_refused(self):
        data = joined(MetadataRequest(), 12)[:-1]
        with pytest.raises(DecodeError):
            decode(MetadataRequest, 12, data + b"\x01\x05\x7f" + bytes(10))

    def test_a_known_tag_of_a_false_size_is_refused(self):
        """Tag 1 of ApiVersions is an epoch of eight bytes; its declared size is nine."""
        data = joined(ApiVersionsResponse(), 3)[:-1]
        assert decode(ApiVersionsResponse, 3, data + b"\x01\x01\x08" + bytes(8))[0].finalized_features_epoch == 0
        with pytest.raises(DecodeError, match="shorter"):
            decode(ApiVersionsResponse, 3, data + b"\x01\x01\x09" + bytes(9))
        with pytest.raises(DecodeError, match="longer"):
            decode(ApiVersionsResponse, 3, data + b"\x01\x01\x07" + bytes(8))

    @pytest.mark.parametrize("version", [3, 9])
    def test_strings_end_at_32767_bytes(self, version):
        """The longest string can be encoded and decoded; one byte more cannot be encoded."""
        longest = produce(b"", name="n" * 0x7FFF)
        assert decode(ProduceRequest, version, joined(longest, version))[0].topic_data[0].name == "n" * 0x7FFF
        with pytest.raises(EncodeError):
            encode(produce(b"", name="n" * 0x8000), version)

    def test_a_compact_string_of_32768_bytes_is_refused(self):
        data = Reference(produce(b"", name="n" * 0x8000), 9).data
        with pytest.raises(DecodeError, match="32768"):
            decode(ProduceRequest, 9, data)

    @pytest.mark.parametrize("version", [4, 5])
    def test_long_error_messages_are_truncated(self, version):
        """Between two characters, in both length encodings: a long name in an error message must not prevent the
        response.
        """
        said = "é" * 0x4000
        response = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult("t", error_message=said)])
        decoded, _ = decode(CreateTopicsResponse, version, joined(response, version))
        assert decoded.topics[0].error_message == "é" * 0x3FFF

    def test_text_that_is_replaced_can_be_written_again(self):
        """Three bytes replace one, so a long name is truncated."""
        data = joined(produce(b"", name="n" * 0x7FFF), 9).replace(b"n", b"\xff")
        decoded, _ = decode(ProduceRequest, 9, data)
        assert decoded.topic_data[0].name == "\ufffd" * (0x7FFF // 3)
        assert plain(decode(ProduceRequest, 9, joined(decoded, 9))[0]) == plain(decoded)


class TestRecords:
    @pytest.mark.parametrize("version", [3, 9, 13])
    def test_records_are_a_view_of_the_buffer(self, version):
        """Decoding copies no records, from a view or from bytes."""
        message = produce(b"r" * 1000)
        if version == 13:
            message.topic_data[0].name = ""
        frame = joined(message, version)
        for buffer in (frame, memoryview(frame)):
            records = decode(ProduceRequest, version, buffer)[0].topic_data[0].partition_data[0].records
            assert isinstance(records, memoryview)
            assert records.obj is frame
            assert records == b"r" * 1000

    @pytest.mark.parametrize("version", [4, 12])
    def test_records_become_parts_without_a_copy(self, version):
        """Each given buffer is a separate part, the same object."""
        whole = b"x" * 300
        pieces = [bytes(5), memoryview(whole), bytearray(200)]
        expected = joined(fetched(b"".join(pieces)), version)

        for given_pieces in (pieces, tuple(pieces)):
            parts = encode(fetched(given_pieces), version)
            assert b"".join(parts) == expected
            assert [part for part in parts if any(part is piece for piece in pieces)] == pieces

        assert any(part is whole for part in encode(fetched(whole), version))

    @pytest.mark.parametrize("version", [4, 12])
    @pytest.mark.parametrize("records", [None, b"", []])
    def test_null_and_empty_records_differ_on_the_wire_as_they_should(self, version, records):
        decoded = decode(FetchResponse, version, joined(fetched(records), version))[0]
        found = decoded.responses[0].partitions[0].records
        assert found is None if records is None else found == b""

    def test_other_bytes_are_copied_out_of_the_frame(self):
        """A topic id may outlive its frame."""
        topic = ProduceRequest.TopicProduceData(topic_id=bytes(range(16)))
        decoded = decode(ProduceRequest, 13, memoryview(joined(ProduceRequest(topic_data=[topic]), 13)))[0]
        assert type(decoded.topic_data[0].topic_id) is bytes


class TestVersions:
    def test_a_version_outside_the_range_has_no_codec(self):
        with pytest.raises(ValueError, match="no version 2"):
            decoder(ProduceRequest, 2)
        with pytest.raises(ValueError, match="no version 14"):
            encoder(ProduceRequest, 14)

    def test_a_codec_is_compiled_once(self):
        assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
        assert encoder(ProduceRequest, 9) is encoder(ProduceRequest, 9)

    def test_a_value_that_a_version_cannot_carry_is_an_error_unless_ignorable(self):
        """Version 10 added endpoints, which are not ignorable. Version 1 added the throttle time, which is."""
        endpoint = ProduceResponse.NodeEndpoint(node_id=1, host="h", port=1)
        encode(ProduceResponse(node_endpoints=[endpoint]), 10)
        with pytest.raises(EncodeError, match="node_endpoints"):
            encode(ProduceResponse(node_endpoints=[endpoint]), 9)
        leader = ProduceResponse.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
        partition = ProduceResponse.PartitionProduceResponse(current_leader=leader)
        topic = ProduceResponse.TopicProduceResponse(partition_responses=[partition])
        with pytest.raises(EncodeError, match="current_leader"):
            encode(ProduceResponse(responses=[topic]), 9)
        encode(FetchRequest(rack_id="somewhere"), 10)
        with pytest.raises(EncodeError, match="group_instance_id"):
            encode(HeartbeatRequest(group_instance_id="static"), 2)

    def test_an_equal_copy_of_a_default_struct_is_not_written(self):
        """The encoder compares the value, not the identity of the shared default."""
        copy = FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
        assert encode(FetchRequest(replica_state=copy), 15) == encode(FetchRequest(), 15)

    def test_the_default_of_a_struct_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            FetchRequest().replica_state.replica_id = 5

    def test_lists_are_not_shared_between_messages(self):
        first, second = decode(MetadataRequest, 12, joined(MetadataRequest(), 12))[0], MetadataRequest()
        first.topics.append(MetadataRequest.MetadataRequestTopic())
        assert second.topics == []
        assert MetadataRequest().topics == []


class TestEncodeErrors:
    @pytest.mark.parametrize("version", [0, 4])
    def test_wrong_values_are_encode_errors(self, version):
        """Covers None for a string, a large integer, a lone surrogate and a number for a string."""
        for wrong in ({"group_id": None}, {"generation_id": 2**31}, {"group_id": "\ud800"}, {"member_id": 5}):
            with pytest.raises(EncodeError):
                encode(HeartbeatRequest(**wrong), version)

    def test_a_uuid_of_another_size_is_an_encode_error(self):
        topic = ProduceResponse.TopicProduceResponse(topic_id=b"short")
        with pytest.raises(EncodeError, match="uuid"):
            encode(ProduceResponse(responses=[topic]), 13)

    def test_the_traceback_of_a_codec_shows_its_source(self):
        with pytest.raises(EncodeError) as raised:
            encode(HeartbeatRequest(group_id=None), 4)
        assert "= group_id_1.encode()" in "".join(traceback.format_exception(raised.value))


class TestNullableStructs:
    @pytest.mark.parametrize("cursor", [None, DescribeTopicPartitionsResponse.Cursor("t", 4)])
    def test_a_struct_may_be_null(self, cursor):
        message = DescribeTopicPartitionsResponse(next_cursor=cursor)
        data = joined(message, 0)
        assert decode(DescribeTopicPartitionsResponse, 0, data) == (message, len(data))
