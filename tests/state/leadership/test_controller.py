"""Decisions of the controller: who may join, and who leads after a hand-over or a drain."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.leadership.controller import Controller, Drained, HandOver
from pipeline_broker.state.leadership.records import NO_NODE, NodeRecord, PartitionRecord

CONTROLLER = Controller()
PARTITION = PartitionRecord(leader=1, epoch=4, candidates=(1, 2, 3), wanted=2, handed="old")
NODE = NodeRecord(1, 7)


@pytest.mark.parametrize(("generation", "is_taken"), [(6, False), (7, False), (8, True)])
def test_only_a_later_generation_joins(generation, is_taken):
    wish = NodeRecord(1, generation)
    assert CONTROLLER.join(NODE, wish) == (wish if is_taken else ErrorCode.STALE_BROKER_EPOCH)
    assert CONTROLLER.join(None, wish) == wish


def test_a_wish_for_the_present_leader_takes_the_former_wish_back():
    assert CONTROLLER.want(PARTITION, 3).wanted == 3
    assert CONTROLLER.want(PARTITION, 1).wanted == NO_NODE


@pytest.mark.parametrize(
    ("wanted", "living", "leader"),
    [(2, {1, 2, 3}, 2), (2, {1, 3}, 1), (2, {3}, 3), (NO_NODE, {1, 2, 3}, 1), (2, {9, 8}, 8), (2, set(), NO_NODE)],
)
def test_a_hand_over_goes_to_the_wanted_leader_or_a_living_candidate(wanted, living, leader):
    partition = PARTITION._replace(wanted=wanted)
    decided = CONTROLLER.hand_over(partition, NODE, HandOver(1, 7, 4, "new"), living)
    assert decided == PartitionRecord(leader, 5, (1, 2, 3), NO_NODE, "new")


@pytest.mark.parametrize(
    ("node", "message", "error"),
    [
        (NODE, HandOver(1, 6, 4, "new"), ErrorCode.STALE_BROKER_EPOCH),
        (NODE, HandOver(1, 8, 4, "new"), ErrorCode.STALE_BROKER_EPOCH),
        (None, HandOver(1, 7, 4, "new"), ErrorCode.STALE_BROKER_EPOCH),
        (NODE, HandOver(1, 7, 3, "new"), ErrorCode.FENCED_LEADER_EPOCH),
        (NodeRecord(2, 7), HandOver(2, 7, 4, "new"), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_late_or_foreign_hand_over_is_refused(node, message, error):
    assert CONTROLLER.hand_over(PARTITION, node, message, {1, 2, 3}) is error


@pytest.mark.parametrize(
    ("message", "decided"),
    [
        (Drained(1, 8, 4, "new"), PartitionRecord(2, 5, (1, 2, 3), NO_NODE, "new")),
        (Drained(1, 7, 4, "new"), ErrorCode.STALE_BROKER_EPOCH),
        (Drained(1, 8, 3, "new"), ErrorCode.FENCED_LEADER_EPOCH),
        (Drained(2, 8, 4, "new"), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_drain_counts_under_a_later_generation_and_at_the_epoch_of_the_partition(message, decided):
    assert CONTROLLER.drained(PARTITION, NODE, message, {2, 3}) == decided


def test_without_a_wish_a_drained_partition_goes_to_its_first_living_candidate():
    partition = PARTITION._replace(wanted=NO_NODE)
    assert CONTROLLER.drained(partition, NODE, Drained(1, 8, 4, "new"), {3}).leader == 3
    assert CONTROLLER.drained(partition, NODE, Drained(1, 8, 4, "new"), set()).leader == NO_NODE
