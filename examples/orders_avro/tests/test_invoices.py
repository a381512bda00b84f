import asyncio
import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from invoices import application

FIELDS = [{"name": "customer", "type": "string"}, {"name": "count", "type": "int"}, {"name": "price", "type": "int"}]
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def schema(*fields):
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@pytest.fixture
def registry(kafka_schema_registry):
    with SchemaRegistryClient({"url": kafka_schema_registry}) as client:
        yield client


@pytest.fixture
def topics(kafka_topics):
    return kafka_topics("orders", "invoices")


def produce(broker, registry, topic, text, order):
    write = AvroSerializer(registry, text)
    broker.produce(topic, write(order, SerializationContext(topic, MessageField.VALUE)))


def invoices_of(broker, url, registry, topics, count):
    """Run the service until it has written `count` invoices, and return them."""
    orders, invoices = topics

    async def run():
        async with application(broker.bootstrap_servers, url, orders, invoices) as service:
            await service.start()
            return await broker.wait_records_async(invoices, count)

    read = AvroDeserializer(registry)
    context = SerializationContext(invoices, MessageField.VALUE)
    return [read(record.value, context) for record in asyncio.run(run())]


def test_an_order_becomes_an_invoice(kafka_broker, kafka_schema_registry, registry, topics):
    produce(kafka_broker, registry, topics[0], schema(*FIELDS), {"customer": "ada", "count": 3, "price": 5})

    found = invoices_of(kafka_broker, kafka_schema_registry, registry, topics, 1)
    assert found == [{"customer": "ada", "total": 15}]


def test_an_order_with_a_newer_schema_is_read(kafka_broker, kafka_schema_registry, registry, topics):
    order = {"customer": "ada", "count": 3, "price": 5}
    produce(kafka_broker, registry, topics[0], schema(*FIELDS), order)
    produce(kafka_broker, registry, topics[0], schema(*FIELDS, NOTE), {**order, "count": 4, "note": "soon"})

    found = invoices_of(kafka_broker, kafka_schema_registry, registry, topics, 2)
    assert [invoice["total"] for invoice in found] == [15, 20]


def test_an_incompatible_schema_is_refused(registry, topics):
    subject = f"{topics[0]}-value"
    registry.register_schema(subject, Schema(schema(*FIELDS), "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        registry.register_schema(subject, Schema(schema(*FIELDS, {"name": "note", "type": "string"}), "AVRO"))
    assert refused.value.error_code == 40901
    registry.set_compatibility(subject, "FULL")
    assert registry.test_compatibility(subject, Schema(schema(*FIELDS[:2]), "AVRO")) is False
