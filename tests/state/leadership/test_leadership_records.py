"""Records of nodes, partitions and openings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NO_NODE,
    ListenerAddress,
    NodeRecord,
    OpenRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    open_record,
    partition_record,
    read_node,
    read_open,
    read_partition,
)

IDS = st.integers(0, 2**31 - 1)
KEYS = st.builds(PartitionKey, st.binary(min_size=16, max_size=16), IDS)
NAMES = st.text(max_size=40)
LEADERS = IDS | st.just(NO_NODE)
PARTITIONS = st.builds(PartitionRecord, LEADERS, IDS, st.lists(IDS, max_size=5).map(tuple), LEADERS, NAMES)
ENDPOINTS = st.dictionaries(NAMES, st.builds(ListenerAddress, NAMES, st.integers(0, 65535)), max_size=3)
NODES = st.builds(NodeRecord, IDS, st.integers(1, 2**63 - 1), st.sampled_from(NodeState), ENDPOINTS)


@given(NODES)
def test_a_node_is_read_as_it_was_written(node):
    record = node_record(node)
    assert read_node(record.key, record.value) == node


@given(KEYS, PARTITIONS)
def test_a_partition_is_read_as_it_was_written(key, partition):
    record = partition_record(key, partition)
    assert read_partition(record.key, record.value) == (key, partition)
    assert read_partition(record.key, None) == (key, None)


@given(KEYS, st.builds(OpenRecord, IDS, NAMES) | st.none())
def test_an_opening_is_read_as_it_was_written(key, opened):
    record = open_record(key, opened)
    assert read_open(record.key, record.value) == (key, opened)


def test_a_partition_of_three_candidates_takes_less_than_60_bytes():
    record = partition_record(PartitionKey(bytes(16), 3), PartitionRecord(1, 7, (1, 2, 3)))
    assert len(record.key) + len(record.value) < 60


@pytest.mark.parametrize("read", [read_node, read_partition, read_open])
@given(st.binary(max_size=40), st.binary(max_size=60))
def test_other_bytes_are_refused_or_read(read, key, value):
    for content in (value, b"\0\0" + value, None):
        try:
            read(key, content)
        except CorruptStateRecordError:
            continue


@given(KEYS, PARTITIONS, st.data())
def test_a_partition_that_is_cut_off_is_refused(key, partition, data):
    record = partition_record(key, partition)
    fixed = len(record.value) - len(partition.handed.encode())
    with pytest.raises(CorruptStateRecordError):
        read_partition(record.key, record.value[: data.draw(st.integers(0, fixed - 1))])


@pytest.mark.parametrize(
    ("leader", "epoch", "candidates", "wanted"),
    [(-2, 0, (), -1), (0, -1, (), -1), (0, 0, (-1,), -1), (0, 0, (), -2)],
)
def test_numbers_out_of_range_are_refused(leader, epoch, candidates, wanted):
    record = partition_record(PartitionKey(bytes(16), 0), PartitionRecord(leader, epoch, candidates, wanted))
    with pytest.raises(CorruptStateRecordError):
        read_partition(record.key, record.value)
