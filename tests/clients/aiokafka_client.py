"""aiokafka, on an event loop that runs while a scenario waits for it."""

import asyncio

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete

from tests.clients.client import POLL_SECONDS, WAIT_SECONDS_MAX, Message


class AioKafkaProducer:
    def __init__(self, topic, wait_for, settings):
        self.topic = topic
        self.wait_for = wait_for
        self.producer = wait_for(started(aiokafka.AIOKafkaProducer, **settings))
        self.futures = []

    def send(self, message):
        self.futures.append(
            self.wait_for(
                self.producer.send(
                    self.topic,
                    message.value,
                    message.key,
                    message.partition,
                    message.timestamp_ms,
                    list(message.headers),
                )
            )
        )

    def flush(self):
        futures, self.futures = self.futures, []
        return [found.offset for found in self.wait_for(gathered(futures))]

    def close(self):
        self.wait_for(self.producer.stop())


class AioKafkaConsumer:
    def __init__(self, topic, group, wait_for, settings):
        self.partition = aiokafka.TopicPartition(topic, 0)
        self.wait_for = wait_for
        topics = () if group is None else (topic,)
        self.consumer = wait_for(started(aiokafka.AIOKafkaConsumer, *topics, group_id=group, **settings))
        if group is None:
            wait_for(self._assign())

    async def _assign(self):
        """It wants a running loop, although it waits for nothing."""
        self.consumer.assign([self.partition])
        self.consumer.seek(self.partition, 0)

    def poll(self):
        found = self.wait_for(self.consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000)))
        return [as_message(record) for records in found.values() for record in records]

    def assignment(self):
        return {part.partition for part in self.consumer.assignment()}

    def commit(self):
        self.wait_for(self.consumer.commit())

    def seek_to_time(self, timestamp_ms):
        found = self.wait_for(self.consumer.offsets_for_times({self.partition: timestamp_ms}))
        self.consumer.seek(self.partition, found[self.partition].offset)

    def close(self):
        self.wait_for(self.consumer.stop())


async def started(kind, *arguments, **settings):
    """It must be made where a loop runs."""
    client = kind(*arguments, **settings)
    await client.start()
    return client


async def gathered(futures):
    return await asyncio.gather(*futures)


def as_message(record):
    return Message(record.value, record.key, record.headers, record.timestamp, record.partition, record.offset)


class AioKafkaClient:
    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    null_headers = True

    def __init__(self, bootstrap):
        self.runner = asyncio.Runner()
        self.bootstrap = bootstrap
        self.admin = self.wait_for(started(AIOKafkaAdminClient, bootstrap_servers=bootstrap))

    def wait_for(self, waiting):
        async def bounded():
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                return await waiting

        return self.runner.run(bounded())

    def producer(self, topic, *, codec="none", idempotent=False):
        settings = {"compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
        return AioKafkaProducer(topic, self.wait_for, {"bootstrap_servers": self.bootstrap, **settings})

    def consumer(self, topic, *, group=None):
        settings = {
            "bootstrap_servers": self.bootstrap,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 200,
        }
        return AioKafkaConsumer(topic, group, self.wait_for, settings)

    def poll_together(self, consumers):
        return [message for consumer in consumers for message in consumer.poll()]

    def create_topic(self, topic, partitions):
        response = self.wait_for(self.admin.create_topics([NewTopic(topic, partitions, 1)]))
        assert [error for _, error, *_ in response.topic_errors] == [0]

    def delete_topic(self, topic):
        response = self.wait_for(self.admin.delete_topics([topic]))
        assert [error for _, error, *_ in response.topic_error_codes] == [0]

    def grow_topic(self, topic, partitions):
        response = self.wait_for(self.admin.create_partitions({topic: NewPartitions(partitions)}))
        assert [error for _, error, *_ in response.results] == [0]

    def delete_records(self, topic, offset):
        (start,) = self.wait_for(
            self.admin.delete_records({aiokafka.TopicPartition(topic, 0): RecordsToDelete(offset)})
        ).values()
        return start

    def partition_counts(self):
        topics = self.wait_for(self.admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in topics}

    def close(self):
        self.wait_for(self.admin.close())
        self.runner.close()
