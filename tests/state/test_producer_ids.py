"""Producer ids are never allocated twice, whatever is durable before a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.producer_ids import BLOCK_SIZE, ProducerIds


@given(st.lists(st.sampled_from(["allocate", "many", "settle", "crash"]), max_size=40))
def test_no_id_is_allocated_twice(actions) -> None:
    """Ids of durable writes, which clients may have, are not allocated again after a restart."""
    ids, told, pending, journal = ProducerIds(), set(), [], []
    for action in actions:
        if action == "settle":
            for producer_id, write in pending:
                journal += write.records
                ids.durable(write)
                told.add(producer_id)
            pending.clear()
        elif action == "crash":
            pending.clear()
            ids = ProducerIds()
            for record in journal:
                ids.replay(record.key, record.value)
        else:
            for _ in range(BLOCK_SIZE // 3 if action == "many" else 1):
                allocation = ids.allocate()
                assert allocation.producer_id not in told
                if allocation.write is None:
                    told.add(allocation.producer_id)
                else:
                    pending.append((allocation.producer_id, allocation.write))


def test_one_record_per_block() -> None:
    ids = ProducerIds()
    writes = 0
    for _ in range(3 * BLOCK_SIZE):
        allocation = ids.allocate()
        if allocation.write is not None:
            writes += 1
            ids.durable(allocation.write)
    assert writes == 3


def test_records_of_other_types_are_ignored() -> None:
    ids = ProducerIds()
    ids.replay(b"\0\1topic", b"whatever")
    assert ids.allocate().producer_id == 0
    with pytest.raises(CorruptStateRecordError):
        ids.replay(b"\0\2", b'\0\0{"next":"x"}')
