"""Rights of a broker on a partition in each role."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.partitions import LocalPartition, Role
from pipeline_broker.state.leadership.records import NO_NODE, PartitionRecord

HERE, THERE = 1, 2


def record(epoch=0, leader=HERE, wanted=NO_NODE, handed=""):
    return PartitionRecord(leader, epoch, (HERE, THERE), wanted, handed)


def led(epoch=0):
    return LocalPartition().applied(record(epoch), HERE).opened().loaded()


def test_a_leader_opens_and_loads_before_it_serves():
    roles = [LocalPartition()]
    roles.append(roles[-1].applied(record(3, handed="object"), HERE))
    roles.append(roles[-1].opened())
    roles.append(roles[-1].loaded())
    assert [it.role for it in roles] == [Role.NONE, Role.OPENING, Role.LOADING, Role.LED]
    assert [it.may_append for it in roles] == [it.may_read for it in roles] == [False, False, False, True]
    assert (roles[-1].epoch, roles[-1].handed) == (3, "object")


def test_a_leader_that_stops_serves_readers_only_and_one_that_has_handed_over_nobody():
    stopping = led().applied(record(wanted=THERE), HERE)
    assert (stopping.role, stopping.may_append, stopping.may_read) == (Role.STOPPING, False, True)
    handing = stopping.settled()
    assert (handing.role, handing.may_append, handing.may_read) == (Role.HANDING, False, False)


def test_a_wish_that_is_taken_back_keeps_a_leader_until_it_has_handed_over():
    stopping = led().applied(record(wanted=THERE), HERE)
    assert stopping.applied(record(), HERE).role is Role.LED
    assert stopping.settled().applied(record(), HERE).role is Role.HANDING
    assert stopping.settled().applied(record(1), HERE).role is Role.OPENING


@pytest.mark.parametrize("steps", [("opened", "loaded"), ("loaded", "opened", "loaded")])
def test_a_wish_that_comes_while_the_partition_opens_is_kept(steps):
    partition = LocalPartition().applied(record(wanted=THERE), HERE)
    for step in steps:
        partition = getattr(partition, step)()
    assert partition.role is Role.STOPPING


RECORDS = st.builds(
    record, st.integers(0, 3), st.sampled_from([HERE, THERE, NO_NODE]), st.sampled_from([HERE, THERE, -1])
)
STEPS = st.lists(RECORDS | st.sampled_from(["opened", "loaded", "settled"]), max_size=20)


@given(STEPS)
def test_only_the_leader_of_the_last_record_serves(steps):
    partition, last = LocalPartition(), None
    for step in steps:
        if isinstance(step, str):
            partition = getattr(partition, step)()
        else:
            partition, last = partition.applied(step, HERE), step
        is_leader = last is not None and last.leader == HERE
        assert (partition.role is not Role.NONE) == is_leader
        assert not partition.may_append or (partition.epoch == last.epoch and last.wanted != THERE)
