"""Requests about share groups, drawn by Hypothesis: what must be answered alike whoever asks, in whatever state.

Groups here have no members and sessions are nobody's: lives of groups with members are in `test_share_groups`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipeline_broker.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_state import DeleteShareGroupStateRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from pipeline_broker.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from pipeline_broker.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.share.write_share_group_state import WriteShareGroupStateRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import TOPICS, Ask, ask, topic_id
from tests.differential.oracle import Side

GROUPS = ["shared", "shared too"]
"""Groups whose state in the partitions of topic `three` these requests change."""
NOBODY = "nobody-shares"
epochs = st.integers(0, 3)
offsets = st.integers(0, 20)
state_partitions = st.sampled_from([0, 1, 2, 7, -1])


@st.composite
def heartbeat(draw: st.DrawFn, version: int) -> Ask:
    """Of strangers, and such as make no sense."""
    request = ShareGroupHeartbeatRequest(
        group_id=draw(st.sampled_from([NOBODY, "", " "])),
        member_id=draw(st.sampled_from(["m", ""])),
        member_epoch=draw(st.sampled_from([1, 7, -1, -2])),
        rack_id=draw(st.sampled_from([None, "", "r"])),
    )
    return ask(version, request)


@st.composite
def describe(draw: st.DrawFn, version: int) -> Ask:
    groups = draw(st.lists(st.sampled_from([NOBODY, "simple"]), max_size=2, unique=True))
    return ask(version, ShareGroupDescribeRequest(groups, draw(st.booleans())))


@st.composite
def fetch(draw: st.DrawFn, version: int) -> Ask:
    """In sessions that there are not, and such as make no sense."""
    request = ShareFetchRequest(
        group_id=draw(st.sampled_from([NOBODY, None])),
        member_id=draw(st.sampled_from(["m", "", "x" * 37])),
        share_session_epoch=draw(st.sampled_from([1, 5, -1])),
        max_records=1,
        batch_size=1,
    )
    return ask(version, request)


@st.composite
def acknowledge(draw: st.DrawFn, version: int) -> Ask:
    request = ShareAcknowledgeRequest(
        group_id=draw(st.sampled_from([NOBODY, None])),
        member_id=draw(st.sampled_from(["m", "", "x" * 37])),
        share_session_epoch=draw(st.sampled_from([0, 1, 5, -1])),
    )
    return ask(version, request)


def _state(version: int, request_class: Any, topic_class: str, group: str, name: str, partition: Any) -> Ask:
    """One partition of one topic, whose id each side knows."""

    def build(side: Side) -> Any:
        return request_class(group, [getattr(request_class, topic_class)(topic_id(side, name), [partition])])

    return Ask(version, build, text=f"{request_class.__name__} {group} {name} {partition}")


topic_names = st.sampled_from(["three", "three", "three", "missing"])
groups = st.sampled_from([*GROUPS, *GROUPS, ""])


@st.composite
def initialize(draw: st.DrawFn, version: int) -> Ask:
    partition = InitializeShareGroupStateRequest.PartitionData(
        draw(state_partitions), draw(epochs), draw(st.just(-1) | offsets)
    )
    wanted = (InitializeShareGroupStateRequest, "InitializeStateData", draw(groups), draw(topic_names), partition)
    return _state(version, *wanted)


@st.composite
def read(draw: st.DrawFn, version: int) -> Ask:
    partition = ReadShareGroupStateRequest.PartitionData(draw(state_partitions), draw(epochs))
    return _state(version, ReadShareGroupStateRequest, "ReadStateData", draw(groups), draw(topic_names), partition)


@st.composite
def write(draw: st.DrawFn, version: int) -> Ask:
    batches = []
    for _ in range(draw(st.integers(0, 4))):
        first = draw(offsets)
        state, count = draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 3))
        last = first + draw(st.integers(0, 5))
        batches.append(WriteShareGroupStateRequest.StateBatch(first, last, state, count))
    partition = WriteShareGroupStateRequest.PartitionData(
        partition=draw(state_partitions),
        state_epoch=draw(epochs),
        leader_epoch=draw(epochs),
        start_offset=draw(st.just(-1) | offsets),
        state_batches=batches,
    )
    if version >= 1:
        partition.delivery_complete_count = draw(st.integers(-1, 5))
    return _state(version, WriteShareGroupStateRequest, "WriteStateData", draw(groups), draw(topic_names), partition)


@st.composite
def delete(draw: st.DrawFn, version: int) -> Ask:
    partition = DeleteShareGroupStateRequest.PartitionData(draw(state_partitions))
    return _state(version, DeleteShareGroupStateRequest, "DeleteStateData", draw(groups), draw(topic_names), partition)


@st.composite
def summary(draw: st.DrawFn, version: int) -> Ask:
    partition = ReadShareGroupStateSummaryRequest.PartitionData(draw(state_partitions), draw(epochs))
    wanted = (ReadShareGroupStateSummaryRequest, "ReadStateSummaryData", draw(groups), draw(topic_names), partition)
    return _state(version, *wanted)


def offsets_of(version: int, topics: list[DescribeShareGroupOffsetsRequest.Topic] | None) -> Ask:
    return ask(version, DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequest.Group(NOBODY, topics)]))


@st.composite
def describe_offsets(draw: st.DrawFn, version: int) -> Ask:
    """Of partitions that there are; for the others Kafka takes its time (see test_unknown_share_partitions)."""
    partitions = draw(st.lists(st.integers(0, TOPICS["three"] - 1), min_size=1, max_size=3, unique=True))
    topic = draw(st.sampled_from([("one", [0]), ("three", partitions)]))
    topics = draw(st.sampled_from([None, [], [DescribeShareGroupOffsetsRequest.Topic(*topic)]]))
    return offsets_of(version, topics)


UNKNOWN_PARTITIONS = [(version, [0, partition]) for version in (0, 1) for partition in (1, 3)]
"""(version, partitions of topic `one`, of which there is the first)."""


def describe_unknown(version: int, partitions: list[int]) -> Ask:
    return offsets_of(version, [DescribeShareGroupOffsetsRequest.Topic("one", partitions)])


@st.composite
def alter_offsets(draw: st.DrawFn, version: int) -> Ask:
    names = draw(st.lists(st.sampled_from(["one", "missing"]), max_size=2, unique=True))
    partitions = [AlterShareGroupOffsetsRequest.Partition(draw(st.sampled_from([0, 9])), draw(offsets)) for _ in names]
    topics = [AlterShareGroupOffsetsRequest.Topic(name, [it]) for name, it in zip(names, partitions, strict=True)]
    return ask(version, AlterShareGroupOffsetsRequest(draw(st.sampled_from(["altered", ""])), topics))


@st.composite
def delete_offsets(draw: st.DrawFn, version: int) -> Ask:
    topics = [DeleteShareGroupOffsetsRequest.Topic(draw(st.sampled_from(["one", "missing"])))]
    return ask(version, DeleteShareGroupOffsetsRequest(draw(st.sampled_from([NOBODY, "simple", ""])), topics))


SHARE_REQUESTS = {
    ApiKey.SHARE_GROUP_HEARTBEAT: heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe,
    ApiKey.SHARE_FETCH: fetch,
    ApiKey.SHARE_ACKNOWLEDGE: acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: initialize,
    ApiKey.READ_SHARE_GROUP_STATE: read,
    ApiKey.WRITE_SHARE_GROUP_STATE: write,
    ApiKey.DELETE_SHARE_GROUP_STATE: delete,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: summary,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_offsets,
}
