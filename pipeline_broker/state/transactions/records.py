"""Records of `__transaction_state` in Kafka's layouts.

    key   = int16 0, transactional id
    value = int16 version, fields     null: a tombstone

Values are written in version 1 and read in versions 0 and 1. Keys of other types are skipped: another version of the
broker wrote them.
"""

from __future__ import annotations

import functools
import struct

from pipeline_broker.state.coordinator_records import read_record_key, read_record_value, record_key, record_type
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.transactions.states import TransactionState
from pipeline_broker.state.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, Partition, Transaction, by_topic
from pipeline_broker.wire.messages.transactions.transaction_log_record import TransactionLogKey, TransactionLogValue
from pipeline_broker.wire.primitives import write_uvarint

__all__ = ["RECORD_TYPES", "read_transaction", "tombstone", "transaction_record"]

_KEY_TYPE = 0
RECORD_TYPES = (_KEY_TYPE,)
"""Types of keys that `read_transaction` decodes."""
_VALUE_VERSION = 1
_HEAD = struct.Struct(">hqhib")
_TAIL = struct.Struct(">qqB")
_ID_TAG = struct.Struct(">BBq")
_VERSION_TAG = struct.Struct(">BBh")
KEYS_REMEMBERED = 4_096
"""Remembered keys of transaction records."""
# Longer transactional ids are not cached: a client may choose 32 KB.
REMEMBERED_CHARACTERS_MAX = 256
# The other two states are transient and never stored.
STORED_STATES = frozenset(TransactionState) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
# Encoded sets of partitions to cache: producers write to the same ones again and again.
PARTITIONS_REMEMBERED = 1_024
"""Remembered lists of partitions in transaction records."""
# Partitions of a cached set: about 10 KB with the longest topic names.
REMEMBERED_PARTITIONS_MAX = 32


def read_transaction(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """Decode a record to transactional id and transaction, which is None for a tombstone; None for an unknown type.

    Raises:
        CorruptStateRecordError: the record cannot be decoded, or no coordinator stores such a state.
    """
    transactional_id = _read_key(key)
    if transactional_id is None:
        return None
    return transactional_id, None if value is None else _read_value(transactional_id, value)


def _read_key(key: bytes) -> str | None:
    return read_record_key(TransactionLogKey, key).transactional_id if record_type(key) == _KEY_TYPE else None


def _read_value(transactional_id: str, value: bytes) -> Transaction:
    read = read_record_value(TransactionLogValue, value)
    try:
        state = TransactionState(read.transaction_status)
    except ValueError as error:
        raise CorruptStateRecordError(f"value of a transaction: {error}") from error
    others = (read.previous_producer_id, read.next_producer_id)
    is_stored = state in STORED_STATES and read.producer_id >= 0 and min(others) >= NO_PRODUCER_ID
    if not is_stored or read.producer_epoch < NO_EPOCH:
        raise CorruptStateRecordError(
            f"value of a transaction: state {state.title}, producer {read.producer_id}, epoch {read.producer_epoch},"
            f" previous and next producer {others} are not those of a stored transaction"
        )
    topics = read.transaction_partitions or ()
    return Transaction(
        transactional_id=transactional_id,
        producer_id=read.producer_id,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        producer_epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(Partition(topic.topic, index) for topic in topics for index in topic.partition_ids),
        start_ms=read.transaction_start_timestamp_ms,
        updated_ms=read.transaction_last_update_timestamp_ms,
        version=read.client_transaction_version,
    )


def transaction_record(transaction: Transaction) -> StateRecord:
    # Each transaction writes three of these records, and packing the layout here takes a fifth of the codec's time.
    # Fields: version, producer id, producer epoch, timeout, state, partitions, update time, start time, tags.
    it = transaction
    # A null array (0) as long as no transaction exists.
    partitions = b"\0" if it.state is TransactionState.EMPTY else _partitions(it.partitions)
    tags = []
    if it.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_ID_TAG.pack(0, 8, it.previous_producer_id))
    if it.next_producer_id != NO_PRODUCER_ID:
        tags.append(_ID_TAG.pack(1, 8, it.next_producer_id))
    if it.version:
        tags.append(_VERSION_TAG.pack(2, 2, it.version))
    head = _HEAD.pack(_VALUE_VERSION, it.producer_id, it.producer_epoch, it.timeout_ms, it.state)
    tail = _TAIL.pack(it.updated_ms, it.start_ms, len(tags))
    return StateRecord(_key(it.transactional_id), b"".join([head, partitions, tail, *tags]))


def tombstone(transactional_id: str) -> StateRecord:
    return StateRecord(_key(transactional_id), None)


def _partitions(partitions: frozenset[Partition]) -> bytes:
    few = len(partitions) <= REMEMBERED_PARTITIONS_MAX
    return _remembered_partitions(partitions) if few else _remembered_partitions.__wrapped__(partitions)


@functools.lru_cache(PARTITIONS_REMEMBERED)
def _remembered_partitions(partitions: frozenset[Partition]) -> bytes:
    """Encode the array of topics: each with its name, the array of its partitions, and no tags."""
    topics = by_topic(partitions)
    data = bytearray()
    data += write_uvarint(len(topics) + 1)
    for topic, numbers in topics:
        name = topic.encode()
        data += write_uvarint(len(name) + 1)
        data += name
        data += write_uvarint(len(numbers) + 1)
        data += struct.pack(f">{len(numbers)}ix", *numbers)  # `x`: no tags
    return bytes(data)


def _key(transactional_id: str) -> bytes:
    short = len(transactional_id) <= REMEMBERED_CHARACTERS_MAX
    return _remembered_key(transactional_id) if short else _remembered_key.__wrapped__(transactional_id)


@functools.lru_cache(KEYS_REMEMBERED)
def _remembered_key(transactional_id: str) -> bytes:
    return record_key(_KEY_TYPE, TransactionLogKey(transactional_id))
