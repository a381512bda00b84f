"""A group's own settings apply within the broker's limits; the broker and the table give the others."""

import pytest

from pipeline_broker.config.group_settings import ConsumerGroupSettings, ShareGroupSettings
from pipeline_broker.config.settings import config_with, parse_settings

CONFIG, _ = parse_settings(
    [("group.share.session.timeout.ms", "50000"), ("group.share.min.record.lock.duration.ms", "20000")]
)


def test_a_group_without_settings_has_those_of_the_broker():
    settings = ShareGroupSettings.of(CONFIG, {})
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (50_000, 5_000)
    changed = config_with(CONFIG, {"group.consumer.assignment.interval.ms": "7"})
    assert ConsumerGroupSettings.of(changed, {}).assignment_interval_ms == 7


@pytest.mark.parametrize(("own", "effective"), [("19999", 20_000), ("20001", 20_001), ("60001", 60_000)])
def test_a_setting_outside_the_limits_counts_as_the_nearest_limit(own, effective):
    settings = ShareGroupSettings.of(CONFIG, {"share.record.lock.duration.ms": own})
    assert settings.record_lock_duration_ms == effective


def test_settings_that_no_broker_property_gives_have_the_defaults_of_the_table():
    assert ShareGroupSettings.of(CONFIG, {}).auto_offset_reset == "latest"
    own = {"share.auto.offset.reset": "earliest", "share.renew.acknowledge.enable": "false"}
    settings = ShareGroupSettings.of(CONFIG, own)
    assert (settings.auto_offset_reset, settings.renew_acknowledge_enable) == ("earliest", False)
    assert settings.isolation_level == "read_uncommitted"


def test_settings_of_another_kind_of_group_have_no_effect():
    own = {"share.session.timeout.ms": "46000", "consumer.session.timeout.ms": "47000"}
    assert ConsumerGroupSettings.of(CONFIG, own).session_timeout_ms == 47_000
    assert ShareGroupSettings.of(CONFIG, own).session_timeout_ms == 46_000
