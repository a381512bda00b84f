"""The cluster id, as a record of the metadata partition.

key   = int16 type              value = int16 version 0, then
3 cluster                       JSON {"id": text, "kafka": the release that the cluster began with, since 4.4}
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

__all__ = ["ClusterId", "read_cluster"]

_KEY = record_key(RecordType.CLUSTER)
RELEASE = "4.4"


def read_cluster(key: bytes, value: bytes | None) -> tuple[str, str | None]:
    """Decode the record to id and release; raise CorruptStateRecordError if that fails."""
    with reading("cluster id"):
        if key != _KEY:
            raise ValueError("the key has more than a type")
        texts = texts_of(object_of(value))
        return texts["id"], texts.get("kafka")


class ClusterId(ReplayedWrites):
    """The id of the cluster.

    Attributes:
        value: None until its record is durable; see `create`.
        release: the release of Kafka whose features the cluster began with; None for one before 4.4.
    """

    def __init__(self) -> None:
        self.value: str | None = None
        self.release: str | None = None

    def create(self, cluster_id: str) -> Write:
        return Write("", (StateRecord(_KEY, record_value(json.dumps({"id": cluster_id, "kafka": RELEASE}))),))

    def replay(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) == RecordType.CLUSTER:
            self.value, self.release = read_cluster(key, value)
