"""Any setting of a topic, a broker, a group or a subscription is accepted, or refused with one of three codes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.resources import CLIENT_METRICS, GROUP, RESOURCE_KINDS
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk
from tests.crashes.lengths import examples

TOPIC, BROKER = 2, 4
TAKEN, CONFIG, REQUEST = 0, 40, 42
SECRET = "the-secret-itself"
NAMES = {
    (TOPIC, "t"): sorted(topic_properties()),
    (BROKER, "1"): sorted(broker_properties()),
    (BROKER, ""): sorted(broker_properties()),
    (GROUP, "g"): sorted(RESOURCE_KINDS[GROUP].properties),
    (CLIENT_METRICS, "s"): sorted(RESOURCE_KINDS[CLIENT_METRICS].properties),
}
texts = st.sampled_from(
    ["", " ", "-1", "-2", "0", "1", "10", "1e3", "9" * 30, "0x10", "NaN", "true", "TRUE", "compact", "a,b", ",", "é"]
) | st.text(max_size=5)


@pytest.fixture(scope="module")
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 1000), 5)
    return desk


def alter(desk, resource, configs, *, validate_only):
    altered = IncrementalAlterConfigsRequest
    wanted = altered.AlterConfigsResource(*resource, [altered.AlterableConfig(*config) for config in configs])
    (response,) = desk.ask(altered([wanted], validate_only), 1).responses
    return response


def described(desk, resource):
    wanted = DescribeConfigsRequest.DescribeConfigsResource(*resource, None)
    (result,) = desk.ask(DescribeConfigsRequest([wanted], True, True), 4).results
    assert result.error_code == 0
    return result


@settings(max_examples=examples(300))
@given(data=st.data(), resource=st.sampled_from(sorted(NAMES)), validate_only=st.booleans())
def test_a_strange_value_is_taken_or_refused_and_the_rest_can_be_described(desk, data, resource, validate_only):
    names = data.draw(st.lists(st.sampled_from(NAMES[resource]) | st.text(max_size=4), max_size=2, unique=True))
    operations = st.sampled_from([0, 0, 0, 1, 2, 3])
    configs = [(name, data.draw(operations), data.draw(texts)) for name in names]
    before = described(desk, resource)
    response = alter(desk, resource, configs, validate_only=validate_only)
    assert response.error_code in {TAKEN, CONFIG, REQUEST}, response
    if validate_only or response.error_code:
        assert described(desk, resource) == before
    else:
        alter(desk, resource, [(name, 1, None) for name in names], validate_only=False)


@pytest.mark.parametrize("name", ["listener.name.plaintext.ssl.keystore.password", "no.such.setting"])
def test_a_secret_is_in_no_answer(desk, name):
    assert alter(desk, (BROKER, "1"), [(name, 0, SECRET)], validate_only=False).error_code == TAKEN
    assert SECRET not in str(described(desk, (BROKER, "1")))
    alter(desk, (BROKER, "1"), [(name, 1, None)], validate_only=False)


def test_a_startup_secret_is_in_no_answer():
    desk = Desk(f"delegation.token.secret.key={SECRET}")
    assert SECRET not in str(described(desk, (BROKER, "1")))
    refused = alter(desk, (BROKER, "1"), [("delegation.token.secret.key", 0, SECRET)], validate_only=False)
    assert refused.error_code == REQUEST
    assert SECRET not in str(refused)
