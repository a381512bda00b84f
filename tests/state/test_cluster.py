"""The cluster id and dynamic settings: visible once durable, pending changes included in the next one."""

from __future__ import annotations

import pytest

from pipeline_broker.state.cluster import ClusterState, read_cluster_id
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import RecordType, record_key, record_value

ALL, ONE, TOPIC = ("broker", ""), ("broker", "1"), ("topic", "t")


def keep(cluster, write):
    for record in write.records:
        cluster.replay(record.key, record.value)
    return write.records


def test_the_id_is_known_once_its_record_is_replayed():
    cluster = ClusterState()
    assert cluster.cluster_id is None
    (record,) = keep(cluster, cluster.create("abc"))
    assert cluster.cluster_id == "abc"
    with pytest.raises(CorruptStateRecordError, match="more than a type"):
        read_cluster_id(record.key + b"x", record.value)
    with pytest.raises(CorruptStateRecordError):
        read_cluster_id(record.key, record_value('{"name": "abc"}'))


def test_settings_are_visible_once_durable_and_changes_build_on_pending_ones():
    cluster = ClusterState()
    first = cluster.alter(ONE, {"log.retention.ms": "1"})
    assert (cluster.settings(ONE), cluster.latest_settings(ONE)) == ({}, {"log.retention.ms": "1"})
    second = cluster.alter(ONE, {"log.retention.ms": "2"})
    keep(cluster, first)
    assert cluster.settings(ONE) == {"log.retention.ms": "1"}
    assert cluster.latest_settings(ONE) == {"log.retention.ms": "2"}
    keep(cluster, second)
    assert cluster.settings(ONE) == cluster.latest_settings(ONE) == {"log.retention.ms": "2"}
    assert cluster.settings(ALL) == {}


def test_a_change_builds_on_the_last_pending_one_even_if_an_earlier_one_was_equal():
    cluster = ClusterState()
    writes = [cluster.alter(ONE, {"log.retention.ms": value}) for value in "121"]
    for write in writes:
        keep(cluster, write)
        assert cluster.latest_settings(ONE) == {"log.retention.ms": "1"}
    assert cluster.settings(ONE) == {"log.retention.ms": "1"}
    assert ONE not in cluster._pending, "durable changes are not pending"


def test_a_resource_without_settings_is_forgotten():
    cluster, again = ClusterState(), ClusterState()
    records = [*keep(cluster, cluster.alter(ONE, {"log.retention.ms": "1"})), *keep(cluster, cluster.alter(ALL, {}))]
    assert cluster.names("broker") == ["1"]
    assert cluster.names("topic") == []
    records += keep(cluster, cluster.alter(ONE, {}))
    assert (cluster.names("broker"), cluster.latest_settings(ONE)) == ([], {})
    assert records[-1].value is None
    for record in records:
        again.replay(record.key, record.value)
    assert (again.names("broker"), again.settings(ONE)) == ([], {})


def test_a_change_of_settings_increments_the_generation_of_its_resource_type():
    cluster = ClusterState()
    before = dict(cluster.generations)
    keep(cluster, cluster.alter(TOPIC, {"retention.ms": "1"}))
    assert cluster.generations["topic"] != before.get("topic", 0)
    assert cluster.generations["broker"] == before.get("broker", 0)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [("broker", "log.retention.ms"), ("topic", "retention.ms"), ("group", "consumer.session.timeout.ms")],
)
def test_invalid_settings_are_not_applied(kind, setting):
    key = record_key(RecordType.SETTINGS, f'["{kind}", "1"]')
    for name, text, is_taken in ((setting, "1", True), (setting, "x", False), ("of.another.release", "x", True)):
        cluster, value = ClusterState(), record_value(f'{{"{name}": "{text}"}}')
        if is_taken:
            cluster.replay(key, value)
        else:
            with pytest.raises(CorruptStateRecordError):
                cluster.replay(key, value)
        assert cluster.settings((kind, "1")) == ({name: text} if is_taken else {})


@pytest.mark.parametrize(
    "subject", ['["broker"]', '["broker", 1]', '[1, "x"]', '"broker"', "{", '["broker", "1", "2"]']
)
def test_a_record_of_settings_needs_a_resource_of_two_strings(subject):
    with pytest.raises(CorruptStateRecordError):
        ClusterState().replay(record_key(RecordType.SETTINGS, subject), record_value("{}"))
