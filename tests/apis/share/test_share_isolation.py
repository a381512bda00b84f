"""Transactions in share groups, by `share.isolation.level`."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from tests import transactional_batches
from tests.apis.share.share_desk import ShareDesk, acquired, errors


@pytest.fixture
def desk():
    """A member with a session that begins at the first record."""
    made = ShareDesk()
    made.begin()
    return made


def transaction(desk, producer_id, count, *, is_commit):
    """Append records of a transaction, and its marker."""
    log = desk.desk.broker.logs.find("t", 0)
    records = [NewRecord(b"v", None, desk.desk.now_ms) for _ in range(count)]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    desk.desk.commit([transactional_batches.produce(log, batch, desk.desk.now_ms).entry])
    if is_commit is None:
        return
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id, 0, is_commit, [WriteTxnMarkersRequest.WritableTxnMarkerTopic("t", [0])], 0
    )
    (answer,) = desk.ask(WriteTxnMarkersRequest([marker]), 1).markers
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_archived", [False, True])
def test_read_committed_returns_only_committed_records(is_archived):
    """Aborted records are skipped, also in the archive; open transactions delay records until they end.

    Markers are returned, as by Kafka; consumers recognize them as gaps.
    """
    desk = ShareDesk()
    desk.configure({"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})
    desk.produce(2)  # 0, 1
    transaction(desk, 1, 3, is_commit=False)  # 2 to 4, marker 5
    transaction(desk, 2, 2, is_commit=True)  # 6, 7, marker 8
    desk.produce(1)  # 9
    if is_archived:
        desk.desk.archive_all()
        desk = desk.restart()
    transaction(desk, 3, 2, is_commit=None)  # 10, 11
    desk.produce(1)  # 12
    desk.heartbeat()
    desk.fetch(0, [0])
    seen = [
        number
        for epoch in range(1, 5)
        for first, last, _ in acquired(desk.fetch(epoch))
        for number in range(first, last + 1)
    ]
    first = acquired(desk.fetch(5))
    assert first == []
    desk.fetch(-1)
    again = acquired(desk.fetch(0, [0]))
    assert [number for first, last, _ in again for number in range(first, last + 1)] == [0, 1, 5, 6, 7, 8, 9]
    assert set(seen) <= {0, 1, 5, 6, 7, 8, 9}


def test_read_uncommitted_returns_all_records(desk):
    """Including markers, which consumers recognize as gaps."""
    transaction(desk, 1, 2, is_commit=False)
    answer = desk.fetch(1)
    assert acquired(answer) == [(0, 2, 1)]
    assert errors(desk.acknowledge(2, [(0, 2, [1, 1, 0])])) == [ErrorCode.NONE]
    assert desk.offsets() == [(3, 0)]
