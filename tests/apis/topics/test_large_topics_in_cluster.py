"""Topics of many partitions in a cluster: the controller chooses and writes their leaders in turns, as one change."""

import pytest

from pipeline_broker.apis.steps import LEADER_COST, LOGS_AT_ONCE_MAX
from pipeline_broker.base.steps import THINGS_PER_STEP
from pipeline_broker.state.leadership import topic_placement
from pipeline_broker.state.leadership.records import PartitionKey
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.request import TURN_COST, Pending, Unfinished, go_on
from tests.apis.cluster_desk import BROKERS, ClusterDesk
from tests.apis.topics.test_large_topics import CREATE, DELETE, GROW, creation, deletion, growth

LARGE = 4_000


@pytest.fixture
def leaders_written(monkeypatch):
    """The records of partitions that were made so far."""
    written, original = [], topic_placement.partition_record

    def counting(key, partition):
        written.append(key)
        return original(key, partition)

    monkeypatch.setattr(topic_placement, "partition_record", counting)
    return written


def leaders_of(desk):
    topic = desk.broker.topics.get("large")
    return {} if topic is None else {n: it.leader for n, it in desk.image.partitions(topic.topic_id).items()}


def turns_of(desk, message, version, leaders_written):
    """Run the steps of a request; return the leaders that each wrote, and the entries of its changes."""
    turns, entries, result = [], [], desk.decide(message, version)
    before = 0
    while isinstance(result, Unfinished):
        turns.append(len(leaders_written) - before)
        before = len(leaders_written)
        if isinstance(result.first, Pending):
            entries += result.first.entries
            desk.submit(list(result.first.entries), result.first.on_durable)
        result = go_on(result.steps)
    return turns, entries


@pytest.mark.parametrize("first", [0, 5])
def test_leaders_are_written_in_turns_and_as_one_change(leaders_written, first):
    desk = ClusterDesk()
    if first:
        desk.ask(creation(first), CREATE)
    del leaders_written[:]
    request = (growth(LARGE), GROW) if first else (creation(LARGE), CREATE)
    turns, entries = turns_of(desk, *request, leaders_written)
    assert max(turns) <= TURN_COST // LEADER_COST + THINGS_PER_STEP
    assert sum(turns) == LARGE - first
    assert len(entries) == 1, "a crash leaves all of it or nothing"
    leaders = leaders_of(desk)
    assert list(leaders) == list(range(LARGE))
    counts = [list(leaders.values()).count(node_id) for node_id in BROKERS]
    assert max(counts) - min(counts) <= 1
    led = [log.partition for log in desk.broker.logs.partitions("large")]
    assert led == [number for number, leader in leaders.items() if leader == 1]
    again = desk.restart()
    assert leaders_of(again) == leaders
    assert again.image.led() == desk.image.led()
    assert [log.partition for log in again.broker.logs.partitions("large")] == led


def test_a_deletion_is_written_in_turns_and_as_one_change(leaders_written):
    desk = ClusterDesk()
    desk.ask(creation(LARGE), CREATE)
    del leaders_written[:]
    turns, entries = turns_of(desk, deletion(), DELETE, leaders_written)
    assert max(turns) <= TURN_COST // LEADER_COST + THINGS_PER_STEP
    assert (sum(turns), len(entries)) == (LARGE, 1)
    for found in (desk, desk.restart()):
        assert leaders_of(found) == {}
        assert found.image.led() == dict.fromkeys(BROKERS, 0)


def test_partitions_added_between_turns_are_placed_and_deleted_with_the_others():
    desk = ClusterDesk()
    desk.ask(creation(LARGE), CREATE)
    slow = desk.decide(deletion(), DELETE)
    assert isinstance(slow, Unfinished)
    assert desk.ask(growth(LARGE + 1), GROW).results[0].error_code == 0
    assert desk.finish(deletion(), DELETE, slow).responses[0].error_code == 0
    for found in (desk, desk.restart()):
        assert found.image.led() == dict.fromkeys(BROKERS, 0)


def test_a_growth_that_another_one_overtook_gives_each_partition_one_leader():
    desk = ClusterDesk()
    desk.ask(creation(1), CREATE)
    slow = desk.decide(growth(LARGE), GROW)
    assert desk.ask(growth(5), GROW).results[0].error_code == 0
    before = leaders_of(desk)
    assert desk.finish(growth(LARGE), GROW, slow).results[0].error_code == 0
    leaders = leaders_of(desk)
    assert {number: leaders[number] for number in before} == before
    assert sum(desk.image.led().values()) == len(leaders) == LARGE


def test_an_assignment_of_a_large_topic_is_kept():
    desk, count = ClusterDesk(), LOGS_AT_ONCE_MAX + 1
    placed = [CreateTopicsRequest.CreatableReplicaAssignment(number, [number % 3 + 1]) for number in range(count)]
    topic = CreateTopicsRequest.CreatableTopic("large", -1, -1, assignments=placed)
    assert desk.ask(CreateTopicsRequest([topic], 1000), CREATE).topics[0].error_code == 0
    assert leaders_of(desk) == {number: number % 3 + 1 for number in range(count)}


def test_metadata_and_descriptions_show_the_leader_of_each_partition():
    desk = ClusterDesk()
    desk.ask(creation(LARGE), CREATE)
    leaders = leaders_of(desk)
    for _ in range(2):  # the second answer reuses partitions of the first
        (topic,) = desk.ask(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="large")]), 12).topics
        assert {it.partition_index: it.leader_id for it in topic.partitions} == leaders
        assert all(it.replica_nodes == it.isr_nodes == [it.leader_id] for it in topic.partitions)
    request = DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.TopicRequest("large")])
    (topic,) = desk.ask(request, 0).topics
    assert {it.partition_index: it.leader_id for it in topic.partitions} == dict(list(leaders.items())[:2_000])


def test_equal_partitions_are_alike_and_others_are_not():
    desk = ClusterDesk()
    desk.ask(creation(7), CREATE)
    topic, leaders = desk.broker.topics.get("large"), leaders_of(desk)
    alike = desk.broker.leadership.alike(topic, range(2, 7))
    assert [leaders[first] for first in alike] == [leaders[number] for number in range(2, 7)]
    assert len(set(alike)) == 3
    assert desk.image.partition(PartitionKey(topic.topic_id, alike[0])) is not None
