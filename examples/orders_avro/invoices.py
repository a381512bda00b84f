"""A small service on FastStream that reads orders in Avro and writes an invoice in Avro for each."""

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from faststream.kafka import KafkaBroker

INVOICE = """{"type": "record", "name": "Invoice", "fields": [
    {"name": "customer", "type": "string"}, {"name": "total", "type": "long"}
]}"""


def application(bootstrap_servers, registry_url, orders="orders", invoices="invoices"):
    """Return the service, which runs once it is started."""
    registry = SchemaRegistryClient({"url": registry_url})
    read, write = AvroDeserializer(registry), AvroSerializer(registry, INVOICE)
    broker = KafkaBroker(bootstrap_servers)

    async def decode(message):
        return read(message.body, SerializationContext(orders, MessageField.VALUE))

    @broker.subscriber(orders, group_id="invoices", auto_offset_reset="earliest", decoder=decode)
    @broker.publisher(invoices)
    async def bill(order: dict) -> bytes:
        invoice = {"customer": order["customer"], "total": order["count"] * order["price"]}
        return write(invoice, SerializationContext(invoices, MessageField.VALUE))

    return broker
