"""Stories of streams groups, told to Apache Kafka and to us: every answer the same, epochs, tasks and texts included.

Assignments are made at once on all sides (no assignment interval and no initial delay).
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.streams_group_describe import StreamsGroupDescribeRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.differential.comparison import compare
from tests.differential.conftest import becomes
from tests.differential.data_requests import Ask, ask, topic_id

pytestmark = pytest.mark.xdist_group("kafka")
Request = StreamsGroupHeartbeatRequest
SOURCE, STORE = "streams-source", "streams-store"
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
HEARS_SECONDS_MAX = 20.0
numbers = itertools.count()


def topology(epoch: int = 0, *, sources: tuple[str, ...] = (SOURCE,), store: str | None = STORE) -> Request.Topology:
    changelogs = (
        [] if store is None else [Request.TopicInfo(store, 0, 0, [Request.KeyValue("segment.bytes", "2000000")])]
    )
    return Request.Topology(
        epoch,
        [Request.Subtopology(subtopology_id="0", source_topics=list(sources), state_changelog_topics=changelogs)],
    )


NEW = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, **NO_TASKS}


def active(*tasks: int) -> dict[str, Any]:
    return {**NO_TASKS, "active_tasks": [Request.TaskIds("0", list(tasks))] if tasks else []}


def coordinators_know(name: str, sides: Any) -> None:
    """Wait until a group of this topic is ready: Kafka's coordinators hear of topics later than clients."""
    for side, group in itertools.product(sides.all, (f"streams-of-{name}", f"streams-of-{name}a")):
        becomes(side, FindCoordinatorRequest(key=group), 0)
        deadline = time.monotonic() + HEARS_SECONDS_MAX
        while True:
            request = Request(
                group_id=group, member_id="a", process_id="a", topology=topology(sources=(name,), store=None), **NEW
            )
            answer = side.ask(request, 1)
            if answer["error_code"] == 0 and not answer["status"]:
                break
            assert time.monotonic() < deadline, (side.name, answer)
            time.sleep(0.05)
        side.ask(Request(group_id=group, member_id="a", member_epoch=-1), 1)
        side.ask(DeleteGroupsRequest([group]), 2)


class Story:
    """One group, asked about on all sides."""

    def __init__(self, sides: Any) -> None:
        self.sides = sides
        self.group = f"streams-{next(numbers)}"
        self.found: list[str] = []
        for name in (SOURCE, STORE):
            if name not in sides.ours[0].topics():
                wanted = [CreateTopicsRequest.CreatableTopic(name, 4, 1)]
                self.tell(ask(5, CreateTopicsRequest(wanted, 20_000), changes_topics=True), compared=False)
                coordinators_know(name, sides)
        for side in sides.all:
            becomes(side, FindCoordinatorRequest(key=self.group), 0)

    def tell(self, step: Ask, *, compared: bool = True) -> None:
        (message,) = {type(step.build(side)) for side in self.sides.all}
        found = compare(self.sides, message.SCHEMA.key, step)
        if compared:
            self.found += [f"{step}: {text}" for text in found]

    def beat(self, member_id: str, version: int = 1, **more: Any) -> None:
        self.tell(ask(version, Request(group_id=self.group, member_id=member_id, **more)))
        self.describe()

    def enter(self, member_id: str, version: int = 1, **more: Any) -> None:
        first = {"topology": topology(), "process_id": f"p-{member_id}", **NEW}
        self.beat(member_id, version, **{**first, **more})

    def describe(self, version: int = 1) -> None:
        request = StreamsGroupDescribeRequest([self.group], include_authorized_operations=True)
        request.include_topology_description = version > 0
        self.tell(ask(version, request))
        self.tell(ask(5, ListGroupsRequest(types_filter=["streams"])))

    def commit(self, member_id: str, epoch: int, *partitions: int, version: int = 9, topic: str = SOURCE) -> None:
        part = OffsetCommitRequest.OffsetCommitRequestPartition

        def build(side: Any) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=self.group,
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                topics=[
                    OffsetCommitRequest.OffsetCommitRequestTopic(
                        name=topic,
                        topic_id=topic_id(side, topic),
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
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(SOURCE, wanted)
        self.tell(ask(0, OffsetDeleteRequest(self.group, [topic])))

    def delete(self) -> None:
        self.tell(ask(2, DeleteGroupsRequest([self.group])))

    def end(self) -> None:
        assert not self.found, "\n".join(self.found)


@pytest.fixture
def story(sides):
    return Story(sides)


def test_two_members_share_and_part_as_in_kafka(story):
    story.enter("a", rack_id="r", client_tags=[Request.KeyValue("zone", "z")], user_endpoint=Request.Endpoint("h", 1))
    story.commit("a", 2, 0, 1)
    for epoch, version in ((1, 9), (3, 9), (2, 8), (-1, 9)):
        story.commit("a", epoch, 0, version=version)
    story.commit("nobody", 2, 0)
    story.commit("", -1, 0)
    for member_id, epoch in (("a", 2), ("a", 1), ("nobody", 2), (None, -1)):
        story.fetch(member_id, epoch)
    story.enter("b", endpoint_information_epoch=-1)
    story.beat("a", member_epoch=2)
    story.beat("b", member_epoch=3)
    story.beat("a", member_epoch=2, **active(0, 1))
    story.commit("a", 2, 0, 1)
    story.commit("a", 2, 0, 3)
    story.beat("b", member_epoch=3, endpoint_information_epoch=0)
    story.beat("a", **{**NEW, "member_epoch": 3, **active(0, 1)})
    story.beat("a", member_epoch=3, task_offsets=[Request.TaskOffset("0", 1, 7)], task_end_offsets=[])
    story.describe(0)
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
    story.enter("a", **me)
    story.enter("a", **me)
    story.enter("b", **me)
    story.beat("b", member_epoch=2, **me)
    story.beat("a", member_epoch=2, instance_id="j")
    story.beat("a", member_epoch=-2, **me)
    story.commit("a", 2, 0)
    story.beat("a", member_epoch=2, **me)
    story.enter("b", **me, process_id="p-a")
    story.beat("b", member_epoch=-2, **me)
    story.enter("c", **me, process_id="p-c")
    story.beat("b", member_epoch=-1, **me)
    story.beat("c", member_epoch=-1, **me)
    story.end()


def test_a_shutdown_is_announced_as_in_kafka(story):
    story.enter("a")
    story.enter("b")
    story.beat("a", member_epoch=2, shutdown_application=True)
    story.beat("b", member_epoch=3)
    story.beat("a", member_epoch=-1, shutdown_application=True)
    story.beat("b", member_epoch=-1)
    story.enter("c")
    story.end()


def test_topologies_are_checked_as_in_kafka(story):
    story.enter("a", topology=topology(3))
    story.enter("b", topology=topology(2))
    story.enter("c", topology=topology(4))
    story.enter("d", topology=topology(3, store=None))
    story.enter("e", topology=None)
    story.enter("f", topology=topology(3, sources=("__consumer_offsets",)))
    story.enter("g", topology=topology(3, sources=("not a name", SOURCE)))
    story.beat("a", member_epoch=2, topology=topology(3))
    story.beat("a", member_epoch=2, **active(0, 7))
    story.beat("a", member_epoch=2, active_tasks=[Request.TaskIds("9", [0])], standby_tasks=[], warmup_tasks=[])
    story.beat("a", member_epoch=2, active_tasks=[])
    offsets = [Request.TaskOffset("0", 1, 7)] * 2
    story.beat("a", member_epoch=2, task_offsets=offsets)
    story.end()


def test_requests_are_checked_as_in_kafka(story):
    story.enter("a", rebalance_timeout_ms=-1)
    story.enter("a", **active(0))
    story.enter("a", standby_tasks=None)
    for more in ({"member_epoch": -2}, {"member_epoch": -3}, {"member_epoch": 1}, {"member_epoch": -1}):
        story.beat("a", **more)
    story.beat(" ", member_epoch=1)
    story.beat("a", member_epoch=1, instance_id="")
    story.beat("a", member_epoch=1, rack_id="")
    regex = Request.Subtopology(subtopology_id="0", source_topic_regex=["a.*"])
    story.enter("a", topology=Request.Topology(0, [regex]))
    changelog = Request.Subtopology("0", [SOURCE], [], [Request.TopicInfo(STORE, 3, 0)])
    story.enter("a", topology=Request.Topology(0, [changelog]))
    description = StreamsGroupTopologyDescriptionUpdateRequest(story.group, "a", 0)
    story.tell(ask(0, description))
    story.end()


def test_missing_source_topics_are_reported_as_in_kafka(story):
    missing = topology(sources=(SOURCE, "missing-1", "missing-2", "missing-3", "missing-4"))
    story.enter("a", topology=missing)
    story.beat("a", member_epoch=2)
    story.commit("a", 2, 0)
    story.enter("b", topology=missing)
    story.beat("a", member_epoch=3)
    story.end()


def test_incorrectly_partitioned_topics_are_reported_as_in_kafka(story):
    name = f"streams-odd-{next(numbers)}"
    topic = CreateTopicsRequest.CreatableTopic(name, 3, 1)
    story.tell(ask(5, CreateTopicsRequest([topic], 20_000), changes_topics=True), compared=False)
    coordinators_know(name, story.sides)
    story.enter("a", topology=topology(store=name))
    both = Request.Subtopology("0", [SOURCE, name], copartition_groups=[Request.CopartitionGroup(source_topics=[0, 1])])
    story.enter("a", topology=Request.Topology(0, [both]))
    story.end()


def test_internal_topics_are_created_as_in_kafka(story):
    store = f"streams-new-{next(numbers)}"
    story.enter("a", topology=topology(store=store))
    for side in story.sides.all:
        deadline = time.monotonic() + HEARS_SECONDS_MAX
        epoch = 2
        while True:
            answer = side.ask(Request(group_id=story.group, member_id="a", member_epoch=epoch), 1)
            assert answer["error_code"] == 0, (side.name, answer)
            epoch = answer["member_epoch"]
            if not answer["status"]:
                break
            assert time.monotonic() < deadline, (side.name, answer)
            time.sleep(0.05)
        assert epoch == 3, side.name
    story.sides.settle()
    story.describe()
    story.end()


def test_other_kinds_of_groups_are_refused_as_in_kafka(story):
    story.commit("", -1, 0)
    story.enter("a")
    join = JoinGroupRequest(
        group_id=story.group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="m",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", b"x")],
    )
    story.tell(ask(9, join))
    story.end()
