"""The table of API keys, compared with Kafka's definitions and with the declarations."""

from __future__ import annotations

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.registry import API_KEYS, NEVER, ApiKey, message_classes
from pipeline_broker.wire.schema import parse_versions
from tests.kafka_tools import require_the_followed_kafka
from tests.wire.definitions import definitions
from tests.wire.generated import API_MESSAGES, each_message

REMOVED = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}


@pytest.fixture
def requests():
    """Kafka's definitions of requests, by API key."""
    require_the_followed_kafka()
    return {it.key: it for it in definitions().values() if it.name.endswith("Request")}


def test_keys_names_and_versions_are_those_of_kafka(requests):
    ours = {(int(key), f"{api.name}Request", api.versions) for key, api in API_KEYS.items() if key not in REMOVED}
    assert ours == {(it.key, it.name, it.versions) for it in requests.values()}
    assert all(len(API_KEYS[key].versions) == 0 for key in REMOVED)


def test_flexible_versions_are_those_of_kafka(requests):
    for key, it in requests.items():
        first = it.flexible[0] if len(it.flexible) else NEVER
        assert API_KEYS[ApiKey(key)].flexible_from == first, it.name


def test_every_api_that_a_broker_of_kafka_serves_is_served_in_its_stable_versions(requests):
    for_clients = {key: it.stable for key, it in requests.items() if "broker" in it.listeners}
    assert {key: served.versions for key, served in SERVED.items()} == for_clients


@each_message(API_MESSAGES)
def test_a_message_has_the_versions_of_its_api_and_is_found_by_its_key(message):
    api = API_KEYS[ApiKey(message.SCHEMA.key)]
    flexible = parse_versions(message.SCHEMA.flexible)
    assert message.__name__ in {f"{api.name}Request", f"{api.name}Response"}
    assert versions_of(message) == api.versions
    assert (flexible[0] if len(flexible) else NEVER) == api.flexible_from
    assert message in message_classes(message.SCHEMA.key)


def test_apis_without_a_declaration_have_no_message_classes():
    for key in (ApiKey.STOP_REPLICA, ApiKey.VOTE, 95, -1):
        with pytest.raises(KeyError):
            message_classes(key)
