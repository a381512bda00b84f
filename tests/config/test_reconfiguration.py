"""Changes that a running broker refuses; error codes and messages come from Apache Kafka."""

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.reconfiguration import POOLS, check_change
from pipeline_broker.config.settings import config_with, parse_settings

TWO = "PLAINTEXT://127.0.0.1:9092,EXTERNAL://127.0.0.1:9093"
MAP = "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"
REFUSED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)


def started(**settings):
    pairs = {"listeners": TWO, "listener.security.protocol.map": MAP}
    return parse_settings([*pairs.items(), *((name.replace("_", "."), text) for name, text in settings.items())])[0]


@pytest.mark.parametrize(("after", "allowed"), [("16", True), ("17", False), ("4", True), ("3", False)])
@pytest.mark.parametrize("name", POOLS)
def test_a_number_of_threads_at_most_doubles_or_halves(name, after, allowed):
    before, _ = parse_settings([(name, "8")])
    changed = config_with(before, {name: after})
    if allowed:
        check_change(before, changed)
        return
    with pytest.raises(ConfigError, match=f"{name}: {after}") as caught:
        check_change(before, changed)
    reason = "not be greater than double" if int(after) > 8 else "be at least half"
    said = (
        f"Dynamic thread count update validation failed for {name}={after}, value should {reason} the current value 8"
    )
    assert caught.value.client_message == REFUSED.format(said)


@pytest.mark.parametrize(("own", "after", "allowed"), [("2", "4", True), ("2", "5", False), (None, "6", True)])
def test_the_number_of_threads_of_a_listener_at_most_doubles_or_halves(own, after, allowed):
    name = "listener.name.external.num.network.threads"
    before = started(**({} if own is None else {name.replace(".", "_"): own}))
    changed = config_with(before, {name: after})
    if allowed:
        check_change(before, changed)
        return
    with pytest.raises(ConfigError, match=name) as caught:
        check_change(before, changed)
    assert "failed for num.network.threads=5, value should not be greater" in caught.value.client_message


@pytest.mark.parametrize("prefix", ["", "listener.name.external."])
@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_a_limit_of_0_is_refused_because_no_client_could_raise_it(name, prefix):
    before = started()
    with pytest.raises(ConfigError) as caught:
        check_change(before, config_with(before, {prefix + name: "0"}))
    assert caught.value.client_message == REFUSED.format(f"Invalid {name} 0")
    check_change(before, config_with(before, {prefix + name: "1"}))


def test_the_protocol_of_an_existing_listener_cannot_change():
    before = started()
    moved = "PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT"
    secure = {"listener.name.external.sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with pytest.raises(ConfigError) as caught:
        check_change(before, config_with(before, {"listener.security.protocol.map": moved, **secure}))
    said = "Security protocol cannot be updated for existing listener ListenerName(EXTERNAL)"
    assert caught.value.client_message == REFUSED.format(said)

    more = {
        "listeners": TWO + ",MORE://127.0.0.1:9094",
        "listener.security.protocol.map": MAP + ",MORE:SASL_PLAINTEXT",
        "listener.name.more.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    check_change(before, config_with(before, more))
    check_change(config_with(before, more), before)
