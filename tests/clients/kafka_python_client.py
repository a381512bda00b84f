"""kafka-python. Codecs beside gzip need packages that it does not bring.

It joins a group in the background while `poll` is called, and forgets that it has joined when that happens between two
polls (3.0.12): the member joins again, or sends no heartbeats and is expelled. So polls are long, and those of the
members of one group run at the same time, as those of two applications do.
"""

import gc
import warnings
from concurrent.futures import ThreadPoolExecutor

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importing it reads its resources in the way of old Pythons
    import kafka

from tests.clients.client import WAIT_SECONDS_MAX, Message

POLL_MS = 500
RETRIES_MS_MAX = int(WAIT_SECONDS_MAX * 1000)


class KafkaPythonProducer:
    def __init__(self, topic, settings):
        self.topic = topic
        self.producer = kafka.KafkaProducer(**settings)
        self.futures = []

    def send(self, message):
        self.futures.append(
            self.producer.send(
                self.topic,
                message.value,
                message.key,
                list(message.headers),
                message.partition,
                message.timestamp_ms,
            )
        )

    def flush(self):
        self.producer.flush(WAIT_SECONDS_MAX)
        futures, self.futures = self.futures, []
        return [future.get(WAIT_SECONDS_MAX).offset for future in futures]

    def close(self):
        self.producer.close(timeout=5)


class KafkaPythonConsumer:
    def __init__(self, topic, group, settings):
        self.partition = kafka.TopicPartition(topic, 0)
        self.consumer = kafka.KafkaConsumer(group_id=group, **settings)
        if group is None:
            self.consumer.assign([self.partition])
            self.consumer.seek_to_beginning()
        else:
            self.consumer.subscribe([topic])
            assert self.consumer.partitions_for_topic(topic)  # one who joins without knowing the topic joins again

    def poll(self):
        found = self.consumer.poll(POLL_MS)
        return [as_message(record) for records in found.values() for record in records]

    def assignment(self):
        return {part.partition for part in self.consumer.assignment()}

    def commit(self):
        self.consumer.commit()

    def seek_to_time(self, timestamp_ms):
        found = self.consumer.offsets_for_times({self.partition: timestamp_ms})[self.partition]
        self.consumer.seek(self.partition, found.offset)

    def close(self):
        self.consumer.close()


def as_message(record):
    headers = tuple(record.headers)
    return Message(record.value, record.key, headers, record.timestamp, record.partition, record.offset)


class KafkaPythonClient:
    name = "kafka-python"
    codecs = ("none", "gzip")
    null_headers = False

    def __init__(self, bootstrap):
        self.common = {"bootstrap_servers": bootstrap, "reconnect_backoff_max_ms": 200}
        self.admin = kafka.KafkaAdminClient(**self.common)

    def producer(self, topic, *, codec="none", idempotent=False):
        settings = {"compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
        return KafkaPythonProducer(topic, {**self.common, **settings, "delivery_timeout_ms": RETRIES_MS_MAX})

    def consumer(self, topic, *, group=None):
        settings = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 200,
        }
        return KafkaPythonConsumer(topic, group, {**self.common, **settings})

    def poll_together(self, consumers):
        with ThreadPoolExecutor(len(consumers)) as pool:
            return [message for messages in pool.map(KafkaPythonConsumer.poll, consumers) for message in messages]

    def create_topic(self, topic, partitions):
        self.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])

    def grow_topic(self, topic, partitions):
        self.admin.create_partitions({topic: partitions})

    def delete_records(self, topic, offset):
        (deleted,) = self.admin.delete_records({kafka.TopicPartition(topic, 0): offset}).values()
        return deleted["low_watermark"]

    def partition_counts(self):
        topics = self.admin.describe_topics(self.admin.list_topics())
        return {topic["name"]: len(topic["partitions"]) for topic in topics}

    def close(self):
        """Closes what it leaves open, too: the sockets of connections that were refused."""
        self.admin.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
