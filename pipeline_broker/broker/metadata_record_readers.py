"""Decoders for the records of `__cluster_metadata`.

The decoders import users, access rules and quotas, so this module is loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeline_broker.quotas.client_quotas import read_quotas
from pipeline_broker.security.acls import read_binding
from pipeline_broker.security.delegation_tokens import read_token
from pipeline_broker.security.scram_users import read_credential
from pipeline_broker.state.cluster_id import read_cluster
from pipeline_broker.state.dynamic_settings import read_settings
from pipeline_broker.state.features import read_feature
from pipeline_broker.state.leadership.records import read_node, read_open, read_partition
from pipeline_broker.state.log_starts import read_log_start
from pipeline_broker.state.metadata_records import RecordType, read_producer_ids, read_topic_record, record_type

__all__ = ["METADATA_READERS", "read_metadata_record"]

METADATA_READERS: Mapping[int, Callable[[bytes, bytes | None], Any]] = {
    RecordType.TOPIC: read_topic_record,
    RecordType.PRODUCER_IDS: read_producer_ids,
    RecordType.CLUSTER: read_cluster,
    RecordType.SETTINGS: read_settings,
    RecordType.SCRAM_USER: read_credential,
    RecordType.CLIENT_QUOTA: read_quotas,
    RecordType.ACL: read_binding,
    RecordType.LOG_START: read_log_start,
    RecordType.FEATURE: read_feature,
    RecordType.DELEGATION_TOKEN: read_token,
    RecordType.NODE: read_node,
    RecordType.PARTITION: read_partition,
    RecordType.OPEN: read_open,
}


def read_metadata_record(key: bytes, value: bytes | None) -> Any:
    """Decode a record; return None if its type is unknown.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
    reader = METADATA_READERS.get(record_type(key))
    return None if reader is None else reader(key, value)
