"""Settings that an earlier start stored are readable, or an error names the invalid one."""

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.stored_settings import check_stored_settings

SOUND = {
    "topic": {"retention.ms": "1000", "cleanup.policy": "compact,delete"},
    "broker": {"log.retention.ms": "-1", "listener.name.tls.ssl.client.auth": "required"},
    "group": {"consumer.session.timeout.ms": "45000"},
    "client-metrics": {"interval.ms": "5000", "match": "client_id=a.*"},
}
BROKEN = [
    ("topic", "retention.ms"),
    ("broker", "log.retention.ms"),
    ("broker", "listener.name.tls.ssl.client.auth"),
    ("group", "consumer.session.timeout.ms"),
    ("client-metrics", "interval.ms"),
    ("client-metrics", "match"),
]


@pytest.mark.parametrize("kind", [*SOUND, "of another release"])
def test_valid_values_and_names_of_another_release_pass(kind):
    check_stored_settings(kind, SOUND.get(kind, {}) | {"of.another.release": "anything"})


@pytest.mark.parametrize(("kind", "name"), BROKEN)
def test_an_invalid_value_is_refused_without_being_shown(kind, name):
    value = "(secret" if name == "match" else "secret"
    with pytest.raises(ConfigError) as refused:
        check_stored_settings(kind, SOUND[kind] | {name: value})
    assert kind == "client-metrics" or "secret" not in str(refused.value)
