"""What of the broker's own records is not shown: proofs of who somebody is, and settings that are secrets.

Rules of this file: whoever can read the journal's files can read this too, but output is pasted into tickets.
"""

from __future__ import annotations

import json
import struct

from pipeline_broker.config.properties import PREFIXED, broker_properties
from pipeline_broker.records.record import Record
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID

__all__ = ["without_secrets"]

HIDDEN = b"[hidden]"
_TYPE = struct.Struct(">h")
_SETTINGS_TYPE = 4
_SCRAM_TYPE = 5


def without_secrets(topic_id: bytes, record: Record) -> Record:
    """The record as it may be shown."""
    key, value = record.key, record.value
    if bytes(topic_id) != METADATA_TOPIC_ID or key is None or value is None or len(key) < _TYPE.size:
        return record
    (kind,) = _TYPE.unpack_from(key)
    if kind == _SCRAM_TYPE:
        return record._replace(value=HIDDEN)
    if kind == _SETTINGS_TYPE:
        return record._replace(value=_without_secret_settings(bytes(value)))
    return record


def _without_secret_settings(value: bytes) -> bytes:
    try:
        settings = json.loads(value[_TYPE.size :])
        shown = {name: HIDDEN.decode() if _is_secret(name) else text for name, text in settings.items()}
    except (AttributeError, ValueError):
        return HIDDEN  # not what it should be: then nobody knows what it is
    return value[: _TYPE.size] + json.dumps(shown, sort_keys=True).encode()


def _is_secret(name: str) -> bool:
    prefixed = PREFIXED.fullmatch(name)
    definition = broker_properties().get(prefixed[1] if prefixed else name)
    return definition is None or definition.sensitive
