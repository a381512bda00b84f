"""Aborted batches and spent markers during compaction."""

import pytest

from pipeline_broker.log.compaction.transactions import AbortedTransaction, TransactionsRead
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.control_batch import ABORT, COMMIT
from pipeline_broker.records.errors import InvalidRecord
from tests.log.compaction.logs import marker, placed


def data(offset, producer_id=1, *, transactional=True):
    batch = build_batch([NewRecord(b"v", b"k")], offset, producer_id=producer_id, transactional=transactional)
    return read_header(batch)


def end(transactions, offset, kind, producer_id=1):
    batch = placed(marker(producer_id, kind, 0), offset)
    return transactions.is_spent(read_header(batch), batch)


def test_a_batch_is_aborted_by_its_producer_and_offset():
    transactions = TransactionsRead([AbortedTransaction(1, 10, 20), AbortedTransaction(1, 40, 50)])
    offsets = {5: False, 10: True, 19: True, 21: False, 40: True, 49: True, 51: False}
    assert {offset: transactions.is_aborted(data(offset)) for offset in offsets} == offsets
    others = TransactionsRead([AbortedTransaction(1, 10, 20)])
    assert not others.is_aborted(data(15, producer_id=2))
    assert not others.is_aborted(data(15, transactional=False))


@pytest.mark.parametrize(("offset", "is_aborted"), [(36, False), (40, True), (46, False)])
def test_a_batch_after_many_empty_aborted_transactions_is_aborted_only_by_its_own(offset, is_aborted):
    transactions = TransactionsRead([AbortedTransaction(1, first, first + 5) for first in (10, 20, 30, 40)])
    assert transactions.is_aborted(data(offset)) is is_aborted


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_is_spent_when_none_of_its_data_was_read(kind):
    transactions = TransactionsRead([AbortedTransaction(1, 0, 1)] if kind == ABORT else [])
    transactions.is_aborted(data(0))
    assert not end(transactions, 1, kind)
    assert end(transactions, 2, kind), "the next transaction had no data"
    transactions.is_aborted(data(3, producer_id=2))
    assert end(transactions, 4, kind), "data of another producer does not count"


def test_an_aborted_transaction_stays_in_the_index_while_it_had_data():
    transaction, empty = AbortedTransaction(1, 0, 1), AbortedTransaction(2, 2, 3)
    transactions = TransactionsRead([transaction, empty])
    transactions.is_aborted(data(0))
    end(transactions, 1, ABORT)
    end(transactions, 3, ABORT, producer_id=2)
    assert transactions.retained == [transaction]


def test_an_abort_marker_missing_from_the_index_is_kept_after_its_data():
    transactions = TransactionsRead()
    assert not transactions.is_aborted(data(0))
    assert not end(transactions, 1, ABORT)
    assert transactions.retained == []


def test_other_control_records_are_never_spent():
    for kind in (2, 3, 4, 5, 6, 77):
        assert not end(TransactionsRead(), 0, kind)


def test_a_control_record_without_a_type_is_refused():
    batch = build_batch([NewRecord(b"", b"\0")], producer_id=1, transactional=True, control=True)
    with pytest.raises(InvalidRecord):
        TransactionsRead().is_spent(read_header(batch), batch)
