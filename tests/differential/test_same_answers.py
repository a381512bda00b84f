"""Apache Kafka and both modes of ours give the same answers, field by field, but for what masks names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.bad_input.raw_client import each_served_version
from tests.differential.comparison import EXAMPLES, compare, drawn
from tests.differential.data_requests import ask
from tests.differential.masks import (
    BROKER,
    BY_FIELD,
    HIDDEN,
    MASKS,
    MASKS_MAX,
    UNORDERED_APIS,
    UNORDERED_APIS_MAX,
    masked,
)
from tests.differential.table import PACED, REQUESTS, versions_of

pytestmark = pytest.mark.xdist_group("kafka")
AT_LENGTH = 30
IN_ANY_ORDER = 100
ASKED_MIN = 8_000 if EXAMPLES >= AT_LENGTH else 600
APIS_MIN = 50
SETTINGS_MIN = 340
OWN_SETTINGS_MAX = 20


@each_served_version(parts=4)
@drawn()
@given(data=st.data())
def test_a_request_is_answered_as_kafka_answers_it(sides, key, version, data):
    """Case 64."""
    if version not in versions_of(key):
        return
    found = compare(sides, key, data.draw(REQUESTS[key](version)))
    assert not found, "\n".join(found)


@drawn(IN_ANY_ORDER)
@given(data=st.data())
def test_requests_in_any_order_are_answered_as_kafka_answers_them(sides, data):
    """What one API leaves behind is what another one meets."""
    key = data.draw(st.sampled_from([key for key in sorted(set(REQUESTS) - PACED) if versions_of(key)]))
    version = data.draw(st.sampled_from(versions_of(key)))
    found = compare(sides, key, data.draw(REQUESTS[key](version)))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("version", [1, 4])
def test_every_setting_of_the_broker_is_described_as_kafka_describes_it(sides, version):
    broker = DescribeConfigsRequest.DescribeConfigsResource(BROKER, "1", None)
    whole = DescribeConfigsRequest([broker], include_synonyms=True, include_documentation=version == 4)
    found = compare(sides, ApiKey.DESCRIBE_CONFIGS, ask(version, whole))
    assert not found, "\n".join(found)
    (described,) = masked(sides.kafka, "DescribeConfigs", sides.kafka.ask(whole, version))["results"]
    assert len(described["configs"]) >= SETTINGS_MIN
    assert sum(config["value"] != HIDDEN for config in described["configs"]) >= SETTINGS_MIN - OWN_SETTINGS_MAX


def test_few_fields_are_not_compared_as_they_are():
    """What is masked must stay a list that a person can check."""
    assert len(MASKS) <= MASKS_MAX
    assert len(BY_FIELD) == sum(len(mask.fields) for mask in MASKS), "no field twice"
    assert len(UNORDERED_APIS) <= UNORDERED_APIS_MAX
    assert {api.name for api in SERVED.values()} >= UNORDERED_APIS


def test_enough_was_asked(sides):
    """Every API in every version; 600 requests at least, and 8,000 over 50 APIs at length (EXAMPLES=30)."""
    assert sides.seen == {(key, version) for key in SERVED for version in versions_of(key)}
    assert len({key for key, _ in sides.seen}) >= APIS_MIN
    assert sides.asked >= ASKED_MIN, sides.asked
