"""Groups of every kind as plain values: state, members with what is assigned to them, offsets and lag.

Rules of this file: synchronous, reads the broker and changes nothing; shown is what is durable. Each part that shows
groups of this broker takes them from here and only chooses the form. What members of a classic group were assigned is
a stranger's bytes: they are read as far as a bound goes, and never an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.lag import lag_of
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.wire.consumer_protocol import assigned_partitions

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.state.groups.coordinator import GroupCoordinator
    from pipeline_broker.state.groups.group import Group

__all__ = [
    "GroupOffsets",
    "GroupView",
    "MemberView",
    "OffsetView",
    "committed_offsets",
    "coordinator_of",
    "count_members",
    "find_group",
    "group_offsets",
    "list_groups",
    "offsets_of_groups",
]

ASSIGNMENT_BYTES_MAX = 1 << 20
"""Of the assignments of one classic group, how many bytes are read; those of further members are not known."""


@attrs.frozen(kw_only=True)
class GroupView:
    """A group without its members.

    Attributes:
        state: as Kafka's tools show it: Empty, PreparingRebalance, CompletingRebalance, Stable, ...
        protocol_type: what its members do together; empty if they have not said.
        is_empty: whether it has no members.
    """

    group_id: str
    group_type: GroupType
    state: str
    protocol_type: str
    is_empty: bool


@attrs.frozen(kw_only=True)
class MemberView:
    """A member of a group.

    Attributes:
        member_id: given by the broker, or chosen by the client.
        instance_id: of a static member; None for others.
        client_id: as the client names itself.
        client_host: its address, with the slash that Kafka puts before it.
        assignment: partition numbers by topic; None if that is not known.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, tuple[int, ...]] | None


@attrs.frozen(kw_only=True)
class OffsetView:
    """A partition that a group has committed or is assigned.

    Attributes:
        committed: the group's offset; None if it has committed none.
        end: the high watermark; None if the partition is not there.
        metadata: what was committed with the offset.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        return lag_of(self.committed, self.end)


@attrs.frozen
class GroupOffsets:
    """How many members a group has, in how many partitions it has committed, and what reads that in their order."""

    group_id: str
    members: int
    partitions: int
    read: Callable[[], list[OffsetView]]


def coordinator_of(broker: Broker) -> GroupCoordinator | None:
    """The coordinator; None if there never was a group."""
    return broker.groups.coordinator if broker.groups.is_ready else None


def list_groups(broker: Broker) -> list[GroupView]:
    """All groups, by name."""
    coordinator = coordinator_of(broker)
    found = [] if coordinator is None else coordinator.registry.all_shown()
    return sorted(map(_view, found), key=lambda group: group.group_id)


def find_group(broker: Broker, group_id: str) -> tuple[GroupView, list[MemberView]] | None:
    """One group with its members; None if there is none of this name."""
    coordinator = coordinator_of(broker)
    found = None if coordinator is None else coordinator.registry.shown(group_id)
    if coordinator is None or found is None:
        return None
    return _view(found), list(_members(coordinator, found))


def count_members(broker: Broker, group_id: str) -> int:
    """How many members a group has; nothing of what they were assigned is read for it."""
    coordinator = coordinator_of(broker)
    found = None if coordinator is None else coordinator.registry.shown(group_id)
    if coordinator is None or found is None:
        return 0
    if found.group_type is GroupType.SHARE:
        return len(coordinator.share.describe(group_id).members)
    return len(found.members)


def committed_offsets(broker: Broker, group_id: str) -> list[OffsetView]:
    """What a group has committed, by topic and partition; nothing for a group that is not there."""
    coordinator = coordinator_of(broker)
    fetched = [] if coordinator is None else coordinator.fetch(group_id)
    views = [
        OffsetView(
            topic=each.topic,
            partition=each.partition,
            committed=each.committed.offset,
            end=_end(broker, each.topic, each.partition),
            metadata=each.committed.metadata,
        )
        for each in fetched
    ]
    return sorted(views, key=_place)


def offsets_of_groups(broker: Broker) -> Iterator[GroupOffsets]:
    """What every group has committed, by name, each read when it is wanted; share groups commit nothing."""
    coordinator = coordinator_of(broker)
    if coordinator is None:
        return
    for group in list_groups(broker):
        if group.group_type is not GroupType.SHARE:
            name = group.group_id
            read = functools.partial(committed_offsets, broker, name)
            yield GroupOffsets(name, count_members(broker, name), coordinator.count_offsets(name), read)


def group_offsets(broker: Broker, group_id: str) -> list[OffsetView]:
    """As `committed_offsets`, with the partitions that a member has and nothing is committed for.

    An assigned partition that is not there is left out: a leader of a classic group can name any.
    """
    views = {_place(view): view for view in committed_offsets(broker, group_id)}
    _, members = find_group(broker, group_id) or (None, [])
    for member in members:
        for topic, partitions in (member.assignment or {}).items():
            for partition in partitions:
                end = _end(broker, topic, partition)
                if end is not None and (topic, partition) not in views:
                    view = OffsetView(topic=topic, partition=partition, committed=None, end=end)
                    views[topic, partition] = view
    return sorted(views.values(), key=_place)


def _view(group: Group) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state_name,
        protocol_type=group.protocol_type_name,
        is_empty=group.is_empty,
    )


def _place(view: OffsetView) -> tuple[str, int]:
    return view.topic, view.partition


def _end(broker: Broker, topic: str, partition: int) -> int | None:
    log = broker.logs.find(topic, partition)
    return None if log is None else log.high_watermark


def _members(coordinator: GroupCoordinator, group: Group) -> Iterator[MemberView]:
    if group.group_type is GroupType.CLASSIC:
        yield from _classic_members(coordinator, group)
    elif group.group_type is GroupType.CONSUMER:
        for consumer in coordinator.consumer.describe(group.group_id).members:
            yield MemberView(
                member_id=consumer.member_id,
                instance_id=consumer.instance_id,
                client_id=consumer.client_id,
                client_host=consumer.client_host,
                assignment={name: tuple(numbers) for _, name, numbers in consumer.assignment},
            )
    else:
        described = coordinator.share.describe(group.group_id)
        names = described.topic_names
        for member in described.members:
            yield MemberView(
                member_id=member.member_id,
                instance_id=None,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment={names.get(each, each.hex()): tuple(sorted(n)) for each, n in member.assignment.items()},
            )


def _classic_members(coordinator: GroupCoordinator, group: Group) -> Iterator[MemberView]:
    described = coordinator.describe(group.group_id)
    bytes_left = ASSIGNMENT_BYTES_MAX
    for member in described.members:
        bytes_left -= len(member.assignment)
        is_read = bytes_left >= 0
        yield MemberView(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            assignment=assigned_partitions(described.protocol_type, member.assignment) if is_read else None,
        )
