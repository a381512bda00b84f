"""Unknown partitions and leaders of a topology."""

import pytest

from pipeline_broker.client.errors import ClientError, NoSuchPartition, NoSuchTopic
from pipeline_broker.client.topology import BrokerAddress, Partition, Topic, Topology, without_leader


def topology(count, *, leader=1, error_code=0):
    partitions = tuple(Partition(number, leader, (1,), (1,), ()) for number in range(count))
    return Topology({1: BrokerAddress(1, "h", 1)}, 1, None, {"t": Topic("t", None, False, partitions, error_code)})


@pytest.mark.parametrize(
    ("count", "has"),
    [
        (0, "it has none"),
        (1, "its only partition is 0"),
        (2, "its partitions are 0 to 1"),
        (10, "its partitions are 0 to 9"),
    ],
)
def test_an_unknown_partition_is_one_line_with_the_known_ones(count, has):
    asked = topology(count)
    for ask in (asked.topic("t").partition, lambda number: asked.leader("t", number)):
        with pytest.raises(NoSuchPartition) as caught:
            ask(10)
        assert str(caught.value) == f"topic t has no partition 10: {has}"
    assert isinstance(caught.value, ClientError)


def test_a_leader_that_is_not_a_known_broker_is_none():
    assert topology(1).leader("t", 0) == 1
    assert topology(1, leader=7).leader("t", 0) is None
    with pytest.raises(NoSuchTopic):
        topology(1).leader("other", 0)


def test_topics_with_an_error_have_no_partitions():
    assert topology(2).partitions(["t", "other"]) == [("t", 0), ("t", 1)]
    assert topology(2, error_code=29).partitions(["t"]) == []


def test_partitions_without_a_leader_are_named():
    assert without_leader({("t", 3)}) == "t-3 has no leader (LEADER_NOT_AVAILABLE)"
    assert without_leader({("t", 3), ("t", 1), ("u", 0)}) == "t-1, t-3, u-0 have no leader (LEADER_NOT_AVAILABLE)"
    many = without_leader({("t", number) for number in range(12)})
    assert many.endswith("t-9 and 2 more have no leader (LEADER_NOT_AVAILABLE)")
