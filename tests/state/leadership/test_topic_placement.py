"""Leaders of new partitions, and the records that say so."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import NodeRecord, PartitionKey, node_record, read_partition
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


def apply(image, records):
    for record in records:
        image.apply(*read_partition(record.key, record.value))


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=8), nodes=st.integers(1, 4), is_durable=st.booleans())
def test_new_topics_spread_evenly_also_before_their_records_are_durable(sizes, nodes, is_durable):
    image = image_of(*range(1, nodes + 1))
    placement, counts = TopicPlacement(image), dict.fromkeys(range(1, nodes + 1), 0)
    for number, size in enumerate(sizes):
        records = placement.records(None, Topic(f"t{number}", bytes([*bytes(15), number]), size))
        for leader in leaders(records).values():
            counts[leader] += 1
        if is_durable:
            apply(image, records)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_added_partitions_get_leaders_and_the_others_keep_theirs():
    image = image_of(1, 2)
    placement = TopicPlacement(image)
    apply(image, placement.records(None, Topic("t", ID, 2)))
    before = dict(image.partitions(ID))
    added = placement.records(Topic("t", ID, 2), Topic("t", ID, 5))
    assert set(leaders(added)) == {2, 3, 4}
    assert image.partitions(ID) == before


def test_an_assignment_names_the_leaders():
    placement = TopicPlacement(image_of(1, 2))
    assert leaders(placement.records(None, Topic("t", ID, 3), [[2], [2], [1]])) == {0: 2, 1: 2, 2: 1}


def test_a_deleted_topic_has_a_tombstone_for_each_partition():
    image = image_of(1, 2)
    placement = TopicPlacement(image)
    apply(image, placement.records(None, Topic("t", ID, 3)))
    gone = placement.records(Topic("t", ID, 3), None)
    assert leaders(gone) == {0: None, 1: None, 2: None}
    apply(image, gone)
    assert not image.partitions(ID)
    assert image.led() == {1: 0, 2: 0}


def test_a_fenced_member_leads_no_new_partition():
    image = image_of(1, 2)
    fenced = node_record(NodeRecord(2, 1, NodeState.FENCED))
    image.replay_node(fenced.key, fenced.value)
    placement = TopicPlacement(image)
    assert placement.broker_ids == [1]
    assert set(leaders(placement.records(None, Topic("t", ID, 4))).values()) == {1}


def test_equal_partitions_share_one_record():
    image = image_of(1)
    apply(image, TopicPlacement(image).records(None, Topic("t", ID, 2)))
    apply(image, TopicPlacement(image).records(None, Topic("u", OTHER, 1)))
    assert image.partition(PartitionKey(ID, 0)) is image.partition(PartitionKey(OTHER, 0))
