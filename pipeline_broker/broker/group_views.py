"""Groups of all types as plain values: state, members and their assignments, offsets and lag.

The command line, the dashboard and the metrics use these views. Reading a broker does not change it, and the views show
durable state only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.lag import add_lag, lag_of
from pipeline_broker.base.steps import THINGS_PER_STEP, Steps, anything, first_few, selected
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.commits import FetchTopic
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.streams.group import StreamsGroup
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.consumer_protocol import assigned_partitions

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.state.groups.coordinator import GroupCoordinator
    from pipeline_broker.state.groups.group import Group

__all__ = [
    "EndOf",
    "GroupOffsets",
    "GroupView",
    "MemberView",
    "OffsetView",
    "committed_offsets",
    "coordinator_of",
    "count_members",
    "count_offsets",
    "find_group",
    "first_groups",
    "group_offsets",
    "lag_of_group",
    "list_groups",
    "offset_order",
    "offsets_of_groups",
]

# Clients choose the bytes of assignments in classic groups, so decoding them needs a limit per group. A member is
# decoded in one step, so it has a limit too (16,000 partitions). Assignments beyond a limit are reported as unknown.
ASSIGNMENT_BYTES_MAX = 1 << 20
MEMBER_BYTES_MAX = 64 * 1024
# Committed offsets that are read from the coordinator in one call.
FETCHED_AT_ONCE = 64
EndOf: TypeAlias = Callable[[str, int], int | None]


@attrs.frozen(kw_only=True)
class GroupView:
    """A group without its members.

    Attributes:
        state: state as in Kafka's tools: Empty, PreparingRebalance, CompletingRebalance, Stable, ...
        protocol_type: protocol type of the members; empty if they have not sent one.
        is_empty: True if the group has no members.
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
        member_id: id given by the broker or chosen by the client.
        instance_id: `group.instance.id` of a static member; None for others.
        client_id: client id that the client sent.
        client_host: address of the client, with a leading slash as in Kafka.
        assignment: partition numbers by topic; None if unknown.
        backup_tasks: number of standby and warm-up tasks of a streams group's member.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, tuple[int, ...]] | None
    backup_tasks: int = 0


@attrs.frozen(kw_only=True)
class OffsetView:
    """A partition for which a group has a committed offset or an assigned member.

    Attributes:
        committed: committed offset; None if the group has committed none.
        end: high watermark; None if the partition does not exist.
        metadata: metadata that was committed with the offset.
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
    """A group with its numbers of members and committed offsets.

    Attributes:
        partitions: number of committed offsets.
        read: reads the committed offsets, sorted by topic and partition.
    """

    group_id: str
    members: int
    partitions: int
    read: Callable[[], Steps[list[OffsetView]]]


def coordinator_of(broker: Broker, group_id: str) -> GroupCoordinator | None:
    groups = broker.groups.coordinator_of(group_id)
    return None if isinstance(groups, ErrorCode) else groups.coordinator


def list_groups(broker: Broker) -> list[GroupView]:
    return list(map(_view, sorted(_shown(broker), key=_name)))


def first_groups(
    broker: Broker, count_max: int, is_shown: Callable[[str], bool] = anything
) -> Steps[tuple[int, list[GroupView]]]:
    """Return the number of shown groups and the first ones by name, in steps."""
    every = yield from selected(_shown(broker), lambda group: is_shown(group.group_id))
    found = yield from first_few(every, count_max, _name)
    return len(every), list(map(_view, found))


def _shown(broker: Broker) -> list[Group]:
    return [group for groups in broker.groups for group in groups.coordinator.registry.all_shown()]


def _name(group: Group) -> str:
    return group.group_id


def find_group(broker: Broker, group_id: str) -> tuple[GroupView, Iterator[MemberView]] | None:
    coordinator = coordinator_of(broker, group_id)
    found = None if coordinator is None else coordinator.registry.shown(group_id)
    if coordinator is None or found is None:
        return None
    return _view(found), _members(coordinator, found)


def count_members(broker: Broker, group_id: str) -> int:
    """Return the number of members of a group without decoding their assignments; 0 if the group is unknown."""
    coordinator = coordinator_of(broker, group_id)
    found = None if coordinator is None else coordinator.registry.shown(group_id)
    if coordinator is None or found is None:
        return 0
    if found.group_type is GroupType.SHARE:
        return len(coordinator.share.describe(group_id).members)
    return len(found.members)


def count_offsets(broker: Broker, group_id: str) -> int:
    coordinator = coordinator_of(broker, group_id)
    if coordinator is None:
        return 0
    return coordinator.count_offsets(group_id) or sum(1 for _ in _share_partitions(coordinator, group_id))


def committed_offsets(
    broker: Broker, group_id: str, topic: str | None = None, end_of: EndOf | None = None
) -> Iterator[OffsetView]:
    """Iterate over the committed offsets of a group, topic by topic; over none if the group is unknown.

    A share group, which commits no offsets, has the start offsets of its partitions instead.

    Args:
        topic: the only topic; None for all.
        end_of: returns the end of a partition, or None if it does not exist; by default among the broker's own.
    """
    coordinator = coordinator_of(broker, group_id)
    end_of = end_of or functools.partial(_end, broker)
    committed = {} if coordinator is None else coordinator.committed_partitions(group_id, topic)
    for name, partitions in committed.items():
        for begin in range(0, len(partitions), FETCHED_AT_ONCE):
            wanted = FetchTopic(name, partitions[begin : begin + FETCHED_AT_ONCE])
            fetched = [] if coordinator is None else coordinator.fetch(group_id, [wanted])
            for each in fetched:
                if each.committed.offset >= 0:  # it may have been deleted since the partitions were listed
                    yield OffsetView(
                        topic=name,
                        partition=each.partition,
                        committed=each.committed.offset,
                        end=end_of(name, each.partition),
                        metadata=each.committed.metadata,
                    )
    for name, key in () if coordinator is None else _share_partitions(coordinator, group_id):
        found = broker.share.manager.states.summary(key) if topic in {None, name} else None
        if found is not None and found.start_offset >= 0:
            end = end_of(name, key.partition)
            yield OffsetView(topic=name, partition=key.partition, committed=found.start_offset, end=end)


def _share_partitions(coordinator: GroupCoordinator, group_id: str) -> Iterator[tuple[str, ShareKey]]:
    group = coordinator.share.find(group_id)
    if group is None or group.shown is None:
        return
    for topic_id, partitions in group.shown.initialized.items():
        for partition in sorted(partitions):
            yield group.shown.topic_names[topic_id], ShareKey(group_id, topic_id, partition)


def lag_of_group(broker: Broker, group_id: str) -> Steps[int | None]:
    """Return the lag of a group over all its committed offsets, in steps; None if no lag is known."""
    total = None
    for place, view in enumerate(committed_offsets(broker, group_id)):
        if place % THINGS_PER_STEP == THINGS_PER_STEP - 1:
            yield
        total = add_lag(total, view.lag)
    return total


def offsets_of_groups(broker: Broker, in_order_max: int) -> Generator[GroupOffsets | None, None, None]:
    """Iterate over all groups that can commit offsets, so without share groups.

    Args:
        in_order_max: number of groups that come first, sorted by name; the others follow in any order.

    Yields:
        a group, or None between two steps.
    """
    every = [group for group in _shown(broker) if group.group_type is not GroupType.SHARE]
    first = yield from first_few(every, in_order_max, _name)
    names = dict.fromkeys(map(_name, first))
    for group in chain(first, (group for group in every if group.group_id not in names)):
        name = group.group_id
        read = functools.partial(_sorted_offsets, broker, name)
        yield GroupOffsets(name, count_members(broker, name), count_offsets(broker, name), read)


def _sorted_offsets(broker: Broker, group_id: str) -> Steps[list[OffsetView]]:
    found = []
    for place, view in enumerate(committed_offsets(broker, group_id)):
        if place % THINGS_PER_STEP == THINGS_PER_STEP - 1:
            yield
        found.append(view)
    return sorted(found, key=offset_order)


def group_offsets(
    broker: Broker, group_id: str, members: Iterable[MemberView] | None = None, end_of: EndOf | None = None
) -> Iterator[OffsetView]:
    """Iterate over the committed offsets of a group, then over assigned partitions without a committed offset.

    Partitions that do not exist have only committed offsets.

    Args:
        members: members of the group; None to find them.
        end_of: as for `committed_offsets`.
    """
    coordinator = coordinator_of(broker, group_id)
    if coordinator is None:
        return
    end_of = end_of or functools.partial(_end, broker)
    is_share = coordinator.share.find(group_id) is not None
    seen: set[tuple[str, int]] = set()
    for view in committed_offsets(broker, group_id, end_of=end_of):
        if is_share:  # the coordinator knows the offsets of other groups
            seen.add((view.topic, view.partition))
        yield view
    if members is None:
        _, members = find_group(broker, group_id) or (None, ())
    for member in members:
        for topic, partitions in (member.assignment or {}).items():
            for partition in partitions:
                end = end_of(topic, partition)
                # The leader of a classic group may assign partitions that do not exist.
                if end is None or (topic, partition) in seen:
                    continue
                seen.add((topic, partition))
                (fetched,) = coordinator.fetch(group_id, [FetchTopic(topic, [partition])])
                if fetched.committed.offset < 0:
                    yield OffsetView(topic=topic, partition=partition, committed=None, end=end)


def _view(group: Group) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state_name,
        protocol_type=group.protocol_type_name,
        is_empty=group.is_empty,
    )


def offset_order(view: OffsetView) -> tuple[str, int]:
    return view.topic, view.partition


def _end(broker: Broker, topic: str, partition: int) -> int | None:
    log = broker.logs.find(topic, partition)
    return None if log is None else log.high_watermark


def _members(coordinator: GroupCoordinator, group: Group) -> Iterator[MemberView]:
    if isinstance(group, ClassicGroup):
        yield from _classic_members(group)
    elif isinstance(group, ConsumerGroup):
        for consumer, assignment in coordinator.consumer.assignments(group):
            yield MemberView(
                member_id=consumer.member_id,
                instance_id=consumer.metadata.instance_id,
                client_id=consumer.metadata.client_id,
                client_host=consumer.metadata.client_host,
                assignment={name: numbers for _, name, numbers in assignment},
            )
    elif isinstance(group, StreamsGroup):
        for streams, partitions, backup_tasks in coordinator.streams.assignments(group):
            yield MemberView(
                member_id=streams.member_id,
                instance_id=streams.metadata.instance_id,
                client_id=streams.metadata.client_id,
                client_host=streams.metadata.client_host,
                assignment=partitions,
                backup_tasks=backup_tasks,
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


def _classic_members(group: ClassicGroup) -> Iterator[MemberView]:
    protocol_type, bytes_left = group.protocol_type or "", ASSIGNMENT_BYTES_MAX
    for member in list(group.members.values()):
        bytes_left -= len(member.assignment)
        is_read = bytes_left >= 0 and len(member.assignment) <= MEMBER_BYTES_MAX
        yield MemberView(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            assignment=assigned_partitions(protocol_type, member.assignment) if is_read else None,
        )
