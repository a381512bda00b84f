"""What one request leads to for the next: a topic from its creation to its end, a group with one member."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import NOW_MS, Ask, ask, topic_id
from tests.differential.group_requests import LONG_METADATA
from tests.differential.oracle import COMMIT_VERSION, OFFSETS_TOPIC
from tests.differential.table import versions_of

pytestmark = pytest.mark.xdist_group("kafka")
MEMBERS_BY_LIST_FROM = 3
GROUPS_BY_LIST_FROM = 8
FIRST_EPOCH = 0
numbers = itertools.count()
"""Every story has a topic or a group of its own: what an earlier one left behind depends on the time."""


class Story:
    """Requests one after the other, each in a drawn version."""

    def __init__(self, sides: Any, draw: Any) -> None:
        self.sides = sides
        self.draw = draw
        self.found: list[str] = []

    def version(self, api: ApiKey, highest: int | None = None) -> int:
        versions = versions_of(api)
        return self.draw(st.integers(versions[0], versions[-1] if highest is None else highest))

    def tell(self, api: ApiKey, step: Ask, remember: Any = None) -> None:
        self.found += compare(self.sides, api, step, remember)

    def end(self) -> None:
        assert not self.found, "\n".join(self.found)


def produced(name: str, version: int, batch: Any) -> Ask:
    """A batch for partition 0, by the producer that the side knows; `batch` is (epoch, first sequence, count)."""
    epoch, sequence, count = batch
    records = [NewRecord(b"%d" % index, b"key", NOW_MS + index) for index in range(count)]

    def build(side: Any) -> ProduceRequest:
        data = build_batch(records, producer_id=side.told["producer_id"], producer_epoch=epoch, base_sequence=sequence)
        partition = ProduceRequest.PartitionProduceData(0, data)
        topic = ProduceRequest.TopicProduceData(name, topic_id(side, name), [partition])
        return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])

    return Ask(version, build, text=f"batch {batch}")


def fetched(name: str, version: int, session_epoch: int, offset: int, partitions: list[int]) -> Ask:
    """A fetch in the session that the side knows."""

    def build(side: Any) -> FetchRequest:
        wanted = [
            FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index in partitions
        ]
        return FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_id=side.told.get("session_id", 0) if session_epoch > 0 else 0,
            session_epoch=session_epoch,
            topics=[FetchRequest.FetchTopic(name, topic_id(side, name), wanted)] if wanted else [],
        )

    return Ask(version, build, text=f"fetch epoch {session_epoch} from {offset} of {partitions}")


def remember_producer(side: Any, answer: Any) -> None:
    side.told["producer_id"] = answer["producer_id"]


def remember_session(side: Any, answer: Any) -> None:
    side.told["session_id"] = answer["session_id"]


@drawn(3)
@given(data=st.data())
def test_a_topic_lives_and_dies_as_in_kafka(sides, data):
    """Idempotent batches in and out of order, a fetch session over them, offsets by time, then the end."""
    story, name = Story(sides, data.draw), f"life-{next(numbers)}"
    created = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 2, 1)], 20_000)
    story.tell(ApiKey.CREATE_TOPICS, ask(story.version(ApiKey.CREATE_TOPICS), created, changes_topics=True))
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    story.tell(ApiKey.INIT_PRODUCER_ID, ask(story.version(ApiKey.INIT_PRODUCER_ID), init), remember_producer)
    fetch_version = data.draw(st.integers(7, 18))
    story.tell(ApiKey.FETCH, fetched(name, fetch_version, 0, 0, [0, 1]), remember_session)
    batches = st.tuples(
        st.sampled_from([0, 0, 0, 0, 1]), st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1]), st.integers(1, 3)
    )
    session_epoch, sequence = 1, 0
    for _ in range(6):
        batch = data.draw(st.one_of(st.just((FIRST_EPOCH, sequence, 1)), batches))
        story.tell(ApiKey.PRODUCE, produced(name, story.version(ApiKey.PRODUCE), batch))
        sequence += batch == (FIRST_EPOCH, sequence, 1)
        again = data.draw(st.sampled_from([[], [], [0], [1]]))
        story.tell(ApiKey.FETCH, fetched(name, fetch_version, session_epoch, data.draw(st.integers(0, 3)), again))
        session_epoch += 1
    story.tell(ApiKey.FETCH, fetched(name, fetch_version, session_epoch + 5, 0, []))
    for at in (-1, -2, -3, NOW_MS, NOW_MS + 1, NOW_MS + 9):
        partitions = [ListOffsetsRequest.ListOffsetsPartition(index, -1, at) for index in range(2)]
        asked = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(name, partitions)])
        story.tell(ApiKey.LIST_OFFSETS, ask(story.version(ApiKey.LIST_OFFSETS), asked))
    deleted = DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000)
    story.tell(ApiKey.DELETE_TOPICS, ask(story.version(ApiKey.DELETE_TOPICS, 5), deleted, changes_topics=True))
    story.tell(ApiKey.PRODUCE, produced(name, story.version(ApiKey.PRODUCE, 12), (FIRST_EPOCH, 0, 1)))
    story.end()


def remember_member(side: Any, answer: Any) -> None:
    side.told["member_id"] = answer["member_id"]


class Group:
    """The requests of the one member of a group."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance

    def _instance(self, version: int, since: int) -> str | None:
        return self.instance if version >= since else None

    def join(self, version: int, *, first: bool) -> Ask:
        def build(side: Any) -> JoinGroupRequest:
            return JoinGroupRequest(
                group_id=self.name,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id="" if first else side.told["member_id"],
                group_instance_id=self._instance(version, 5),
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequest.JoinGroupRequestProtocol("range", b"r"),
                    JoinGroupRequest.JoinGroupRequestProtocol("sticky", b"s"),
                ],
            )

        return Ask(version, build, text=f"join first={first} {self.instance}")

    def sync(self, version: int, generation: int) -> Ask:
        def build(side: Any) -> SyncGroupRequest:
            member_id = side.told["member_id"]
            return SyncGroupRequest(
                group_id=self.name,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=self._instance(version, 3),
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id, b"all of it")],
            )

        return Ask(version, build, text=f"sync {generation}")

    def heartbeat(self, version: int, generation: int) -> Ask:
        def build(side: Any) -> HeartbeatRequest:
            return HeartbeatRequest(self.name, generation, side.told["member_id"], self._instance(version, 3))

        return Ask(version, build, text=f"heartbeat {generation}")

    def commit(self, version: int, generation: int, offset: int) -> Ask:
        def build(side: Any) -> OffsetCommitRequest:
            partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, -1, "note")
            return OffsetCommitRequest(
                group_id=self.name,
                generation_id_or_member_epoch=generation,
                member_id=side.told["member_id"],
                group_instance_id=self._instance(version, 7),
                topics=[OffsetCommitRequest.OffsetCommitRequestTopic("one", topic_id(side, "one"), [partition])],
            )

        return Ask(version, build, text=f"commit {offset} in {generation}")

    def offsets(self, version: int) -> Ask:
        if version >= GROUPS_BY_LIST_FROM:
            return ask(version, OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(self.name)]))
        topics = [OffsetFetchRequest.OffsetFetchRequestTopic("one", [0])]
        return ask(version, OffsetFetchRequest(group_id=self.name, topics=topics))

    def leave(self, version: int) -> Ask:
        def build(side: Any) -> LeaveGroupRequest:
            member_id = side.told["member_id"]
            if version < MEMBERS_BY_LIST_FROM:
                return LeaveGroupRequest(group_id=self.name, member_id=member_id)
            leaving = LeaveGroupRequest.MemberIdentity(member_id, self.instance)
            return LeaveGroupRequest(group_id=self.name, members=[leaving])

        return Ask(version, build, text="leave")


@drawn(3)
@given(data=st.data(), instance=st.sampled_from([None, None, "static"]))
def test_a_group_lives_and_dies_as_in_kafka(sides, data, instance):
    """One member joins, leads, commits, is asked about and leaves; between that, steps of drawn generations."""
    name = f"life-{next(numbers)}"
    story, group = Story(sides, data.draw), Group(name, instance)
    generations = st.sampled_from([1, 1, 1, 0, 2, -1])

    def look() -> None:
        describe = DescribeGroupsRequest([name])
        story.tell(ApiKey.DESCRIBE_GROUPS, ask(story.version(ApiKey.DESCRIBE_GROUPS), describe))
        story.tell(ApiKey.LIST_GROUPS, ask(story.version(ApiKey.LIST_GROUPS), ListGroupsRequest()))
        story.tell(ApiKey.OFFSET_FETCH, group.offsets(story.version(ApiKey.OFFSET_FETCH)))

    join_version = story.version(ApiKey.JOIN_GROUP)
    story.tell(ApiKey.JOIN_GROUP, group.join(join_version, first=True), remember_member)
    if join_version >= 4 and (instance is None or join_version < 5):
        story.tell(ApiKey.JOIN_GROUP, group.join(join_version, first=False))
    look()
    for _ in range(2):
        story.tell(ApiKey.HEARTBEAT, group.heartbeat(story.version(ApiKey.HEARTBEAT), data.draw(generations)))
        commit = group.commit(story.version(ApiKey.OFFSET_COMMIT), data.draw(generations), data.draw(st.integers(0, 9)))
        story.tell(ApiKey.OFFSET_COMMIT, commit)
        story.tell(ApiKey.SYNC_GROUP, group.sync(story.version(ApiKey.SYNC_GROUP), data.draw(generations)))
        look()
    story.tell(ApiKey.DELETE_GROUPS, ask(story.version(ApiKey.DELETE_GROUPS), DeleteGroupsRequest([name])))
    story.tell(ApiKey.JOIN_GROUP, group.join(story.version(ApiKey.JOIN_GROUP), first=False))
    story.tell(ApiKey.LEAVE_GROUP, group.leave(story.version(ApiKey.LEAVE_GROUP)))
    look()
    story.tell(ApiKey.DELETE_GROUPS, ask(story.version(ApiKey.DELETE_GROUPS), DeleteGroupsRequest([name])))
    look()
    story.end()


def test_a_group_whose_only_commit_is_refused_is_there_as_in_kafka(sides):
    """Drawn requests met it in one run of twenty."""
    name, request = f"refused-{next(numbers)}", OffsetCommitRequest
    too_long = request.OffsetCommitRequestPartition(0, 5, -1, LONG_METADATA)
    commit = request(name, topics=[request.OffsetCommitRequestTopic(OFFSETS_TOPIC, partitions=[too_long])])
    found = compare(sides, ApiKey.OFFSET_COMMIT, ask(COMMIT_VERSION, commit))
    found += compare(sides, ApiKey.DESCRIBE_GROUPS, ask(5, DescribeGroupsRequest([name])))
    assert not found, "\n".join(found)
