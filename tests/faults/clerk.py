"""Clients beside the producers: one that reads along, one that creates and deletes, takes ids and commits offsets.

Rules of this file: as in `producers.py`; an intent is noted before its request is sent.
"""

from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.fetch import FetchRequest
from tests.faults.history import TopicFate
from tests.faults.producers import new_producer_id
from tests.faults.wire_client import describe_topics

PARTITIONS_DEFAULT = 4
TOPICS_MAX = 40
COMING = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
LONG_POLL_MS = 50
PARTITION_BYTES_MAX = 200_000


def create_by_asking(client, history, name):
    """Let Metadata create a topic; the client asks again until it is led."""
    fate = history.topics[name] = TopicFate(PARTITIONS_DEFAULT)
    while True:
        topic = describe_topics(client, [name], create=True)[name]
        if topic.error_code == ErrorCode.NONE:
            break
        assert topic.error_code in COMING, f"topic {name} got error {topic.error_code}"
    fate.topic_id, fate.created = topic.topic_id, True
    return topic.topic_id


class Reader:
    """Reads along with long polls; what it has seen must never go away."""

    kind = "reader"

    def __init__(self, history, topic_ids, partitions):
        self.history = history
        self.topic_ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._next = dict.fromkeys(partitions, 0)
        for partition in partitions:
            history.seen[partition] = {}

    def drive(self, client, stopping):
        while not stopping.is_set():
            response = client.ask(self._request())
            assert response.error_code == 0, f"Fetch got error {response.error_code}"
            for topic in response.responses:
                for data in topic.partitions:
                    self._take((self._names[topic.topic_id], data.partition_index), data)

    def _request(self):
        topics = {}
        for (name, index), offset in self._next.items():
            wanted = FetchRequest.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX
            )
            topics.setdefault(name, []).append(wanted)
        return FetchRequest(
            max_wait_ms=LONG_POLL_MS,
            min_bytes=1,
            topics=[
                FetchRequest.FetchTopic(topic_id=self.topic_ids[name], partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _take(self, partition, data):
        assert data.error_code == 0, f"{partition}: Fetch from {self._next[partition]} got error {data.error_code}"
        seen = self.history.seen[partition]
        for header, batch in iterate_batches(data.records or b""):
            for record in iterate_records(batch, header):
                if record.offset >= self._next[partition]:
                    seen[record.offset] = record.value
                    self._next[partition] = record.offset + 1


class Clerk:
    """Creates topics and takes producer ids."""

    kind = "clerk"

    def __init__(self, history, random):
        self.history = history
        self.random = random

    def drive(self, client, stopping):
        while not stopping.is_set():
            self.random.choice((self._create, self._take_id))(client)

    def _create(self, client):
        if len(self.history.topics) < TOPICS_MAX:
            create_by_asking(client, self.history, f"made-{len(self.history.topics)}")

    def _take_id(self, client):
        new_producer_id(client, self.history)
