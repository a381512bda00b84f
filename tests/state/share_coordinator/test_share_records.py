"""Records of share states: they round-trip, and truncated or impossible ones are corrupt."""

from __future__ import annotations

import struct

import pytest

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.share_coordinator.records import (
    ShareKey,
    read_share_record,
    snapshot_record,
    tombstone_record,
    update_record,
)
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.wire.messages.share.share_state_records import ShareSnapshotValue, ShareUpdateValue

KEY = ShareKey("g", b"t" * 16, 3)


def snapshot(*batches: tuple[int, int, int, int], epoch: int = 0, start: int = 0) -> StateRecord:
    said = [ShareSnapshotValue.StateBatch(*batch) for batch in batches]
    return snapshot_record(KEY, ShareSnapshotValue(epoch, 1, 2, start, 0, 7, 8, said))


def update(*batches: tuple[int, int, int, int]) -> StateRecord:
    said = [ShareUpdateValue.StateBatch(*batch) for batch in batches]
    return update_record(KEY, ShareUpdateValue(1, 2, 5, 0, said))


@pytest.mark.parametrize("make", [snapshot, update])
def test_records_round_trip_and_truncated_ones_are_corrupt(make) -> None:
    record = make((5, 6, 2, 1), (9, 9, 4, 3))
    read = read_share_record(record.key, record.value)
    assert read is not None
    assert read.key == KEY
    assert read.batches == (StateBatch(5, 6, RecordState(2), 1), StateBatch(9, 9, RecordState(4), 3))
    assert record.value is not None
    for length in range(len(record.value)):
        with pytest.raises(CorruptStateRecordError):
            read_share_record(record.key, record.value[:length])
    for length in range(len(record.key)):
        with pytest.raises(CorruptStateRecordError):
            read_share_record(record.key[:length], record.value)


def test_a_record_without_a_value_is_a_tombstone() -> None:
    record = tombstone_record(KEY)
    assert read_share_record(record.key, record.value) == (KEY, None, ())


@pytest.mark.parametrize("key", [struct.pack(">h", 2), struct.pack(">h", -1) + bytes(20)])
def test_unknown_types_are_ignored(key: bytes) -> None:
    assert read_share_record(key, None) is None
    assert read_share_record(key, b"?") is None


@pytest.mark.parametrize(
    "record",
    [
        snapshot(epoch=-1),
        snapshot(start=-2),
        snapshot((6, 5, 2, 1)),
        snapshot((-1, 5, 2, 1)),
        snapshot((5, 5, 9, 1)),
        snapshot((5, 2**63 - 1, 2, 1)),
        snapshot((5, 5, 2, -1)),
    ],
    ids=[
        "snapshot below 0",
        "start below -1",
        "ends first",
        "offset below 0",
        "no state",
        "no offset after it",
        "never",
    ],
)
def test_impossible_states_are_corrupt(record: StateRecord) -> None:
    with pytest.raises(CorruptStateRecordError):
        read_share_record(record.key, record.value)


@pytest.mark.parametrize(
    "record",
    [snapshot(start=-1), snapshot((0, 0, 2, 0)), snapshot((5, 2**63 - 2, 2, 1))],
    ids=["never read", "first offset, not delivered", "highest offset"],
)
def test_extreme_states_are_decoded(record: StateRecord) -> None:
    assert read_share_record(record.key, record.value) is not None
