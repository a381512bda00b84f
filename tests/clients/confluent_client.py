"""confluent-kafka, that is librdkafka."""

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.clients.client import POLL_SECONDS, WAIT_SECONDS_MAX, Message


class ConfluentProducer:
    def __init__(self, topic, settings):
        self.topic = topic
        self.producer = confluent_kafka.Producer(settings)
        self.reports = {}
        self.sent = 0

    def send(self, message):
        number, self.sent = self.sent, self.sent + 1

        def report(error, delivered):
            self.reports[number] = error or delivered.offset()

        stamp = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
        self.producer.produce(
            self.topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=report,
            headers=list(message.headers),
            **stamp,
        )

    def flush(self):
        left = self.producer.flush(WAIT_SECONDS_MAX)
        assert left == 0, f"{left} messages without a report"
        reports, self.reports = self.reports, {}
        for report in reports.values():
            if isinstance(report, confluent_kafka.KafkaError):
                raise confluent_kafka.KafkaException(report)
        return [reports[number] for number in sorted(reports)]

    def close(self):
        self.producer.purge()
        self.producer.flush(1)


class ConfluentConsumer:
    def __init__(self, topic, group, settings):
        self.topic = topic
        self.consumer = confluent_kafka.Consumer({"group.id": group or "none", **settings})
        if group is None:
            self.consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        else:
            self.consumer.subscribe([topic])

    def poll(self):
        messages = []
        for found in self.consumer.consume(500, POLL_SECONDS):
            error = found.error()
            if error is None:
                messages.append(as_message(found))
            elif not error.retriable():
                raise confluent_kafka.KafkaException(error)
        return messages

    def assignment(self):
        return {part.partition for part in self.consumer.assignment()}

    def commit(self):
        self.consumer.commit(asynchronous=False)

    def seek_to_time(self, timestamp_ms):
        wanted = confluent_kafka.TopicPartition(self.topic, 0, timestamp_ms)
        (found,) = self.consumer.offsets_for_times([wanted], WAIT_SECONDS_MAX)
        self.consumer.assign([found])

    def close(self):
        self.consumer.close()


def as_message(found):
    _, timestamp_ms = found.timestamp()
    headers = tuple(found.headers() or ())
    return Message(found.value(), found.key(), headers, timestamp_ms, found.partition(), found.offset())


class ConfluentClient:
    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    null_headers = True

    def __init__(self, bootstrap):
        self.common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        self.admin = AdminClient(self.common)

    def producer(self, topic, *, codec="none", idempotent=False):
        settings = {"compression.type": codec, "enable.idempotence": idempotent}
        return ConfluentProducer(topic, {**self.common, **settings})

    def consumer(self, topic, *, group=None):
        settings = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
        return ConfluentConsumer(topic, group, {**self.common, **settings})

    def poll_together(self, consumers):
        return [message for consumer in consumers for message in consumer.poll()]

    def create_topic(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_SECONDS_MAX)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])[topic].result(WAIT_SECONDS_MAX)

    def grow_topic(self, topic, partitions):
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_SECONDS_MAX)

    def delete_records(self, topic, offset):
        (deleted,) = self.admin.delete_records([confluent_kafka.TopicPartition(topic, 0, offset)]).values()
        return deleted.result(WAIT_SECONDS_MAX).low_watermark

    def partition_counts(self):
        topics = self.admin.list_topics(timeout=WAIT_SECONDS_MAX).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def close(self):
        """Nothing is kept open that its own end does not close."""
