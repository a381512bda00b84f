"""What is left to read, to search and to count once records are deleted, as in Kafka."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import drawn
from tests.differential.data_requests import NOW_MS, Ask, ask, topic_id
from tests.differential.test_sequences import Story, fetched, remember_session

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
TIMES = range(6)
SPECIAL_TIMES = (-1, -2, -3, -4, -5, -6)
EPOCHS = (0, 1, -1, -5)
DELETED_BY_NAME_MAX = 5


class Life(Story):
    """One topic, whose partition 0 is written to."""

    def __init__(self, sides, draw):
        super().__init__(sides, draw)
        self.name = f"deleted-{next(numbers)}"
        self.session_epoch = 0
        self.fetch_version = draw(st.integers(7, 18))
        self.end_offset = 0

    def create(self, policy, partitions=1):
        self.end_offset = 0
        configs = [] if policy is None else [CreateTopicsRequest.CreatableTopicConfig("cleanup.policy", policy)]
        topic = CreateTopicsRequest.CreatableTopic(self.name, partitions, 1, configs=configs)
        created = CreateTopicsRequest([topic], 20_000)
        self.tell(ApiKey.CREATE_TOPICS, ask(self.version(ApiKey.CREATE_TOPICS), created, changes_topics=True))

    def grow(self, partitions):
        request = CreatePartitionsRequest(
            [CreatePartitionsRequest.CreatePartitionsTopic(self.name, partitions)], 20_000
        )
        self.tell(ApiKey.CREATE_PARTITIONS, ask(self.version(ApiKey.CREATE_PARTITIONS), request, changes_topics=True))

    def end_topic(self):
        deleted = DeleteTopicsRequest(topic_names=[self.name], timeout_ms=20_000)
        version = self.version(ApiKey.DELETE_TOPICS, DELETED_BY_NAME_MAX)
        self.tell(ApiKey.DELETE_TOPICS, ask(version, deleted, changes_topics=True))

    def produce(self, times):
        batch = build_batch([NewRecord(b"v", b"k", NOW_MS + at) for at in times])
        self.end_offset += len(times)
        name = self.name

        def build(side):
            data = ProduceRequest.PartitionProduceData(0, batch)
            topic = ProduceRequest.TopicProduceData(name, topic_id(side, name), [data])
            return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])

        self.tell(ApiKey.PRODUCE, Ask(self.version(ApiKey.PRODUCE), build, text=f"times {times}"))

    def delete(self, offset, partition=0):
        wanted = [DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)]
        request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(self.name, wanted)], 20_000)
        self.tell(ApiKey.DELETE_RECORDS, ask(self.version(ApiKey.DELETE_RECORDS), request))

    def fetch(self, offset):
        step = fetched(self.name, self.fetch_version, self.session_epoch, offset, [0])
        self.tell(ApiKey.FETCH, step, None if self.session_epoch else remember_session)
        self.session_epoch += 1

    def list_offsets(self, times):
        for at in times:
            wanted = [ListOffsetsRequest.ListOffsetsPartition(0, -1, at)]
            request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(self.name, wanted)])
            self.tell(ApiKey.LIST_OFFSETS, ask(self.version(ApiKey.LIST_OFFSETS), request))

    def look(self):
        self.list_offsets([*SPECIAL_TIMES, *(NOW_MS + at for at in (*TIMES, len(TIMES)))])
        asked = OffsetForLeaderEpochRequest
        epochs = [asked.OffsetForLeaderPartition(0, -1, epoch) for epoch in EPOCHS]
        request = asked(topics=[asked.OffsetForLeaderTopic(self.name, epochs)])
        self.tell(ApiKey.OFFSET_FOR_LEADER_EPOCH, ask(self.version(ApiKey.OFFSET_FOR_LEADER_EPOCH), request))
        wanted = DescribeLogDirsRequest([DescribeLogDirsRequest.DescribableLogDirTopic(self.name, [0, 1])])
        self.tell(ApiKey.DESCRIBE_LOG_DIRS, ask(self.version(ApiKey.DESCRIBE_LOG_DIRS), wanted))


@drawn(4)
@given(data=st.data())
def test_what_is_left_of_a_topic_is_found_as_in_kafka(sides, data):
    """Batches with records of any times, deletions anywhere among them, and looks at all that can be asked."""
    life = Life(sides, data.draw)
    life.create(None)
    life.fetch(0)
    for _ in range(3):
        for times in data.draw(st.lists(st.lists(st.sampled_from(TIMES), min_size=1, max_size=3), max_size=3)):
            life.produce(times)
        life.delete(data.draw(st.sampled_from([-1, -2, *range(life.end_offset + 2)])))
        life.fetch(data.draw(st.integers(0, life.end_offset + 1)))
        life.look()
    life.end()


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
@drawn()
@given(data=st.data())
def test_what_may_be_deleted_depends_on_the_policy_as_in_kafka(sides, policy, data):
    life = Life(sides, data.draw)
    life.create(policy)
    life.produce([0])
    life.delete(data.draw(st.sampled_from([-1, 0, 1, 2])))
    life.look()
    life.end()


@drawn()
@given(data=st.data())
def test_a_topic_of_the_same_name_begins_at_0_as_in_kafka(sides, data):
    """Also for the fetch session that knew the one before, and with partitions that came later."""
    life = Life(sides, data.draw)
    life.create(None)
    life.produce([0, 1])
    life.fetch(0)
    life.delete(1)
    life.grow(2)
    life.delete(0, partition=1)
    life.end_topic()
    life.delete(1)
    life.fetch(1)
    life.create(None)
    life.look()
    life.produce([3])
    life.fetch(0)
    life.delete(-1, partition=1)
    life.look()
    life.end()
