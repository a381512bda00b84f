"""A share group of one member from its first heartbeat to its end: what it acquires, acknowledges and leaves behind."""

from __future__ import annotations

import base64
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.admin_requests import GROUP
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import Ask, ask, topic_id

Batches = Sequence[tuple[int, int, list[int]]]
pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
MEMBER = "share-member-0001"
ASSIGNED_SECONDS_MAX = 30.0
SHARE = 2
STEPS = 10 if "EXAMPLES" in os.environ else 4
RELEASE = 2
DELIVERIES_MAX = 5
FIRST_WAIT_MS = 10_000
"""Of the first fetch, which Kafka answers when it has read the state of the partition, and not before."""
PAUSE_SECONDS = 0.1
"""Between two heartbeats: Kafka initializes the state of a partition in its own time."""


class Life:
    """A topic of one partition, a group, a member with its session.

    Attributes:
        undone: the offsets that were acquired and are not done with, as Kafka has told, and how often they were.
        acquired_to: the offset behind the last that was acquired.
    """

    def __init__(self, sides: Any, number: int) -> None:
        self.sides = sides
        self.name = f"share-life-{number}"
        self.found: list[str] = []
        self.epoch = 0
        self.undone: dict[int, int] = {}
        self.acquired_to = 0

    def tell(self, api: ApiKey, step: Ask, remember: Any = None) -> None:
        self.found += compare(self.sides, api, step, remember)

    def sensible(self, batches: Batches) -> Batches:
        """Acknowledgements over the start of a window in which nothing is: Kafka stumbles, and answers -1 to all."""
        if self.undone:
            return batches
        return [batch for batch in batches if not batch[0] < self.acquired_to <= batch[1]]

    def said(self, batches: Batches) -> None:
        """They were accepted."""
        for first, last, types in batches:
            for offset in range(first, last + 1):
                kind = types[0 if len(types) == 1 else offset - first]
                if kind != RELEASE or self.undone.get(offset) == DELIVERIES_MAX:
                    self.undone.pop(offset, None)

    def acquired(self, listed: Any) -> None:
        for each in listed:
            offsets = range(each["first_offset"], each["last_offset"] + 1)
            self.undone.update(dict.fromkeys(offsets, each["delivery_count"]))
            self.acquired_to = max(self.acquired_to, offsets.stop)

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

    def fetch(
        self, *, records_max: int, mode: int, batch_size: int = 100, batches: Batches = (), wait_ms: int = 300
    ) -> None:
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
                batch_size=batch_size,
                share_acquire_mode=mode,
                topics=[ShareFetchRequest.FetchTopic(topic_id(side, self.name), [partition])],
            )

        def remember(side: Any, answer: Any) -> None:
            if side is self.sides.kafka:
                for partition in (it for topic in answer["responses"] for it in topic["partitions"]):
                    if not partition["acknowledge_error_code"]:
                        self.said(batches)
                    self.acquired(partition["acquired_records"])

        text = f"fetch {epoch} {records_max} {mode} {batch_size} {batches}"
        self.tell(ApiKey.SHARE_FETCH, Ask(2, build, text=text), remember)

    def acknowledge(self, batches: Batches, *, is_renewal: bool = False, is_final: bool = False) -> None:
        epoch = -1 if is_final else self.epoch
        self.epoch += 1

        def build(side: Any) -> ShareAcknowledgeRequest:
            said = [ShareAcknowledgeRequest.AcknowledgementBatch(*batch) for batch in batches]
            partition = ShareAcknowledgeRequest.AcknowledgePartition(0, said)
            topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id(side, self.name), [partition])
            return ShareAcknowledgeRequest(self.name, MEMBER, epoch, is_renewal, [topic])

        def remember(side: Any, answer: Any) -> None:
            codes = [it["error_code"] for topic in answer["responses"] for it in topic["partitions"]]
            if side is self.sides.kafka and codes == [0]:
                self.said(batches)

        self.tell(ApiKey.SHARE_ACKNOWLEDGE, Ask(2, build, text=f"acknowledge {batches}"), remember)

    def look(self) -> None:
        """What the share coordinator keeps, and what administrators see of it."""

        def build(side: Any) -> ReadShareGroupStateRequest:
            partition = ReadShareGroupStateRequest.PartitionData(0, 0)
            topic = ReadShareGroupStateRequest.ReadStateData(topic_id(side, self.name), [partition])
            return ReadShareGroupStateRequest(self.name, [topic])

        self.tell(ApiKey.READ_SHARE_GROUP_STATE, Ask(0, build, text="look"))
        group = DescribeShareGroupOffsetsRequest.Group(self.name, None)
        self.tell(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ask(1, DescribeShareGroupOffsetsRequest([group])))

    def forget(self) -> None:
        """An administrator asks to forget where the group is, in its topic and in one that is not there."""
        topics = [DeleteShareGroupOffsetsRequest.Topic(name) for name in (self.name, "missing")]
        delete = ask(0, DeleteShareGroupOffsetsRequest(self.name, topics))
        self.tell(ApiKey.DELETE_SHARE_GROUP_OFFSETS, delete)
        group = DescribeShareGroupOffsetsRequest.Group(self.name, None)
        self.tell(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ask(1, DescribeShareGroupOffsetsRequest([group])))
        self.tell(ApiKey.SHARE_GROUP_DESCRIBE, ask(1, ShareGroupDescribeRequest([self.name])))

    def end(self) -> None:
        self.forget()
        self.tell(ApiKey.DELETE_GROUPS, ask(2, DeleteGroupsRequest([self.name])))
        leave = ShareGroupHeartbeatRequest(self.name, MEMBER, -1)
        self.tell(ApiKey.SHARE_GROUP_HEARTBEAT, ask(1, leave))
        self.forget()
        self.forget()
        self.tell(ApiKey.LIST_GROUPS, ask(5, ListGroupsRequest(types_filter=["share"])))
        self.tell(ApiKey.DELETE_GROUPS, ask(2, DeleteGroupsRequest([self.name])))
        assert not self.found, "\n".join(self.found)


def becomes_assigned(side: Any, name: str) -> None:
    """Begin at the first record, join, and wait until there is something to read; epochs are each side's own."""
    deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
    first = AlterShareGroupOffsetsRequest.Topic(name, [AlterShareGroupOffsetsRequest.Partition(0, 0)])
    key = base64.urlsafe_b64encode(topic_id(side, name)).decode().rstrip("=")
    while refused(side.ask(AlterShareGroupOffsetsRequest(name, [first]), 0)):
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


def refused(altered: Any) -> bool:
    """As a whole, or for a partition: Kafka's share coordinator may be busy when the group's is not."""
    codes = [it["error_code"] for topic in altered["responses"] for it in topic["partitions"]]
    return bool(altered["error_code"]) or codes != [0]


kinds = st.sampled_from([1, 1, 1, 2, 2, 3, 0])
final_kinds = st.sampled_from([1, 1, 3, 0])
"""With a fetch: what is released with it comes back with that fetch or with the next, as fast as Kafka writes it."""


@st.composite
def said(draw: st.DrawFn, end: int, kinds: st.SearchStrategy[int]) -> list[tuple[int, int, list[int]]]:
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
    records_max, mode = data.draw(st.integers(1, end)), data.draw(st.sampled_from([0, 0, 1]))
    life.fetch(records_max=records_max, mode=mode, wait_ms=FIRST_WAIT_MS)
    for _ in range(STEPS):
        is_fetch = data.draw(st.booleans())
        batches = life.sensible(data.draw(st.just([]) | said(end, final_kinds if is_fetch else kinds)))
        if not is_fetch:
            life.acknowledge(batches)
        else:
            life.fetch(
                records_max=data.draw(st.integers(1, end)),
                mode=data.draw(st.sampled_from([0, 1])),
                batch_size=data.draw(st.sampled_from([1, 2, 5, 100])),
                batches=batches,
            )
    life.acknowledge([(0, 0, [4])], is_renewal=True)
    life.acknowledge(life.sensible([(end, end + 3, [1])]))
    life.look()
    life.acknowledge([], is_final=True)
    life.end()


def test_a_dead_letter_queue_receives_what_it_receives_in_kafka(sides):
    life = Life(sides, next(numbers))
    queue = f"dlq.{life.name}"
    configs = [CreateTopicsRequest.CreatableTopicConfig("errors.deadletterqueue.group.enable", "true")]
    topics = [CreateTopicsRequest.CreatableTopic(queue, 1, 1, configs=configs)]
    life.tell(ApiKey.CREATE_TOPICS, ask(7, CreateTopicsRequest(topics, 20_000), changes_topics=True))
    name = IncrementalAlterConfigsRequest.AlterableConfig("errors.deadletterqueue.topic.name", 0, queue)
    group = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP, life.name, [name])
    life.tell(ApiKey.INCREMENTAL_ALTER_CONFIGS, ask(1, IncrementalAlterConfigsRequest([group]), changes_settings=True))
    life.begin([4])
    life.fetch(records_max=4, mode=0, wait_ms=FIRST_WAIT_MS)
    life.acknowledge([(0, 0, [1]), (1, 2, [3]), (3, 3, [RELEASE])])
    for _ in range(DELIVERIES_MAX - 1):
        life.fetch(records_max=4, mode=0, wait_ms=FIRST_WAIT_MS)
        life.acknowledge([(3, 3, [RELEASE])])
    of_kafka, *ours = [letters(side, queue, 3) for side in sides.all]
    assert ours == [of_kafka] * len(ours)
    life.end()


def letters(side: Any, queue: str, count: int) -> list[Any]:
    """Wait for records of a queue, and return them without their times."""
    partition = FetchRequest.FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, session_epoch=-1, topics=[FetchRequest.FetchTopic(queue, partitions=[partition])]
    )
    deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
    while True:
        batches = side.ask(request, 12)["responses"][0]["partitions"][0]["records"]
        found = [it for header, batch in iterate_batches(batches or b"") for it in iterate_records(batch, header)]
        if len(found) >= count:
            return [(it.offset, it.key, it.value, it.headers) for it in found]
        assert time.monotonic() < deadline, (side.name, found)
        time.sleep(PAUSE_SECONDS)
