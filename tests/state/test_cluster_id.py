"""The cluster id: known once its record is durable."""

import pytest

from pipeline_broker.state.cluster_id import RELEASE, ClusterId, read_cluster
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import record_value


def test_the_id_is_known_once_its_record_is_replayed():
    cluster_id = ClusterId()
    assert cluster_id.value is None
    write = cluster_id.create("abc")
    cluster_id.durable(write)
    (record,) = write.records
    assert (cluster_id.value, cluster_id.release) == ("abc", RELEASE)
    with pytest.raises(CorruptStateRecordError, match="more than a type"):
        read_cluster(record.key + b"x", record.value)
    with pytest.raises(CorruptStateRecordError):
        read_cluster(record.key, record_value('{"name": "abc"}'))


def test_records_of_earlier_versions_name_no_release():
    (record,) = ClusterId().create("abc").records
    assert read_cluster(record.key, record_value('{"id": "abc"}')) == ("abc", None)
