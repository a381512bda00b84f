"""Decoders for the records of internal topics.

Startup, produce requests and the `inspect` command use the same functions. A startup sets aside records that a decoder
rejects, so produce requests with these records are refused.

Counterpart in Kafka: `CoordinatorLoaderImpl`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pipeline_broker.state.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.state.metadata_records import RecordType

__all__ = ["Reader", "is_known_of", "reader_of"]

_TYPE_BYTES = 2

Reader: TypeAlias = Callable[[bytes, bytes | None], Any]
"""Decodes the key and value of a record; returns None for an unknown type.

Raises CorruptStateRecordError if they are malformed.
"""


@functools.cache
def reader_of(topic: str) -> Reader | None:
    if topic == METADATA_TOPIC:
        from pipeline_broker.broker.metadata_record_readers import read_metadata_record  # noqa: PLC0415 - on first use

        return read_metadata_record
    found = _state_records(topic)
    return None if found is None else found[0]


@functools.cache
def is_known_of(topic: str) -> Callable[[bytes | None], bool]:
    """Return a predicate that is False for keys of unknown types, which the decoder of the topic skips.

    A startup calls the predicate before it decodes a record, because a client may have written millions of unknown
    types.
    """
    found = _state_records(topic)
    types = RecordType if found is None else found[1]
    known = frozenset(number.to_bytes(_TYPE_BYTES, "big", signed=True) for number in types)

    def is_known(key: bytes | None) -> bool:
        # A decoder rejects a key without a type, so that it is set aside instead of skipped.
        return key is None or len(key) < _TYPE_BYTES or key[:_TYPE_BYTES] in known

    return is_known


def _state_records(topic: str) -> tuple[Reader, Iterable[int]] | None:
    if topic == OFFSETS_TOPIC:
        from pipeline_broker.state.groups import records as groups  # noqa: PLC0415 - on first use

        return groups.read_group_record, groups.RECORD_TYPES
    if topic == TRANSACTIONS_TOPIC:
        from pipeline_broker.state.transactions import records as transactions  # noqa: PLC0415 - on first use

        return transactions.read_transaction, transactions.RECORD_TYPES
    if topic == SHARE_TOPIC:
        from pipeline_broker.state.share_coordinator import records as share  # noqa: PLC0415 - on first use

        return share.read_share_record, share.RECORD_TYPES
    return None
