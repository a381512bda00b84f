"""What a topology says of partitions that are not there: the same line, whoever asked."""

import pytest

from pipeline_broker.client.errors import ClientError, NoSuchPartition, NoSuchTopic
from pipeline_broker.client.topology import BrokerAddress, Partition, Topic, Topology


def topology(count, *, leader=1, error_code=0):
    partitions = tuple(Partition(number, leader, (1,), (1,), ()) for number in range(count))
    return Topology({1: BrokerAddress(1, "h", 1)}, 1, None, {"t": Topic("t", None, False, partitions, error_code)})


@pytest.mark.parametrize(("count", "has"), [(0, "none"), (1, "only 0"), (2, "0 to 1"), (10, "0 to 9")])
def test_a_partition_that_is_not_there_is_one_line_that_says_which_there_are(count, has):
    asked = topology(count)
    for ask in (asked.topic("t").partition, lambda number: asked.leader("t", number)):
        with pytest.raises(NoSuchPartition) as caught:
            ask(10)
        assert str(caught.value) == f"topic t has no partition 10: it has {has}"
    assert isinstance(caught.value, ClientError)


def test_a_leader_that_is_no_broker_is_none():
    assert topology(1).leader("t", 0) == 1
    assert topology(1, leader=7).leader("t", 0) is None
    with pytest.raises(NoSuchTopic):
        topology(1).leader("other", 0)


def test_partitions_are_those_of_topics_that_can_be_seen():
    assert topology(2).partitions(["t", "other"]) == [("t", 0), ("t", 1)]
    assert topology(2, error_code=29).partitions(["t"]) == []
