"""Messages as JSON: Kafka's names and forms in every version."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.json_form import json_form
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.wire.generated import objects

TOPIC_ID = bytes(range(16))


def test_names_are_camel_case_and_limited_to_the_version():
    form = json_form(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")]), 4)
    assert form == {"topics": [{"name": "t"}], "allowAutoTopicCreation": True}


def test_records_appear_as_their_size():
    data = ProduceRequest.PartitionProduceData
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data(0, b"12345"), data(1, None)])
    form = json_form(ProduceRequest(None, -1, 1000, [topic]), 9)
    assert form == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 1000,
        "topicData": [
            {
                "name": "t",
                "partitionData": [{"index": 0, "recordsSizeInBytes": 5}, {"index": 1, "records": None}],
            }
        ],
    }
    partition = FetchResponse.PartitionData(0, records=[b"ab", memoryview(b"cde")])
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
    assert json_form(response, 12)["responses"][0]["partitions"][0]["recordsSizeInBytes"] == 5


def test_ids_are_url_safe_and_bytes_plain_base64():
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID)])
    assert json_form(request, 13)["topics"][0]["topicId"] == "AAECAwQFBgcICQoLDA0ODw"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"\xfb\xff")
    assert json_form(JoinGroupRequest(protocols=[protocol]), 5)["protocols"] == [{"name": "range", "metadata": "+/8="}]


def test_a_tagged_field_with_its_default_is_left_out():
    assert "clusterId" not in json_form(FetchRequest(), 12)
    assert json_form(FetchRequest(cluster_id="c"), 12)["clusterId"] == "c"


@given(st.data())
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.JOIN_GROUP, ApiKey.LIST_OFFSETS])
def test_every_message_of_every_version_can_be_written_as_json(key, data):
    for kind in message_classes(key):
        version = data.draw(st.sampled_from(list(versions_of(kind))))
        message = data.draw(objects(kind, version))
        assert json.loads(json.dumps(json_form(message, version))).keys() == json_form(message, version).keys()
