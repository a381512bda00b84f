"""Clients beside the producers: one that reads along, one that creates and deletes, takes ids and commits offsets.

Rules of this file: as in `producers.py`; an intent is noted before its request is sent.
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from tests.crashes.history import Register, TopicFate
from tests.crashes.producers import new_producer_id
from tests.crashes.wire_client import describe_topics

PARTITIONS_DEFAULT = 4
TOPICS_MAX = 60
TOPICS_KEPT_SHARE = 0.3
GROUPS = ("one", "two", "three")
MESSAGE_BYTES = "max.message.bytes"
TOPIC_RESOURCE = 2
ALTER_SET = 0
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
    """Creates, alters and deletes topics, takes producer ids, and commits offsets."""

    kind = "clerk"

    def __init__(self, history, random, topic_ids):
        self.history = history
        self.random = random
        self.topic_ids = topic_ids

    def drive(self, client, stopping):
        works = (self._create, self._create_by_asking, self._alter, self._delete, self._take_id, *[self._commit] * 4)
        while not stopping.is_set():
            self.random.choice(works)(client)

    def _create(self, client):
        if len(self.history.topics) >= TOPICS_MAX:
            return
        name, partitions = f"made-{len(self.history.topics)}", self.random.randint(1, 3)
        fate = self.history.topics[name] = TopicFate(partitions)
        fate.message_bytes_max.send(message_bytes_max := self._draw_bytes())
        config = CreateTopicsRequest.CreatableTopicConfig(MESSAGE_BYTES, message_bytes_max)
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=[config])
        (result,) = client.ask(CreateTopicsRequest([topic], timeout_ms=10_000)).topics
        assert result.error_code == ErrorCode.NONE, f"creating {name} got error {result.error_code}"
        fate.topic_id, fate.created = result.topic_id, True
        fate.message_bytes_max.acknowledge()

    def _create_by_asking(self, client):
        if len(self.history.topics) < TOPICS_MAX:
            create_by_asking(client, self.history, f"made-{len(self.history.topics)}")

    def _draw_bytes(self):
        return str(self.random.randrange(10**6, 10**7))

    def _draw_made(self):
        made = {
            name: fate
            for name, fate in self.history.topics.items()
            if fate.created and not fate.deletion_sent and name not in self.topic_ids
        }
        return self.random.choice(list(made.items())) if made else (None, None)

    def _alter(self, client):
        name, fate = self._draw_made()
        if name is None:
            return
        fate.message_bytes_max.send(message_bytes_max := self._draw_bytes())
        config = IncrementalAlterConfigsRequest.AlterableConfig(MESSAGE_BYTES, ALTER_SET, message_bytes_max)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC_RESOURCE, name, [config])
        (result,) = client.ask(IncrementalAlterConfigsRequest([resource])).responses
        assert result.error_code == ErrorCode.NONE, f"altering {name} got error {result.error_code}"
        fate.message_bytes_max.acknowledge()

    def _delete(self, client):
        name, fate = self._draw_made()
        if name is None or self.random.random() < TOPICS_KEPT_SHARE:
            return
        fate.deletion_sent = True
        request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=10_000)
        (result,) = client.ask(request).responses
        assert result.error_code == ErrorCode.NONE, f"deleting {name} got error {result.error_code}"
        fate.deleted = True

    def _take_id(self, client):
        new_producer_id(client, self.history)

    def _commit(self, client):
        group, topic = self.random.choice(GROUPS), self.random.choice(list(self.topic_ids))
        register = self.history.commits.setdefault((group, topic, 0), Register(None))
        register.send(offset := self.random.randrange(2**40))
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, committed_metadata="")
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(topic_id=self.topic_ids[topic], partitions=[partition])
        request = OffsetCommitRequest(group, topics=[wanted])
        while (code := client.ask(request).topics[0].partitions[0].error_code) == ErrorCode.NOT_COORDINATOR:
            client.ask(FindCoordinatorRequest(coordinator_keys=[group]))
        assert code == ErrorCode.NONE, f"committing for {group} got error {code}"
        register.acknowledge()
