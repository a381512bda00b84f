"""A share group of one member from its first heartbeat to its end: what it acquires, acknowledges and leaves behind."""

from __future__ import annotations

import base64
import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.produce import ProduceRequest
from pipeline_broker.wire.messages.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from pipeline_broker.wire.messages.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import Ask, ask, topic_id

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
MEMBER = "share-member-0001"
ASSIGNED_SECONDS_MAX = 30.0
SHARE = 2
PAUSE_SECONDS = 0.1
"""Between two heartbeats: Kafka initializes the state of a partition in its own time."""


class Life:
    """A topic of one partition, a group, a member with its session."""

    def __init__(self, sides: Any, number: int) -> None:
        self.sides = sides
        self.name = f"share-life-{number}"
        self.found: list[str] = []
        self.epoch = 0

    def tell(self, api: ApiKey, step: Ask) -> None:
        self.found += compare(self.sides, api, step)

    def begin(self, record_counts: list[int]) -> None:
        wanted = CreateTopicsRequest.CreatableTopic(self.name, 1, 1)
        self.tell(ApiKey.CREATE_TOPICS, ask(7, CreateTopicsRequest([wanted], 20_000), changes_topics=True))
        for side in self.sides.all:
            becomes_assigned(side, self.name)
        for count in record_counts:
            records = [NewRecord(b"%d" % index, None, 1_000_000) for index in range(count)]
            partition = ProduceRequest.PartitionProduceData(0, build_batch(records))
            topic = ProduceRequest.TopicProduceData(self.name, partition_data=[partition])
            self.tell(ApiKey.PRODUCE, ask(9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])))

    def fetch(self, *, records_max: int, mode: int, batches: Any = (), wait_ms: int = 300) -> None:
        epoch = self.epoch
        self.epoch += 1

        def build(side: Any) -> ShareFetchRequest:
            said = [ShareFetchRequest.AcknowledgementBatch(*batch) for batch in batches]
            partition = ShareFetchRequest.FetchPartition(0, acknowledgement_batches=said)
            return ShareFetchRequest(
                group_id=self.name,
                member_id=MEMBER,
                share_session_epoch=epoch,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=records_max,
                batch_size=100,
                share_acquire_mode=mode,
                topics=[ShareFetchRequest.FetchTopic(topic_id(side, self.name), [partition])],
            )

        self.tell(ApiKey.SHARE_FETCH, Ask(2, build, text=f"fetch {epoch} {records_max} {mode} {batches}"))

    def acknowledge(self, batches: Any, *, is_renewal: bool = False, is_final: bool = False) -> None:
        epoch = -1 if is_final else self.epoch
        self.epoch += 1

        def build(side: Any) -> ShareAcknowledgeRequest:
            said = [ShareAcknowledgeRequest.AcknowledgementBatch(*batch) for batch in batches]
            partition = ShareAcknowledgeRequest.AcknowledgePartition(0, said)
            topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id(side, self.name), [partition])
            return ShareAcknowledgeRequest(self.name, MEMBER, epoch, is_renewal, [topic])

        self.tell(ApiKey.SHARE_ACKNOWLEDGE, Ask(2, build, text=f"acknowledge {batches}"))

    def look(self) -> None:
        """What the share coordinator keeps, and what administrators see of it."""

        def build(side: Any) -> ReadShareGroupStateRequest:
            partition = ReadShareGroupStateRequest.PartitionData(0, 0)
            topic = ReadShareGroupStateRequest.ReadStateData(topic_id(side, self.name), [partition])
            return ReadShareGroupStateRequest(self.name, [topic])

        self.tell(ApiKey.READ_SHARE_GROUP_STATE, Ask(0, build, text="look"))
        group = DescribeShareGroupOffsetsRequest.Group(self.name, None)
        self.tell(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ask(1, DescribeShareGroupOffsetsRequest([group])))

    def end(self) -> None:
        leave = ShareGroupHeartbeatRequest(self.name, MEMBER, -1)
        self.tell(ApiKey.SHARE_GROUP_HEARTBEAT, ask(1, leave))
        self.tell(ApiKey.LIST_GROUPS, ask(5, ListGroupsRequest(types_filter=["share"])))
        self.tell(ApiKey.DELETE_GROUPS, ask(2, DeleteGroupsRequest([self.name])))
        assert not self.found, "\n".join(self.found)


def becomes_assigned(side: Any, name: str) -> None:
    """Begin at the first record, join, and wait until there is something to read; epochs are each side's own."""
    deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
    first = AlterShareGroupOffsetsRequest.Topic(name, [AlterShareGroupOffsetsRequest.Partition(0, 0)])
    key = base64.urlsafe_b64encode(topic_id(side, name)).decode().rstrip("=")
    while side.ask(AlterShareGroupOffsetsRequest(name, [first]), 0)["error_code"]:
        assert time.monotonic() < deadline
        side.ask(FindCoordinatorRequest(coordinator_keys=[name]), 6)
        side.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[f"{name}:{key}:0"]), 6)
        time.sleep(PAUSE_SECONDS)
    epoch = 0
    while time.monotonic() < deadline:
        topics = [name] if epoch == 0 else None
        answer = side.ask(ShareGroupHeartbeatRequest(name, MEMBER, epoch, None, topics), 1)
        if answer["error_code"] == 0:
            epoch = answer["member_epoch"]
            if answer["assignment"] is not None and answer["assignment"]["topic_partitions"]:
                return
        time.sleep(PAUSE_SECONDS)
    raise AssertionError(f"{side.name} assigns nothing")


kinds = st.sampled_from([1, 1, 1, 2, 2, 3, 0])


@st.composite
def said(draw: st.DrawFn, end: int) -> list[tuple[int, int, list[int]]]:
    """One batch of acknowledgements, of one type or of one for each record, perhaps of what is not acquired."""
    first = draw(st.integers(0, end - 1))
    last = draw(st.integers(first, min(first + 5, end)))
    size = draw(st.sampled_from([1, last - first + 1]))
    return [(first, last, draw(st.lists(kinds, min_size=size, max_size=size)))]


@drawn(2)
@given(data=st.data())
def test_a_share_group_lives_and_dies_as_in_kafka(sides, data):
    """Fetches in both modes, with and without acknowledgements, good and bad ones; then the state, then the end."""
    life = Life(sides, next(numbers))
    counts = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    life.begin(counts)
    end = sum(counts)
    life.fetch(records_max=end, mode=0)
    for _ in range(4):
        batches = data.draw(said(end))
        if data.draw(st.booleans()):
            life.acknowledge(batches)
        else:
            records_max, mode = data.draw(st.integers(1, end)), data.draw(st.sampled_from([0, 1]))
            life.fetch(records_max=records_max, mode=mode, batches=batches, wait_ms=100)
    life.acknowledge([(0, 0, [4])], is_renewal=True)
    life.acknowledge([(end, end + 3, [1])])
    life.look()
    life.acknowledge([], is_final=True)
    life.end()
