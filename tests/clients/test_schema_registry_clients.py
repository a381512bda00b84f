"""confluent-kafka's serializers, unmodified, with the schema registry of a broker: Avro, JSON Schema, Protobuf."""

import http.client
import json

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from pipeline_broker import EmbeddedBroker

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}, {"name": "count", "type": ["null", "int"], "default": None}],
    }
)
CUSTOMER = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Customer",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
)


@pytest.fixture(scope="module")
def embedded_broker():
    with EmbeddedBroker(schema_registry=True) as started:
        yield started


@pytest.fixture
def topic(new_name):
    return new_name()


@pytest.fixture
def registry(embedded_broker):
    with SchemaRegistryClient({"url": embedded_broker.schema_registry_url}) as client:
        yield client


def sent_and_received(broker, topic, serialize, deserialize, content):
    """A value on its way through the broker: what was stored, and what a consumer makes of it."""
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, serialize(content, context))
    producer.flush()
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value(), deserialize(message.value(), context)
    finally:
        consumer.close()


def test_avro(embedded_broker, topic, registry):
    order = {"id": "a-1", "count": 3}
    stored, received = sent_and_received(
        embedded_broker, topic, AvroSerializer(registry, ORDER), AvroDeserializer(registry), order
    )

    latest = registry.get_latest_version(f"{topic}-value")
    assert received == order
    assert stored[:5] == b"\0" + latest.schema_id.to_bytes(4)
    assert (latest.version, json.loads(latest.schema.schema_str)) == (1, json.loads(ORDER))


def test_json_schema(embedded_broker, topic, registry):
    customer = {"name": "Ada", "age": 36}
    serialize, deserialize = JSONSerializer(CUSTOMER, registry), JSONDeserializer(CUSTOMER)
    stored, received = sent_and_received(embedded_broker, topic, serialize, deserialize, customer)

    assert received == customer
    assert json.loads(stored[5:]) == customer
    assert registry.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"


def made_classes():
    """The classes of messages that a compiler would make: a bill, nested in a shop, with money of another file."""
    money = descriptor_pb2.FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop/shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/money.proto", "google/protobuf/timestamp.proto"],
    )
    shop.message_type.add(name="First")
    outer = shop.message_type.add(name="Shop")
    bill = outer.nested_type.add(name="Bill")
    bill.field.add(name="total", number=1, type=11, type_name=".shop.Money", label=1)
    bill.field.add(name="at", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (money, shop):
        pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("shop.Money", "shop.Shop.Bill")
    ]


def test_protobuf_with_a_schema_that_imports_others(embedded_broker, topic, registry):
    """The serializer registers what is imported first; the types that come with Protobuf are known."""
    money_class, bill_class = made_classes()
    bill = bill_class(total=money_class(cents=5))
    bill.at.seconds = 7
    strategy = {"reference.subject.name.strategy": lambda _, reference: f"{topic}-{reference.name}"}
    serialize = ProtobufSerializer(bill_class, registry, strategy)
    stored, received = sent_and_received(
        embedded_broker, topic, serialize, ProtobufDeserializer(bill_class, None, registry), bill
    )

    assert received == bill
    assert stored[5:8] == b"\x04\x02\x00", "the first message within the second of its file"
    latest = registry.get_latest_version(f"{topic}-value").schema
    assert latest.schema_type == "PROTOBUF"
    assert "message Bill {" in latest.schema_str
    assert [reference.name for reference in latest.references] == ["shop/money.proto"]


def test_protobuf_is_read_again_from_the_source_that_is_kept(topic, registry):
    money_class, _ = made_classes()
    context = SerializationContext(topic, MessageField.VALUE)
    written = ProtobufSerializer(money_class, registry)(money_class(cents=9), context)
    for name in (f"{topic}-value", f"{topic}-2-value"):
        kept = registry.get_latest_version(f"{topic}-value").schema
        registry.register_schema(name, Schema(kept.schema_str, "PROTOBUF"))
    with SchemaRegistryClient({"url": registry._rest_client.base_urls[0]}) as fresh:
        assert ProtobufDeserializer(money_class, None, fresh)(written, context).cents == 9


def test_a_client_uses_the_latest_schema_and_registers_none(topic, registry):
    registry.register_schema(f"{topic}-value", Schema(ORDER, "AVRO"))
    settings = {"auto.register.schemas": False, "use.latest.version": True}
    serialize = AvroSerializer(registry, None, conf=settings)
    assert serialize({"id": "b", "count": None}, SerializationContext(topic, MessageField.VALUE))[5:] == b"\x02b\x00"


def test_a_schema_that_is_not_compatible_is_an_error_for_the_producer(topic, registry):
    registry.register_schema(f"{topic}-value", Schema(ORDER, "AVRO"))
    other = json.dumps({**json.loads(ORDER), "fields": [{"name": "price", "type": "double"}]})
    serialize = AvroSerializer(registry, other)

    with pytest.raises(SchemaRegistryError) as refused:
        serialize({"price": 1.0}, SerializationContext(topic, MessageField.VALUE))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    assert registry.test_compatibility(f"{topic}-value", Schema(other, "AVRO")) is False
    assert registry.test_compatibility(f"{topic}-value", Schema(ORDER, "AVRO")) is True


def test_avro_with_references(embedded_broker, topic, registry):
    money = '{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
    bill = '{"type":"record","name":"Bill","namespace":"shop","fields":[{"name":"total","type":"shop.Money"}]}'
    registry.register_schema(f"{topic}-money", Schema(money, "AVRO"))
    reference = SchemaReference("shop.Money", f"{topic}-money", 1)
    schema = Schema(bill, "AVRO", [reference])
    content = {"total": {"cents": 5}}

    assert (
        sent_and_received(
            embedded_broker, topic, AvroSerializer(registry, schema), AvroDeserializer(registry), content
        )[1]
        == content
    )
    assert registry.get_referenced_by(f"{topic}-money", 1) == [registry.get_latest_version(f"{topic}-value").schema_id]


def test_the_client_of_the_registry_finds_what_it_asks_for(topic, registry):
    subject = f"{topic}/with a slash"
    schema_id = registry.register_schema(subject, Schema(ORDER, "AVRO"))

    assert subject in registry.get_subjects()
    assert registry.lookup_schema(subject, Schema(ORDER, "AVRO")).version == 1
    assert registry.get_version(subject, 1).schema_id == schema_id
    assert registry.set_compatibility(subject, "FORWARD") == {"compatibility": "FORWARD"}
    assert registry.get_compatibility(subject) == "FORWARD"
    assert registry.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert registry.get_contexts() == ["."]
    assert registry.get_mode(subject) if registry.update_mode(subject, "READONLY") else None
    assert registry.delete_mode(subject) == "READONLY"
    assert registry.delete_subject(subject) == [1]
    assert registry.delete_subject(subject, permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as refused:
        registry.get_versions(subject)
    assert refused.value.error_code == 40401


def test_the_dashboard_shows_what_was_written_with_a_schema(broker_process):
    broker = broker_process(arguments=["--schema-registry", "0", "--dashboard", "0"])
    lines = dict(line.split(" on http://", 1) for line in broker.stderr.splitlines() if " on http://" in line)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    file = descriptor_pb2.FileDescriptorProto(name="x", package="p")
    with SchemaRegistryClient({"url": f"http://{lines['schema registry']}"}) as registry:
        for serialize, content in (
            (
                AvroSerializer(registry, ORDER, conf={"subject.name.strategy": lambda *_: "avro"}),
                {"id": "a", "count": 1},
            ),
            (JSONSerializer(CUSTOMER, registry, conf={"subject.name.strategy": lambda *_: "json"}), {"name": "Ada"}),
            (
                ProtobufSerializer(
                    descriptor_pb2.FileDescriptorProto, registry, conf={"subject.name.strategy": lambda *_: "protobuf"}
                ),
                file,
            ),
        ):
            producer.produce("orders", serialize(content, SerializationContext("orders", MessageField.VALUE)))
    producer.produce("orders", b"\0\0\0\1\1 no schema has this id")
    producer.produce("orders", b"\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
    producer.flush()

    dashboard = http.client.HTTPConnection(lines["dashboard"].rstrip("/"), timeout=30)
    dashboard.request("GET", "/api/topics/orders/records?from=earliest")
    shown = [record["value"] for record in json.loads(dashboard.getresponse().read())["records"]]
    dashboard.close()
    assert [json.loads(value["text"]) for value in shown[:3]] == [
        {"id": "a", "count": 1},
        {"name": "Ada"},
        {"name": "x", "package": "p"},
    ]
    assert [value["schema"] for value in shown[:3]] == [1, 2, 3]
    assert all("schema" not in value for value in shown[3:])
