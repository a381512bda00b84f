"""Redaction of secrets in the broker's own records: SCRAM credentials and sensitive settings.

The files themselves hold these secrets, but output is often pasted into tickets.
"""

from __future__ import annotations

import json

from pipeline_broker.config.properties import PREFIXED, broker_properties
from pipeline_broker.records.record import Record
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import (
    METADATA_TOPIC_ID,
    RecordType,
    record_type,
)

__all__ = ["without_secrets"]

HIDDEN = b"[hidden]"
_VERSION_BYTES = 2


def without_secrets(topic_id: bytes, record: Record) -> Record:
    key, value = record.key, record.value
    if bytes(topic_id) != METADATA_TOPIC_ID or key is None or value is None:
        return record
    try:
        kind = record_type(key)
    except CorruptStateRecordError:
        return record
    if kind == RecordType.SCRAM_USER:
        return record._replace(value=HIDDEN)
    if kind == RecordType.SETTINGS:
        return record._replace(value=_without_secret_settings(bytes(value)))
    return record


def _without_secret_settings(value: bytes) -> bytes:
    try:
        settings = json.loads(value[_VERSION_BYTES:])
        shown = {name: HIDDEN.decode() if _is_secret(name) else text for name, text in settings.items()}
    except (AttributeError, ValueError):
        return HIDDEN  # unreadable settings may contain a secret anywhere
    return value[:_VERSION_BYTES] + json.dumps(shown, sort_keys=True).encode()


def _is_secret(name: str) -> bool:
    prefixed = PREFIXED.fullmatch(name)
    definition = broker_properties().get(prefixed[1] if prefixed else name)
    return definition is None or definition.sensitive
