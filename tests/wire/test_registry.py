"""The table of API keys, compared with kio and with the declarations."""

from __future__ import annotations

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.registry import API_KEYS, NEVER, ApiKey, is_flexible, message_classes
from pipeline_broker.wire.schema import parse_versions
from tests.tables import each_row
from tests.wire.generated import API_MESSAGES, each_message

REMOVED = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}
WITH_VERSIONS = [api for api in API_KEYS.values() if len(api.versions)]


def test_keys_and_versions_are_those_of_kio():
    for key, api in API_KEYS.items():
        if key in REMOVED:
            assert len(api.versions) == 0
            continue
        assert list(api.versions) == sorted(schema_name_map[api_key_map[key]]), api.name
    assert {int(key) for key in API_KEYS} - REMOVED == set(api_key_map)


@each_row("api", WITH_VERSIONS, [api.name for api in WITH_VERSIONS])
def test_flexible_versions_are_those_of_kio(api):
    for version in (api.versions[0], api.flexible_from - 1, api.flexible_from, api.versions[-1]):
        if version in api.versions:
            assert is_flexible(api.key, version) == load_request_schema(int(api.key), version).__flexible__


@each_message(API_MESSAGES)
def test_a_message_has_the_versions_of_its_api_and_is_found_by_its_key(message):
    api = API_KEYS[ApiKey(message.SCHEMA.key)]
    flexible = parse_versions(message.SCHEMA.flexible)
    assert message.__name__ in {f"{api.name}Request", f"{api.name}Response"}
    assert versions_of(message) == api.versions
    assert (flexible[0] if len(flexible) else NEVER) == api.flexible_from
    assert message in message_classes(message.SCHEMA.key)


def test_apis_without_a_declaration_have_no_message_classes():
    for key in (ApiKey.STOP_REPLICA, ApiKey.VOTE, 93, -1):
        with pytest.raises(KeyError):
            message_classes(key)
