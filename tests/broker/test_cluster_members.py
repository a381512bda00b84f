"""A broker serves a partition only after its OPEN record is durable at the epoch of the metadata (C2, C6)."""

import pytest

from pipeline_broker.broker.cluster_members import OPENED_MAX, ClusterMembers
from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NodeRecord,
    OpenRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    open_record,
    partition_record,
)
from pipeline_broker.state.metadata_records import Topic, producer_ids_record, topic_record

TOPIC = Topic("t", bytes(range(16)), 3)
KEY = PartitionKey(TOPIC.topic_id, 1)


def leads(members, leader, epoch=0, key=KEY):
    record = partition_record(key, PartitionRecord(leader, epoch, (leader,)))
    change = members.replay_leader(record.key, record.value)
    return change.key if change is not None and change.is_served else None


def opens(members, epoch=0, key=KEY):
    record = open_record(key, None if epoch is None else OpenRecord(epoch))
    return members.replay_open(record.key, record.value)


def test_a_member_serves_a_partition_once_its_open_record_is_durable():
    members = ClusterMembers(2, controller_id=1)
    assert leads(members, 2) is None
    write = members.open()
    assert members.led(TOPIC) == [], "not durable yet"
    assert members.opened(write) == [KEY]
    assert members.led(TOPIC) == [1]
    assert members.open() is None, "once is enough"


def test_many_partitions_are_opened_a_bounded_number_at_a_time():
    members = ClusterMembers(2, controller_id=1)
    keys = [PartitionKey(TOPIC.topic_id, number) for number in range(2 * OPENED_MAX + 1)]
    for key in keys:
        leads(members, 2, key=key)
    found = []
    while (write := members.open()) is not None:
        assert len(write.change) <= OPENED_MAX
        found += members.opened(write)
    assert found == keys


def test_a_partition_that_got_another_leader_meanwhile_is_not_served():
    members = ClusterMembers(2, controller_id=1)
    leads(members, 2)
    write = members.open()
    leads(members, 3, epoch=1)
    assert members.opened(write) == []
    assert members.led(TOPIC) == []


def test_a_restarted_member_serves_what_it_had_opened_at_the_same_epoch():
    members = ClusterMembers(2, controller_id=1)
    leads(members, 2, epoch=4)
    assert opens(members, epoch=3) is None, "of an earlier leadership"
    assert members.led(TOPIC) == []
    assert opens(members, epoch=4) == KEY
    assert members.led(TOPIC) == [1]
    assert members.open() is None


def test_a_closed_partition_is_opened_again():
    members = ClusterMembers(2, controller_id=1)
    opens(members)
    opens(members, epoch=None)
    assert leads(members, 2) is None
    assert members.open().change == {KEY: 0}


def test_the_controller_serves_its_partitions_by_the_leaders_record_and_those_without_one():
    members = ClusterMembers(1, controller_id=1)
    assert leads(members, 1) == KEY
    assert leads(members, 2, key=PartitionKey(TOPIC.topic_id, 2)) is None
    assert members.led(TOPIC) == [0, 1], "partition 0 is from the time before the cluster"
    assert members.open() is None


def test_a_member_writes_no_record_of_the_controller():
    members, controller = ClusterMembers(2, controller_id=1), ClusterMembers(1, controller_id=1)
    with pytest.raises(MisplacedRecordError):
        members.check_local(topic_record(TOPIC).key)
    members.check_local(producer_ids_record(1).key)
    controller.check_local(topic_record(TOPIC).key)


def test_each_broker_allocates_producer_ids_of_its_own_and_markers_carry_its_generation():
    firsts = [ClusterMembers(number, controller_id=1).first_producer_id for number in (1, 2, 3)]
    assert firsts == sorted(set(firsts))
    assert firsts[1] > 2**39
    members = ClusterMembers(2, controller_id=1)
    assert members.generation == 0
    joined = node_record(NodeRecord(2, 7))
    members.replay_leader(joined.key, joined.value)
    assert members.generation == 7


@pytest.mark.parametrize(
    ("known", "state", "is_replaced"),
    [
        (2, NodeState.JOINED, False),  # its own record was not applied yet
        (3, NodeState.JOINED, False),
        (3, NodeState.FENCED, True),
        (4, NodeState.JOINED, True),
        (4, NodeState.FENCED, True),
    ],
)
def test_process_3_of_a_broker_learns_that_it_must_join_again(known, state, is_replaced):
    """The controller took the late connection of an earlier process for a later one."""
    members = ClusterMembers(2, controller_id=1)
    assert not members.is_replaced(3)
    record = node_record(NodeRecord(2, known, state))
    members.replay_leader(record.key, record.value)
    assert members.is_replaced(3) is is_replaced
