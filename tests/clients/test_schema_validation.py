"""A broker refuses records without a registered schema, as producers see it."""

import http.client
import json
import re

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.struct_pb2 import ListValue

from pipeline_broker import EmbeddedBroker

pytestmark = pytest.mark.clients
SECONDS_MAX = 30
VALIDATION = {"confluent.value.schema.validation": "true"}


def register(broker, subject):
    (authority,) = re.findall(r"^schema registry on http://(\S+)$", broker.stderr, re.MULTILINE)
    connection = http.client.HTTPConnection(authority, timeout=SECONDS_MAX)
    connection.request("POST", f"/subjects/{subject}/versions", json.dumps({"schema": '"string"'}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["id"]


def create(broker, name):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, 1, 1, config=VALIDATION)]).values()
    created.result(SECONDS_MAX)


def errors_of(servers, *values, **options):
    found = []
    producer = Producer({"bootstrap.servers": servers, **options})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: found.append(error and error.code()))
        assert producer.flush(SECONDS_MAX) == 0
    return found


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_record_without_a_registered_schema_fails_at_its_producer(broker_process, mode):
    broker = broker_process(mode=mode, arguments=["--schema-registry", "0"])
    create(broker, "t")
    known = b"\0" + register(broker, "t-value").to_bytes(4) + b"\2a"
    unknown = b"\0\0\0\0\x63x"
    for codec in ("none", "gzip", "zstd"):
        for options in ({"compression.type": codec}, {"compression.type": codec, "enable.idempotence": True}):
            assert errors_of(broker.bootstrap, known, **options) == [None]
            assert errors_of(broker.bootstrap, unknown, **options) == [KafkaError.INVALID_RECORD]


def test_after_a_restart_the_schemas_are_known_to_the_first_record(broker_process):
    broker = broker_process(arguments=["--schema-registry", "0"])
    create(broker, "t")
    known = b"\0" + register(broker, "t-value").to_bytes(4) + b"\2a"
    broker.stop()
    broker = broker_process(arguments=["--schema-registry", "0"])
    assert errors_of(broker.bootstrap, known) == [None]


def test_in_a_cluster_the_setting_is_refused(broker_process):
    broker = broker_process(arguments=["--brokers", "2", "--schema-registry", "0"])
    with pytest.raises(KafkaException, match="serve without --brokers"):
        create(broker, "t")


STRATEGIES = {
    "TopicNameStrategy": topic_subject_name_strategy,
    "RecordNameStrategy": record_subject_name_strategy,
    "TopicRecordNameStrategy": topic_record_subject_name_strategy,
}


def written(registry, strategy):
    """Return a value of each serializer of confluent-kafka, with its schema registered."""
    options = {"subject.name.strategy": strategy}
    order = '{"type": "record", "name": "shop.Order", "fields": []}'
    customer = '{"title": "Customer", "type": "object"}'
    # The last message of a file, so that its name is not that of the first.
    messages = ProtobufSerializer(ListValue, registry, {**options, "use.deprecated.format": False})
    serializers = [
        (AvroSerializer(registry, order, conf=options), {}),
        (JSONSerializer(customer, registry, conf=options), {}),
        (messages, ListValue()),
    ]
    context = SerializationContext("t", MessageField.VALUE)
    return [serialize(value, context) for serialize, value in serializers]


@pytest.mark.parametrize("name", STRATEGIES)
def test_values_of_confluents_serializers_are_accepted_under_their_subject_name_strategy_only(name):
    with EmbeddedBroker(schema_registry=True) as broker:
        with SchemaRegistryClient({"url": broker.schema_registry_url}) as registry:
            registry.set_compatibility(level="NONE")
            values = written(registry, STRATEGIES[name])
        for strategy in STRATEGIES:
            classes = "io.confluent.kafka.serializers.subject"
            broker.create_topic(
                "t", configs={**VALIDATION, "confluent.value.subject.name.strategy": f"{classes}.{strategy}"}
            )
            expected = None if strategy == name else KafkaError.INVALID_RECORD
            assert errors_of(broker.bootstrap_servers, *values) == [expected] * len(values)
            broker.delete_topic("t")
