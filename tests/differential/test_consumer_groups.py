"""Stories of consumer groups, told to Apache Kafka and to us: every answer the same, epochs and texts included.

Assignments are made at once on all sides (no assignment interval), and expressions are not part of this: Kafka resolves
them in a thread of its own, so that it depends on the time when a member hears of what matched.
"""

from __future__ import annotations

import itertools
import struct
import time
from typing import Any

import pytest

from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.differential.comparison import compare
from tests.differential.conftest import becomes
from tests.differential.data_requests import Ask, ask, topic_id

pytestmark = pytest.mark.xdist_group("kafka")
NEW = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "topics": ["shared"], "owned": {}}
HEARS_SECONDS_MAX = 10.0
numbers = itertools.count()


def coordinators_hear_of(name: str, sides: Any) -> None:
    """Wait until a member gets a new topic: Kafka's coordinators hear of it later than clients, each for itself.

    There is one for each of the two partitions of `__consumer_offsets`, and these two groups are not in the same one.
    """
    for side, group in itertools.product(sides.all, (f"hears-of-{name}", f"hears-of-{name}a")):
        becomes(side, FindCoordinatorRequest(key=group), 0)
        deadline = time.monotonic() + HEARS_SECONDS_MAX
        epoch, assigned = 0, False
        while not assigned:
            assert time.monotonic() < deadline, side.name
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id="a",
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[name],
                topic_partitions=[],
            )
            answer = side.ask(request, 1)
            epoch = answer["member_epoch"] if answer["error_code"] == 0 else 0
            assigned = bool(answer["assignment"] and answer["assignment"]["topic_partitions"])
        side.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=-1), 1)
        side.ask(DeleteGroupsRequest([group]), 2)


class Story:
    """One group, asked about on all sides; what a side told of a classic member is kept in `told`."""

    def __init__(self, sides: Any) -> None:
        self.sides = sides
        self.group = f"consumers-{next(numbers)}"
        self.found: list[str] = []
        if "shared" not in sides.ours[0].topics():
            wanted = [CreateTopicsRequest.CreatableTopic("shared", 4, 1)]
            self.tell(ask(5, CreateTopicsRequest(wanted, 20_000), changes_topics=True), compared=False)
            coordinators_hear_of("shared", sides)
        for side in sides.all:
            becomes(side, FindCoordinatorRequest(key=self.group), 0)
            side.told["member"] = ""

    def tell(self, step: Ask, remember: Any = None, *, compared: bool = True) -> None:
        (message,) = {type(step.build(side)) for side in self.sides.all}
        found = compare(self.sides, message.SCHEMA.key, step, remember)
        if compared:
            self.found += [f"{step}: {text}" for text in found]

    def beat(self, member_id: str, version: int = 1, **more: Any) -> None:
        topics, owned = more.pop("topics", None), more.pop("owned", None)

        def build(side: Any) -> ConsumerGroupHeartbeatRequest:
            part = ConsumerGroupHeartbeatRequest.TopicPartitions
            return ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=member_id,
                subscribed_topic_names=topics,
                topic_partitions=None
                if owned is None
                else [part(topic_id(side, name), indexes) for name, indexes in owned.items()],
                **more,
            )

        self.tell(Ask(version, build, text=f"{member_id} {more} {topics} {owned}"))
        self.describe()

    def describe(self) -> None:
        self.tell(ask(1, ConsumerGroupDescribeRequest([self.group], include_authorized_operations=True)))

    def commit(self, member_id: str | None, epoch: int, *partitions: int, version: int = 9) -> None:
        part = OffsetCommitRequest.OffsetCommitRequestPartition

        def build(side: Any) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=self.group,
                member_id=side.told["member"] if member_id is None else member_id,
                generation_id_or_member_epoch=epoch,
                topics=[
                    OffsetCommitRequest.OffsetCommitRequestTopic(
                        name="shared",
                        topic_id=topic_id(side, "shared"),
                        partitions=[part(index, 5 + index) for index in partitions],
                    )
                ],
            )

        self.tell(Ask(version, build, text=f"commit {member_id} {epoch} {partitions} v{version}"))

    def fetch(self, member_id: str | None, epoch: int) -> None:
        group = OffsetFetchRequest.OffsetFetchRequestGroup(self.group, member_id, epoch, None)
        self.tell(ask(9, OffsetFetchRequest(groups=[group])))

    def delete_offsets(self) -> None:
        wanted = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in (0, 9)]
        self.tell(
            ask(0, OffsetDeleteRequest(self.group, [OffsetDeleteRequest.OffsetDeleteRequestTopic("shared", wanted)]))
        )

    def delete(self) -> None:
        self.tell(ask(2, DeleteGroupsRequest([self.group])))

    # The classic protocol

    def join(self, *owned: int, new: bool = False) -> None:
        def build(side: Any) -> JoinGroupRequest:
            owns = [ConsumerProtocolSubscription.TopicPartition("shared", list(owned))] if owned else []
            data = embedded(ConsumerProtocolSubscription(["shared"], None, owns))
            return JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id="" if new else side.told["member"],
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", data)],
            )

        def remember(side: Any, answer: Any) -> None:
            side.told["member"] = answer["member_id"] or side.told["member"]

        self.tell(Ask(9, build, text=f"join {owned}"), remember)

    def sync(self, generation_id: int, *given: int) -> None:
        """Assignments are compared as what they say: the order of their bytes is nobody's business."""
        told: list[Any] = []

        def build(side: Any) -> SyncGroupRequest:
            data = embedded(
                ConsumerProtocolAssignment([ConsumerProtocolAssignment.TopicPartition("shared", list(given))])
            )
            assigned = SyncGroupRequest.SyncGroupRequestAssignment(side.told["member"], data)
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=generation_id,
                member_id=side.told["member"],
                protocol_type="consumer",
                protocol_name="range",
                assignments=[assigned] if given else [],
            )

        def remember(_side: Any, answer: Any) -> None:
            data = answer["assignment"]
            read = decode(ConsumerProtocolAssignment, 1, data, 2)[0] if data else None
            told.append((answer["error_code"], read))

        self.tell(Ask(5, build, text=f"sync {generation_id}"), remember, compared=False)
        self.found += [f"sync {generation_id}: {told}" for each in told if each != told[0]]

    def heartbeat(self, generation_id: int) -> None:
        self.tell(
            Ask(4, lambda side: HeartbeatRequest(self.group, generation_id, side.told["member"]), text="heartbeat")
        )

    def end(self) -> None:
        assert not self.found, "\n".join(self.found)


def embedded(message: Any) -> bytes:
    return struct.pack(">h", 1) + b"".join(map(bytes, encode(message, 1)))


@pytest.fixture
def story(sides):
    return Story(sides)


def test_two_members_share_and_part_as_in_kafka(story):
    story.beat("a", **NEW, rack_id="r")
    story.commit("a", 2, 0, 1)
    for epoch, version in ((1, 9), (3, 9), (2, 8), (-1, 9)):
        story.commit("a", epoch, 0, version=version)
    story.commit("nobody", 2, 0)
    story.commit("", -1, 0)
    for member_id, epoch in (("a", 2), ("a", 1), ("nobody", 2), (None, -1)):
        story.fetch(member_id, epoch)
    story.beat("b", **NEW)
    story.beat("a", member_epoch=2)
    story.beat("b", member_epoch=3)
    story.beat("a", member_epoch=2, owned={"shared": [0, 1]})
    story.commit("a", 2, 0, 1)
    story.commit("a", 2, 0, 1, 2)
    story.beat("a", member_epoch=2, owned={"shared": [0, 1]})
    story.beat("a", member_epoch=2)
    story.beat("a", member_epoch=2, owned={"shared": [0, 1, 2]})
    story.beat("b", member_epoch=3)
    story.beat("a", **{**NEW, "member_epoch": 3, "owned": {"shared": [0, 1]}})
    story.beat("b", member_epoch=-1)
    story.beat("b", member_epoch=-1)
    story.beat("a", member_epoch=3)
    story.delete()
    story.delete_offsets()
    story.beat("a", member_epoch=-1)
    story.delete_offsets()
    story.fetch(None, -1)
    story.commit("", -1, 2)
    story.delete()
    story.describe()
    story.end()


def test_static_members_come_and_go_as_in_kafka(story):
    me = {"instance_id": "i"}
    story.beat("a", **NEW, **me)
    story.beat("a", **NEW, **me)
    story.beat("b", **NEW, **me)
    story.beat("b", member_epoch=2, **me)
    story.beat("a", member_epoch=2, instance_id="j")
    story.beat("a", member_epoch=-2, **me)
    story.commit("a", 2, 0)
    story.beat("a", member_epoch=2, **me)
    story.beat("b", **NEW, **me)
    story.beat("a", member_epoch=-1, **me)
    story.beat("b", member_epoch=-1, **me)
    story.end()


def test_subscriptions_change_as_in_kafka(story):
    story.beat("a", **{**NEW, "topics": []})
    story.beat("b", **{**NEW, "topics": ["not there"]})
    story.beat("a", member_epoch=1, topics=["shared"])
    story.beat("a", member_epoch=3)
    story.beat("a", member_epoch=3, topics=[])
    story.beat("a", member_epoch=3, owned={})
    story.beat("a", member_epoch=4, server_assignor="range")
    story.end()


def test_a_topic_that_grows_moves_a_group_as_in_kafka(story, sides):
    name = f"growing-{next(numbers)}"
    story.tell(
        ask(5, CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1)], 20_000), changes_topics=True),
        compared=False,
    )
    coordinators_hear_of(name, sides)
    story.beat("a", **{**NEW, "topics": [name]})
    grown = CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic(name, 3, None)], 20_000, False)
    story.tell(ask(3, grown, changes_topics=True))
    for side in sides.all:  # Kafka's coordinator hears of it a little later than its clients do
        deadline = time.monotonic() + HEARS_SECONDS_MAX
        request = ConsumerGroupHeartbeatRequest(group_id=story.group, member_id="a", member_epoch=2)
        while side.ask(request, 1)["member_epoch"] != 3:
            assert time.monotonic() < deadline, side.name
            time.sleep(0.05)
    story.beat("a", member_epoch=3, owned={name: [0, 1, 2]})
    story.end()


def test_a_classic_group_is_migrated_and_comes_back_as_in_kafka(story):
    story.join(new=True)
    story.join()
    story.sync(1, 0, 1, 2, 3)
    story.heartbeat(1)
    story.beat("new", **NEW)
    story.tell(ask(6, DescribeGroupsRequest([story.group])))
    story.beat("new", member_epoch=2)
    story.heartbeat(1)
    story.join(0, 1, 2, 3)
    story.sync(1)
    story.heartbeat(1)
    story.join(0, 1)
    story.sync(2)
    story.heartbeat(2)
    story.beat("new", member_epoch=2)
    story.commit(None, 2, 0)
    story.commit(None, 1, 0)
    story.commit(None, 1, 0, 2)
    story.commit(None, 3, 0)
    story.beat("new", member_epoch=-1)
    story.heartbeat(2)
    story.end()


def test_members_of_both_protocols_leave_as_in_kafka(story):
    story.beat("new", **NEW, instance_id="i")
    story.join(new=True)
    story.join()
    who = LeaveGroupRequest.MemberIdentity
    for leaving in ([who("nobody")], [who("other", "i")], [who("", "i")]):
        story.tell(ask(5, LeaveGroupRequest(group_id=story.group, members=leaving)))
        story.describe()
    story.end()
