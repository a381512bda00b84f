"""Tests of a FastStream application with the fixtures of pipeline-broker."""

import asyncio

from faststream.kafka import KafkaBroker, KafkaRouter

router = KafkaRouter()


@router.subscriber("-orders", group_id="billing", auto_offset_reset="earliest")
@router.publisher("-invoices")
async def bill(order: dict) -> dict:
    return {"customer": order["customer"], "total": order["count"] * order["price"]}


def test_an_order_becomes_one_invoice(kafka_broker, kafka_topic, kafka_faults):
    orders, invoices = f"{kafka_topic}-orders", f"{kafka_topic}-invoices"
    kafka_broker.create_topic(invoices)
    fault = kafka_faults.when("Produce", topic=invoices, nth=1).error("NOT_LEADER_OR_FOLLOWER")
    kafka_broker.produce(orders, '{"customer": "ada", "count": 3, "price": 5}')

    async def run():
        application = KafkaBroker(kafka_broker.bootstrap_servers)
        application.include_router(router, prefix=kafka_topic)
        async with application:
            await application.start()
            await kafka_broker.wait_records_async(invoices)

    asyncio.run(run())
    assert [record.value for record in kafka_broker.records(invoices)] == [b'{"customer":"ada","total":15}']
    assert kafka_broker.offsets("billing")[orders, 0] == 1
    assert fault.hits == 1
