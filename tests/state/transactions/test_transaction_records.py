"""Records of `__transaction_state`, byte for byte as in Kafka."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.transactions import records
from pipeline_broker.state.transactions.records import STORED_STATES, read_transaction, tombstone, transaction_record
from pipeline_broker.state.transactions.states import TransactionState
from pipeline_broker.state.transactions.transaction import Partition, Transaction
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.messages.transactions.transaction_log_record import TransactionLogValue

KEY = tombstone("x").key
INT64, INT16, INT32 = st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(0, 2**31 - 1)
PARTITIONS = st.frozensets(st.builds(Partition, st.sampled_from(["t", "u", "__consumer_offsets"]), st.integers(0, 9)))


@st.composite
def transactions(draw):
    state = draw(st.sampled_from(sorted(STORED_STATES)))
    return Transaction(
        transactional_id=draw(st.text(max_size=20)),
        producer_id=draw(st.integers(0, 2**63 - 1)),
        previous_producer_id=draw(INT64),
        next_producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        timeout_ms=draw(INT32),
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else draw(PARTITIONS),
        start_ms=draw(INT64),
        updated_ms=draw(INT64),
        version=draw(st.sampled_from([0, 2])),
    )


@given(transactions())
def test_transactions_round_trip(transaction):
    record = transaction_record(transaction)
    assert read_transaction(record.key, record.value) == (transaction.transactional_id, transaction)


@given(transactions())
def test_packed_records_equal_those_of_the_codec(it):
    topics = {}
    for partition in sorted(it.partitions):
        topics.setdefault(partition.topic, []).append(partition.number)
    value = TransactionLogValue(
        producer_id=it.producer_id,
        previous_producer_id=it.previous_producer_id,
        next_producer_id=it.next_producer_id,
        producer_epoch=it.producer_epoch,
        transaction_timeout_ms=it.timeout_ms,
        transaction_status=it.state,
        transaction_partitions=None
        if it.state is TransactionState.EMPTY
        else [TransactionLogValue.PartitionsSchema(topic, numbers) for topic, numbers in topics.items()],
        transaction_last_update_timestamp_ms=it.updated_ms,
        transaction_start_timestamp_ms=it.start_ms,
        client_transaction_version=it.version,
    )
    assert transaction_record(it).value == b"".join([b"\0\x01", *encode(value, 1)])


def test_the_layout_is_kafkas():
    transaction = Transaction(
        transactional_id="x",
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=2,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=frozenset({Partition("t", 1), Partition("t", 0)}),
        start_ms=11,
        updated_ms=12,
        version=2,
    )
    record = transaction_record(transaction)
    assert record.key == b"\0\0\0\x01x"
    partitions = b"\x02" + b"\x02t" + b"\x03" + struct.pack(">ii", 0, 1) + b"\0"
    tags = b"\x02" + b"\0\x08" + struct.pack(">q", 7) + b"\x02\x02" + struct.pack(">h", 2)
    assert record.value == (
        b"\0\x01" + struct.pack(">qhib", 7, 2, 60_000, 1) + partitions + struct.pack(">qq", 12, 11) + tags
    )
    assert tombstone("x").key == record.key
    assert tombstone("x").value is None


def test_a_value_of_version_0_is_decoded():
    value = b"\0\0" + struct.pack(">qhib", 7, 2, 60_000, 0) + b"\xff\xff\xff\xff" + struct.pack(">qq", 12, -1)
    _, read = read_transaction(KEY, value)
    assert (read.producer_id, read.producer_epoch, read.partitions, read.updated_ms) == (7, 2, frozenset(), 12)


def test_a_key_of_another_type_is_ignored():
    assert read_transaction(b"\0\x07whatever", b"") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\x05x"])
def test_an_undecodable_key_is_corrupt(key):
    with pytest.raises(CorruptStateRecordError):
        read_transaction(key, None)


@given(transactions(), st.data())
def test_a_truncated_value_is_corrupt(transaction, data):
    value = transaction_record(transaction).value
    with pytest.raises(CorruptStateRecordError):
        read_transaction(KEY, value[: data.draw(st.integers(0, len(value) - 1))])


@pytest.mark.parametrize("value", [b"\0\x02", b"\0\0" + struct.pack(">qhib", 7, 2, 1, 9) + b"\xff" * 20])
def test_an_unknown_version_or_state_is_corrupt(value):
    with pytest.raises(CorruptStateRecordError):
        read_transaction(KEY, value)


@pytest.mark.parametrize(("producer_id", "epoch", "state"), [(-1, 2, 0), (7, -2, 0), (7, 2, 6), (7, 2, 7)])
def test_impossible_transactions_are_corrupt(producer_id, epoch, state):
    """No producer, an epoch below the first, and the two transient states."""
    value = b"\0\0" + struct.pack(">qhib", producer_id, epoch, 1, state) + b"\0" * 4 + struct.pack(">qq", 12, -1)
    with pytest.raises(CorruptStateRecordError):
        read_transaction(KEY, value)


def test_a_producer_without_an_epoch_is_decoded():
    value = b"\0\0" + struct.pack(">qhib", 0, -1, 1, 0) + b"\0" * 4 + struct.pack(">qq", 12, -1)
    _, read = read_transaction(KEY, value)
    assert (read.producer_id, read.producer_epoch) == (0, -1)


def test_long_ids_and_large_sets_of_partitions_are_not_cached():
    for cached in (records._remembered_key, records._remembered_partitions):
        cached.cache_clear()
    for size in (records.REMEMBERED_CHARACTERS_MAX, records.REMEMBERED_CHARACTERS_MAX + 1, 32_000):
        assert records._key("x" * size) == records._remembered_key.__wrapped__("x" * size)
    for size in (records.REMEMBERED_PARTITIONS_MAX, records.REMEMBERED_PARTITIONS_MAX + 1, 1_000):
        partitions = frozenset(Partition("t", number) for number in range(size))
        assert records._partitions(partitions) == records._remembered_partitions.__wrapped__(partitions)
    assert records._remembered_key.cache_info().currsize == 1
    assert records._remembered_partitions.cache_info().currsize == 1
