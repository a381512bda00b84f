"""Decoders for the records of internal topics.

Startup, produce requests and the `inspect` command use the same functions. A startup sets aside records that a decoder
rejects, so produce requests with such records are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pipeline_broker.state.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC

__all__ = ["Reader", "is_known_of", "metadata_readers", "reader_of"]

_TYPE_BYTES = 2

Reader: TypeAlias = Callable[[bytes, bytes | None], Any]
"""Decodes the key and value of a record; returns None for an unknown type.

Raises CorruptStateRecordError if they are malformed.
"""


@functools.cache
def reader_of(topic: str) -> Reader | None:
    """Return the decoder for records of a topic; None if the topic holds no state."""
    match topic:
        case _ if topic == OFFSETS_TOPIC:
            from pipeline_broker.state.groups.records import read_group_record  # noqa: PLC0415 - on first use

            return read_group_record
        case _ if topic == TRANSACTIONS_TOPIC:
            from pipeline_broker.state.transactions.records import read_transaction  # noqa: PLC0415 - on first use

            return read_transaction
        case _ if topic == SHARE_TOPIC:
            from pipeline_broker.state.share_coordinator.records import read_share_record  # noqa: PLC0415 - on first use

            return read_share_record
        case _ if topic == METADATA_TOPIC:
            return _read_metadata
    return None


@functools.cache
def is_known_of(topic: str) -> Callable[[bytes | None], bool]:
    """Return a predicate for keys: whether `reader_of` the topic decodes or rejects them, rather than skipping them.

    A startup calls it for each record before it decodes the record: a client may have written millions of unknown
    types.
    """
    types: Iterable[int]
    match topic:
        case _ if topic == OFFSETS_TOPIC:
            from pipeline_broker.state.group_records import OFFSET_TYPES  # noqa: PLC0415 - on first use
            from pipeline_broker.state.groups.records import RECORD_OWNERS  # noqa: PLC0415 - on first use

            types = (*OFFSET_TYPES, *RECORD_OWNERS)
        case _ if topic == TRANSACTIONS_TOPIC:
            from pipeline_broker.state.transactions import records as transactions  # noqa: PLC0415 - on first use

            types = transactions.RECORD_TYPES
        case _ if topic == SHARE_TOPIC:
            from pipeline_broker.state.share_coordinator import records as share  # noqa: PLC0415 - on first use

            types = share.RECORD_TYPES
        case _:
            from pipeline_broker.state.metadata_records import RecordType  # noqa: PLC0415 - on first use

            types = RecordType  # not `metadata_readers()`: that would import users, access rules and quotas
    known = frozenset(number.to_bytes(_TYPE_BYTES, "big", signed=True) for number in types)

    def is_known(key: bytes | None) -> bool:
        # A decoder rejects a key without a type, so that it is set aside instead of skipped.
        return key is None or len(key) < _TYPE_BYTES or key[:_TYPE_BYTES] in known

    return is_known


def _read_metadata(key: bytes, value: bytes | None) -> Any:
    from pipeline_broker.state.metadata_records import record_type  # noqa: PLC0415 - on first use

    reader = metadata_readers().get(record_type(key))
    return None if reader is None else reader(key, value)


@functools.cache
def metadata_readers() -> Mapping[int, Reader]:
    """Return the decoders for records of `__cluster_metadata`, by record type."""
    from pipeline_broker.quotas.client_quotas import read_quotas  # noqa: PLC0415 - on first use
    from pipeline_broker.security.acls import read_binding  # noqa: PLC0415 - on first use
    from pipeline_broker.security.delegation_tokens import read_token  # noqa: PLC0415 - on first use
    from pipeline_broker.security.scram_users import read_credential  # noqa: PLC0415 - on first use
    from pipeline_broker.state.cluster import read_cluster_id, read_settings  # noqa: PLC0415 - on first use
    from pipeline_broker.state.features import read_feature  # noqa: PLC0415 - on first use
    from pipeline_broker.state.log_starts import read_log_start  # noqa: PLC0415 - on first use
    from pipeline_broker.state.metadata_records import (  # noqa: PLC0415 - on first use
        RecordType,
        read_producer_ids,
        read_topic_record,
    )

    return {
        RecordType.TOPIC: read_topic_record,
        RecordType.PRODUCER_IDS: read_producer_ids,
        RecordType.CLUSTER: read_cluster_id,
        RecordType.SETTINGS: read_settings,
        RecordType.SCRAM_USER: read_credential,
        RecordType.CLIENT_QUOTA: read_quotas,
        RecordType.ACL: read_binding,
        RecordType.LOG_START: read_log_start,
        RecordType.FEATURE: read_feature,
        RecordType.DELEGATION_TOKEN: read_token,
    }
