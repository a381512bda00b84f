"""The cluster id, as a record of the metadata partition.

key   = int16 type              value = int16 version 0, then
3 cluster                       JSON {"id": text}
"""

from __future__ import annotations

import json

from pipeline_broker.state.metadata_records import (
    RecordType,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    texts_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write

__all__ = ["ClusterId", "read_cluster_id"]

_KEY = record_key(RecordType.CLUSTER)


def read_cluster_id(key: bytes, value: bytes | None) -> str:
    """Decode the record of the cluster id; raise CorruptStateRecordError if that fails."""
    with reading("cluster id"):
        if key != _KEY:
            raise ValueError("the key has more than a type")
        return texts_of(object_of(value))["id"]


class ClusterId(ReplayedWrites):
    """The id of the cluster.

    Attributes:
        value: None until its record is durable; see `create`.
    """

    def __init__(self) -> None:
        self.value: str | None = None

    def create(self, cluster_id: str, others: tuple[StateRecord, ...] = ()) -> Write:
        """Return the write that creates the cluster, with its other first records."""
        return Write("", (StateRecord(_KEY, record_value(json.dumps({"id": cluster_id}))), *others))

    def replay(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) == RecordType.CLUSTER:
            self.value = read_cluster_id(key, value)
