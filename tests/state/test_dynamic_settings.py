"""Dynamic settings: visible once durable, pending changes included in the next one."""

from __future__ import annotations

import pytest

from pipeline_broker.state.dynamic_settings import DynamicSettings
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import RecordType, record_key, record_value

ALL, ONE, TOPIC = ("broker", ""), ("broker", "1"), ("topic", "t")


def keep(dynamic, write):
    for record in write.records:
        dynamic.replay(record.key, record.value)
    return write.records


def test_settings_are_visible_once_durable_and_changes_build_on_pending_ones():
    dynamic = DynamicSettings()
    first = dynamic.alter(ONE, {"log.retention.ms": "1"})
    assert (dynamic.settings(ONE), dynamic.latest_settings(ONE)) == ({}, {"log.retention.ms": "1"})
    second = dynamic.alter(ONE, {"log.retention.ms": "2"})
    keep(dynamic, first)
    assert dynamic.settings(ONE) == {"log.retention.ms": "1"}
    assert dynamic.latest_settings(ONE) == {"log.retention.ms": "2"}
    keep(dynamic, second)
    assert dynamic.settings(ONE) == dynamic.latest_settings(ONE) == {"log.retention.ms": "2"}
    assert dynamic.settings(ALL) == {}


def test_a_change_builds_on_the_last_pending_one_even_if_an_earlier_one_was_equal():
    dynamic = DynamicSettings()
    writes = [dynamic.alter(ONE, {"log.retention.ms": value}) for value in "121"]
    for write in writes:
        keep(dynamic, write)
        assert dynamic.latest_settings(ONE) == {"log.retention.ms": "1"}
    assert dynamic.settings(ONE) == {"log.retention.ms": "1"}
    assert ONE not in dynamic._pending, "durable changes are not pending"


def test_a_resource_without_settings_is_forgotten():
    dynamic, again = DynamicSettings(), DynamicSettings()
    records = [*keep(dynamic, dynamic.alter(ONE, {"log.retention.ms": "1"})), *keep(dynamic, dynamic.alter(ALL, {}))]
    assert dynamic.names("broker") == ["1"]
    assert dynamic.names("topic") == []
    records += keep(dynamic, dynamic.alter(ONE, {}))
    assert (dynamic.names("broker"), dynamic.latest_settings(ONE)) == ([], {})
    assert records[-1].value is None
    for record in records:
        again.replay(record.key, record.value)
    assert (again.names("broker"), again.settings(ONE)) == ([], {})


def test_a_change_of_settings_increments_the_generation_of_its_resource_type():
    dynamic = DynamicSettings()
    before = dict(dynamic.generations)
    keep(dynamic, dynamic.alter(TOPIC, {"retention.ms": "1"}))
    assert dynamic.generations["topic"] != before.get("topic", 0)
    assert dynamic.generations["broker"] == before.get("broker", 0)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [("broker", "log.retention.ms"), ("topic", "retention.ms"), ("group", "consumer.session.timeout.ms")],
)
def test_invalid_settings_are_not_applied(kind, setting):
    key = record_key(RecordType.SETTINGS, f'["{kind}", "1"]')
    for name, text, is_taken in ((setting, "1", True), (setting, "x", False), ("of.another.release", "x", True)):
        dynamic, value = DynamicSettings(), record_value(f'{{"{name}": "{text}"}}')
        if is_taken:
            dynamic.replay(key, value)
        else:
            with pytest.raises(CorruptStateRecordError):
                dynamic.replay(key, value)
        assert dynamic.settings((kind, "1")) == ({name: text} if is_taken else {})


@pytest.mark.parametrize(
    "subject", ['["broker"]', '["broker", 1]', '[1, "x"]', '"broker"', "{", '["broker", "1", "2"]']
)
def test_a_record_of_settings_needs_a_resource_of_two_strings(subject):
    with pytest.raises(CorruptStateRecordError):
        DynamicSettings().replay(record_key(RecordType.SETTINGS, subject), record_value("{}"))
