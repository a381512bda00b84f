"""The share coordinator: snapshots and updates, replay, epochs, redundant records."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.share_coordinator.combining import combine
from pipeline_broker.state.share_coordinator.records import ShareKey, read_share_record, snapshot_record
from pipeline_broker.state.share_coordinator.share_states import ShareStateError, ShareStates, StateWrite, Summary
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.wire.messages.share.share_state_records import ShareSnapshotValue
from tests.state.replaying import replay_share

KEY = ShareKey("g", b"t" * 16, 3)
OTHER = ShareKey("g", b"t" * 16, 4)
AVAILABLE, _, ACKNOWLEDGED, ARCHIVED = RecordState


def replayed(writes, updates_max=500):
    states = ShareStates(updates_max)
    for offset, write in enumerate(writes):
        for record in write.records:
            replay_share(states, record, offset)
    return states


def seen(states, key=KEY):
    state = states.find(key)
    return None if state is None else (state.start_offset, state.state_epoch, state.leader_epoch, state.batches)


def test_the_first_record_and_every_nth_are_snapshots():
    """With two updates per snapshot, the next record is a snapshot of the whole state."""
    states = ShareStates(updates_max=2)
    writes = [states.initialize(KEY, 1, 0, 0)]
    for offset in range(1, 6):
        batch = StateBatch(offset + 10, offset + 10, ACKNOWLEDGED, 1)
        writes.append(states.write(KEY, StateWrite(1, 0, offset, 1, [batch]), 0))
    kinds = [
        isinstance(read_share_record(record.key, record.value).value, ShareSnapshotValue)
        for write in writes
        for record in write.records
    ]
    assert kinds == [True, False, False, True, False, False]
    for length in range(1, len(writes) + 1):
        whole = replayed(writes[:length], 2)
        assert whole.find(KEY).start_offset == length - 1
    assert seen(replayed(writes, 2)) == seen(states)
    for length in range(1, len(writes) + 1):
        states.durable(writes[:length])
        assert replayed(writes[:length], 2).summary(KEY) == states.summary(KEY), "the summary is durable"
    assert seen(replayed(writes[3:], 2)) == seen(states), "a snapshot needs no earlier record"
    assert replayed(writes[1:3], 2).find(KEY) is None, "an update alone says nothing"


def test_summaries_show_durable_state_only():
    """The next write builds on a pending one, but clients do not see it."""
    states = ShareStates()
    first = states.initialize(KEY, 1, 0, 0)
    assert states.summary(KEY) is None
    states.durable([first])
    write = states.write(KEY, StateWrite(1, 0, 5, 2), 0)
    assert (states.find(KEY).start_offset, states.summary(KEY)) == (5, Summary(1, 0, 0, 0))
    states.durable([write])
    assert states.summary(KEY) == Summary(1, 0, 5, 2)


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (StateWrite(0, 2, 5), ErrorCode.FENCED_STATE_EPOCH),
        (StateWrite(1, 1, 5), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_earlier_epochs_are_fenced(write, code):
    """Leaders with lower epochs and earlier initializations cannot overwrite the state."""
    states = ShareStates()
    states.initialize(KEY, 1, 0, 0)
    states.set_leader_epoch(KEY, 2, 0)
    with pytest.raises(ShareStateError) as refused:
        states.write(KEY, write, 0)
    assert refused.value.code is code
    with pytest.raises(ShareStateError):
        states.initialize(KEY, 0, 0, 0)


def test_initialization_counts_snapshots_and_leaders_from_0():
    states = ShareStates()
    (record,) = states.initialize(KEY, 1, 5, 17).records
    value = read_share_record(record.key, record.value).value
    assert (value.snapshot_epoch, value.leader_epoch, value.state_epoch, value.start_offset) == (0, 0, 1, 5)
    assert (value.create_timestamp, value.write_timestamp, value.delivery_complete_count) == (17, 17, 0)


@pytest.mark.parametrize(("start_offset", "count"), [(0, 0), (9, 0), (-1, -1)])
def test_another_initialization_resets_the_complete_count(start_offset, count):
    """It is unknown if the start offset is."""
    states = ShareStates()
    states.initialize(KEY, 1, 0, 0)
    states.set_leader_epoch(KEY, 3, 0)
    states.write(KEY, StateWrite(1, 3, 4, 2, [StateBatch(6, 7, ACKNOWLEDGED, 1)]), 0)
    states.initialize(KEY, 2, start_offset, 0)
    assert seen(states) == (start_offset, 2, 0, ())
    assert states.find(KEY).delivery_complete_count == count


def test_the_snapshot_epoch_wraps_around():
    """A record may hold any number; the next one can be written and replayed."""
    record = snapshot_record(KEY, ShareSnapshotValue(snapshot_epoch=2**31 - 1, state_epoch=1, start_offset=0))
    for write in (lambda states: states.snapshot(KEY, 0), lambda states: states.initialize(KEY, 1, 0, 0)):
        states = ShareStates()
        replay_share(states, record, 0)
        assert replayed([write(states)]).find(KEY).snapshot_epoch == 1


def test_uninitialized_share_partitions_are_neither_read_nor_written():
    states = ShareStates()
    for ask in (lambda: states.read(KEY, 0), lambda: states.write(KEY, StateWrite(0, 0, 0), 0)):
        with pytest.raises(ShareStateError, match="uninitialized"):
            ask()


def test_a_tombstone_deletes_the_state():
    """Also in a replay; unknown share partitions get no tombstone."""
    states = ShareStates()
    writes = [states.initialize(KEY, 1, 0, 0), *states.delete([KEY, OTHER])]
    assert [len(write.records) for write in writes] == [1, 1]
    assert states.find(KEY) is None
    assert replayed(writes).find(KEY) is None


@given(st.lists(st.tuples(st.sampled_from(["begin", "delete", "replay", "forget"]), st.integers(0, 7)), max_size=40))
def test_the_indexes_by_group_and_topic_match_all_states(story):
    keys = [ShareKey(group, topic * 16, partition) for group in "gh" for topic in (b"t", b"u") for partition in (0, 1)]
    states = ShareStates()
    for deed, number in story:
        key = keys[number]
        if deed == "begin":
            states.initialize(key, -1, 0, 0)
        elif deed == "delete":
            states.delete([key])
        else:
            (record,) = ShareStates().initialize(key, 1, 0, 0).records
            replay_share(states, record._replace(value=None) if deed == "forget" else record, 0)
        for group in "gh":
            assert states.keys_of_group(group) == sorted(each for each in states.all() if each.group_id == group)
        for topic in (b"t" * 16, b"u" * 16):
            assert states.keys_of_topic(topic) == sorted(each for each in states.all() if each.topic_id == topic)


def test_only_the_newest_leader_reads_a_state():
    states = ShareStates()
    with pytest.raises(ShareStateError) as refused:
        states.read(KEY, 0)
    assert (refused.value.code, len(states)) == (ErrorCode.INVALID_REQUEST, 0)
    states.initialize(KEY, 0, 7, 0)
    states.set_leader_epoch(KEY, 5, 0)
    states.write(KEY, StateWrite(0, 5, 9), 0)
    assert (states.read(KEY, 5).start_offset, states.read(KEY, -1).start_offset, len(states)) == (9, 9, 1)
    with pytest.raises(ShareStateError) as refused:
        states.read(KEY, 4)
    assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_records_before_every_snapshot_are_redundant():
    states = ShareStates(updates_max=1)
    writes = [states.initialize(KEY, 0, 0, 0), states.initialize(OTHER, 0, 0, 0)]
    writes += [states.write(KEY, StateWrite(0, 0, offset), 0) for offset in range(4)]
    states = replayed(writes, 1)
    assert states.redundant_before([KEY, OTHER], 9) == 1
    assert states.redundant_before([KEY], 9) == 5
    assert states.redundant_before([], 9) == 9
    states.appended(states.snapshot(OTHER, 0), 6)
    assert states.redundant_before([KEY, OTHER], 9) == 5


def test_group_topic_and_partition_select_the_partition():
    """With the topic id in base 64, as in Kafka."""
    assert ShareStates.subject(ShareKey("g", bytes(16), 3)) == "g:AAAAAAAAAAAAAAAAAAAAAA:3"


def test_only_the_offset_of_a_snapshot_is_remembered():
    states = ShareStates(updates_max=1)
    writes = [states.initialize(KEY, 0, 0, 0)]
    places = []
    for offset in range(5, 10):
        states.appended(writes[-1], offset)
        places.append(states.find(KEY).snapshot_offset)
        writes.append(states.write(KEY, StateWrite(0, 0, offset), 0))
    assert places == [5, 5, 7, 7, 9]
    (tombstone,) = states.delete([KEY])
    states.appended(tombstone, 10)
    assert states.find(KEY) is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00", b"\x00\x01\x00\x09g"])
def test_corrupt_keys_raise_an_error(data):
    """Keys of unknown types are skipped instead."""
    with pytest.raises(CorruptStateRecordError):
        read_share_record(data, b"")
    assert read_share_record(b"\x00\x63anything", b"") is None


def test_corrupt_values_raise_an_error():
    states = ShareStates()
    write = states.initialize(KEY, 0, 0, 0)
    (record,) = write.records
    for value in (record.value[:-3], b"", b"\x00\x09" + record.value[2:]):
        with pytest.raises(CorruptStateRecordError):
            read_share_record(record.key, value)


def test_reading_sets_the_leader_epoch_and_writing_does_not():
    states = ShareStates(updates_max=2)
    writes = [states.initialize(KEY, 1, 0, 0), states.set_leader_epoch(KEY, 3, 0)]
    writes += [states.write(KEY, StateWrite(1, leader_epoch, 0), 0) for leader_epoch in (4, -1, 5, 5, 5)]
    assert states.find(KEY).leader_epoch == 3
    assert [replayed(writes[: length + 1]).find(KEY).leader_epoch for length in range(len(writes))] == [0, *[3] * 6]


@pytest.mark.parametrize("updates_max", [0, 500], ids=["snapshots", "updates"])
@pytest.mark.parametrize(
    ("start_offset", "count", "expected"),
    [(-1, 3, (10, 4)), (9, 5, (10, 4)), (10, 3, (10, 4)), (10, 5, (10, 5)), (11, 1, (11, 1))],
)
def test_a_write_never_lowers_the_start_offset_and_counts_complete_records_from_it(
    updates_max, start_offset, count, expected
):
    states = ShareStates(updates_max)
    writes = [
        states.initialize(KEY, 1, 0, 0),
        states.write(KEY, StateWrite(1, 0, 10, 4), 0),
        states.write(KEY, StateWrite(1, 0, start_offset, count), 0),
    ]
    assert (states.find(KEY).start_offset, states.find(KEY).delivery_complete_count) == expected
    assert seen(replayed(writes, updates_max)) == seen(states)


def test_another_initialization_resets_the_leader_and_fences_earlier_ones():
    states = ShareStates()
    writes = [states.initialize(KEY, 1, 0, 0), states.set_leader_epoch(KEY, 3, 0), states.initialize(KEY, 2, 0, 0)]
    states.durable(writes)
    for found in (states, replayed(writes)):
        assert found.summary(KEY).leader_epoch == 0
        with pytest.raises(ShareStateError):
            found.read(KEY, 2)
        assert found.read(KEY, 3).state_epoch == 2


@pytest.mark.parametrize(
    ("first", "last", "count", "is_read"),
    [
        (0, 0, 0, True),
        (5, 9, 3, True),
        (0, 2**63 - 2, 1, True),
        (0, 2**63 - 1, 1, False),
        (-1, 3, 1, False),
        (5, 4, 1, False),
        (5, 9, -1, False),
    ],
)
def test_batches_need_possible_offsets(first, last, count, is_read):
    states = ShareStates()
    states.initialize(KEY, 0, 0, 0)
    states.find(KEY).batches = (StateBatch(first, last, ACKNOWLEDGED, count),)
    (record,) = states.snapshot(KEY, 0).records
    if is_read:
        read_share_record(record.key, record.value)
    else:
        with pytest.raises(CorruptStateRecordError, match="delivery count"):
            read_share_record(record.key, record.value)


BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 9),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(1, 3),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(0, 40))
def test_the_batch_with_more_deliveries_wins(known, told, start_offset):
    """For each record the larger (deliveries, state), after the start, in order, joined, without overlaps."""
    expected = {}
    for batch in known + told:
        for offset in range(batch.first, batch.last + 1):
            said = (batch.delivery_count, batch.state)
            if offset >= start_offset:
                expected[offset] = max(expected.get(offset, said), said)
    found = combine(combine((), known, 0), told, start_offset)
    assert expected == {
        offset: (batch.delivery_count, batch.state) for batch in found for offset in range(batch.first, batch.last + 1)
    }
    assert all(batch.first <= batch.last for batch in found), "none is of nothing"
    for before, after in itertools.pairwise(found):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:], "neighbours that agree are one"


def test_an_update_of_another_snapshot_is_ignored():
    """Its own snapshot was deleted, or the share partition was initialized again."""
    states = ShareStates(updates_max=2)
    writes = [states.initialize(KEY, 1, 0, 0)]
    writes += [states.write(KEY, StateWrite(1, 0, offset, 1), 0) for offset in range(1, 5)]
    snapshot, update, _, later, late = writes
    assert replayed([snapshot, update]).find(KEY).start_offset == 1
    assert replayed([snapshot, late]).find(KEY).start_offset == 0
    assert replayed([later, update]).find(KEY).start_offset == 3
    assert replayed([later, late]).find(KEY).start_offset == 4
