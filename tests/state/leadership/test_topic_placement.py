"""Leaders of new partitions, and the records that say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import THINGS_PER_STEP, finished
from pipeline_broker.records.batch import build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NodeRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    read_partition,
)
from pipeline_broker.state.leadership.topic_placement import TopicPlacement
from pipeline_broker.state.metadata_records import Topic

ID, OTHER = bytes(16), bytes(15) + b"\1"


def image_of(*nodes, state=NodeState.JOINED):
    image = ClusterImage()
    for node in nodes:
        record = node_record(NodeRecord(node, 1, state))
        image.replay_node(record.key, record.value)
    return image


def leaders(records):
    found = [read_partition(record.key, record.value) for record in records]
    return {key.partition: None if record is None else record.leader for key, record in found}


def place(placement, before, after, assignments=()):
    """Decide about a change."""
    placed = finished(placement.place(before, after, assignments))
    placement.decided(placed)
    return placed


def replayed(*changes, nodes=(1, 2)):
    """Return the image of a broker that applies the records of changes one by one."""
    image = image_of(*nodes)
    for placed in changes:
        for record in placed.records:
            image.apply(*read_partition(record.key, record.value))
    return image


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=8), nodes=st.integers(1, 4), is_durable=st.booleans())
def test_new_topics_spread_evenly_also_before_their_records_are_durable(sizes, nodes, is_durable):
    image = image_of(*range(1, nodes + 1))
    placement, counts = TopicPlacement(image), dict.fromkeys(range(1, nodes + 1), 0)
    for number, size in enumerate(sizes):
        placed = place(placement, None, Topic(f"t{number}", bytes([*bytes(15), number]), size))
        for leader in leaders(placed.records).values():
            counts[leader] += 1
        if is_durable:
            placement.durable(placed)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_added_partitions_get_leaders_and_the_others_keep_theirs():
    image = image_of(1, 2)
    placement = TopicPlacement(image)
    created = place(placement, None, Topic("t", ID, 2))
    placement.durable(created)
    before = dict(image.partitions(ID))
    added = place(placement, Topic("t", ID, 2), Topic("t", ID, 5))
    assert set(leaders(added.records)) == {2, 3, 4}
    assert image.partitions(ID) == before
    placement.durable(added)
    assert image.partitions(ID) == before | added.leaders == replayed(created, added).partitions(ID)
    assert image.led() == replayed(created, added).led()


def test_an_assignment_names_the_leaders():
    placement = TopicPlacement(image_of(1, 2))
    placed = place(placement, None, Topic("t", ID, 3), [[2], [2], [1]])
    assert leaders(placed.records) == {0: 2, 1: 2, 2: 1}
    assert [list(placed.led_by(node)) for node in (1, 2, 3)] == [[2], [0, 1], []]


def test_a_deleted_topic_has_a_tombstone_for_each_partition():
    image = image_of(1, 2)
    placement = TopicPlacement(image)
    created = place(placement, None, Topic("t", ID, 3))
    placement.durable(created)
    gone = place(placement, Topic("t", ID, 3), None)
    assert leaders(gone.records) == {0: None, 1: None, 2: None}
    placement.durable(gone)
    for found in (image, replayed(created, gone)):
        assert not found.partitions(ID)
        assert found.led() == {1: 0, 2: 0}


def test_a_fenced_member_leads_no_new_partition():
    image = image_of(1, 2)
    fenced = node_record(NodeRecord(2, 1, NodeState.FENCED))
    image.replay_node(fenced.key, fenced.value)
    placement = TopicPlacement(image)
    assert placement.broker_ids == [1]
    assert set(leaders(place(placement, None, Topic("t", ID, 4)).records).values()) == {1}


def test_equal_partitions_share_one_record():
    image = image_of(1)
    placement = TopicPlacement(image)
    placement.durable(place(placement, None, Topic("t", ID, 2)))
    image.apply(PartitionKey(OTHER, 0), PartitionRecord(1, 0, (1,)))
    assert image.partition(PartitionKey(ID, 0)) is image.partition(PartitionKey(OTHER, 0))


@pytest.mark.parametrize("after", [Topic("t", ID, 3 * THINGS_PER_STEP), None])
def test_a_large_topic_is_placed_and_encoded_in_steps_with_the_same_records(after):
    before = None if after else Topic("t", ID, 3 * THINGS_PER_STEP)
    placement = TopicPlacement(image_of(1, 2))
    steps = placement.place(before, after)
    for _ in range(3):
        next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    placed = end.value.value
    assert len(list(placed.encode(7))) == 3
    ((header, batch),) = iterate_batches(build_batch(placed.body))
    found = [(record.key, record.value) for record in iterate_records(batch, header)]
    assert found == [tuple(record) for record in placed.records]
    assert len(found) == 3 * THINGS_PER_STEP
