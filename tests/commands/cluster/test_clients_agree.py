"""The commands and unmodified clients read each other's records."""

import asyncio
import base64
import json

import aiokafka
import confluent_kafka
import pytest

KEYS = [b"", b"a", b"ab", b"abc", b"abcd", b"\xff\x00\x80", *(b"key-%d" % number for number in range(40))]
PARTITIONS = 7


def test_confluent_kafka_reads_our_records(call_mode, broker, name):
    lines = [
        {
            "key": "k",
            "value": "v",
            "headers": [{"name": "h", "value": "1"}, {"name": "h", "value": None}],
            "timestamp": 5,
        },
        {"key": None, "value": None, "timestamp": 6},
        {"value_base64": "/wA=", "timestamp": 7},
    ]
    call_mode("produce", name, "--json", "-p", 0, "-z", "lz4", data="\n".join(map(json.dumps, lines)).encode())
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    messages = consumer.consume(3, 10)
    consumer.close()
    assert [(it.key(), it.value(), it.headers(), it.timestamp()[1]) for it in messages] == [
        (b"k", b"v", [("h", b"1"), ("h", None)], 5),
        (None, None, None, 6),
        (None, b"\xff\x00", None, 7),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_we_read_records_of_confluent_kafka(call, one_broker, name, codec):
    producer = confluent_kafka.Producer({"bootstrap.servers": one_broker.bootstrap_servers, "compression.type": codec})
    for number in range(100):
        producer.produce(name, f"{number}" * 50, str(number), 0, headers=[("n", str(number))], timestamp=1000 + number)
    producer.flush(10)
    rows = [json.loads(line) for line in call("consume", name, "--json").lines]
    assert [(row["key"], row["value"], row["timestamp"]) for row in rows] == [
        (str(number), f"{number}" * 50, 1000 + number) for number in range(100)
    ]
    assert rows[3]["headers"] == [{"name": "n", "value": "3"}]


def partitions_of(call, topic):
    """Return the stored partition of each key."""
    rows = [json.loads(line) for line in call("consume", topic, "--json").lines]
    return {row.get("key", row.get("key_base64")): row["partition"] for row in rows}


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # by kafka-python, at import
def test_keys_land_where_other_clients_put_them(call, one_broker, name):
    """librdkafka with the partitioner of Java's clients, kafka-python and aiokafka with their defaults."""
    import kafka

    topics = [f"{name}-{number}" for number in range(4)]
    for topic in topics:
        one_broker.create_topic(topic, partitions=PARTITIONS)
    lines = b"".join(b'{"key_base64": "%s", "value": ""}\n' % base64.b64encode(key) for key in KEYS)
    call("produce", topics[0], "--json", data=lines)
    address = one_broker.bootstrap_servers
    confluent = confluent_kafka.Producer({"bootstrap.servers": address, "partitioner": "murmur2"})
    python = kafka.KafkaProducer(bootstrap_servers=address)
    for key in KEYS:
        if key:  # librdkafka takes an empty key for none
            confluent.produce(topics[1], b"", key)
        python.send(topics[2], b"", key)
    confluent.flush(10)
    python.close()

    async def write():
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address) as producer:
            for key in KEYS:
                await producer.send_and_wait(topics[3], b"", key)

    asyncio.run(write())
    ours, librdkafka, others, asynchronous = (partitions_of(call, topic) for topic in topics)
    assert len(set(ours.values())) == PARTITIONS
    assert {**librdkafka, "": ours[""]} == ours
    assert others == ours
    assert asynchronous == ours
