"""The cluster id: known once its record is durable."""

import pytest

from pipeline_broker.state.cluster_id import ClusterId, read_cluster_id
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import record_value


def test_the_id_is_known_once_its_record_is_replayed():
    cluster_id = ClusterId()
    assert cluster_id.value is None
    write = cluster_id.create("abc")
    cluster_id.durable(write)
    (record,) = write.records
    assert cluster_id.value == "abc"
    with pytest.raises(CorruptStateRecordError, match="more than a type"):
        read_cluster_id(record.key + b"x", record.value)
    with pytest.raises(CorruptStateRecordError):
        read_cluster_id(record.key, record_value('{"name": "abc"}'))
