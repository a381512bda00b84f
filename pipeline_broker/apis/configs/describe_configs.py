"""DescribeConfigs: settings of topics, this broker, groups and client metrics subscriptions, with their sources.

The broker named "" stands for the dynamic default of all brokers. As in Apache Kafka, an unknown resource type refuses
the whole request.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.configs.broker_loggers import describe_loggers
from pipeline_broker.apis.configs.described_resources import (
    BROKER_LOGGER,
    RESOURCE_TYPES,
    TOPIC,
    check_allowed,
)
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.numbers import INT32, whole_number
from pipeline_broker.config.resolution import (
    Entry,
    broker_entries,
    default_broker_entries,
    topic_entries,
)
from pipeline_broker.config.resources import RESOURCE_KINDS
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from stages.request import Send

Resource = DescribeConfigsRequest.DescribeConfigsResource
Config = DescribeConfigsResponse.DescribeConfigsResourceResult

CONFIG_TYPES = {
    "unknown": 0,
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""Type in the tables of properties: its number in the response."""
NOT_ACTED_ON = "This broker stores this setting, but does not act on it."
# Cost of resolving one setting, about microseconds.
ENTRY_COST = 5
# Cost of describing one setting, about microseconds.
CONFIG_COST = 10
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an"
    " incompatible broker. See the broker logs for more details."
)


def handle(call: Call, request: DescribeConfigsRequest) -> Stepwise[Send]:
    if any(resource.resource_type not in RESOURCE_TYPES for resource in request.resources):
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    results = []
    for resource in _named_once(request.resources):
        if call.spend(ELEMENT_COST):
            yield None
        try:
            entries = list(_entries(call, resource))
        except TopicError as error:
            results.append(_result(resource, error.code, error.message or ""))
            continue
        wanted = set(resource.configuration_keys or ())
        result = _result(resource)
        if resource.resource_type == BROKER_LOGGER:
            configs = [each for each in describe_loggers(call.broker.loggers) if not wanted or each.name in wanted]
        else:
            configs = [_config(each, request) for each in entries if not wanted or each.definition.name in wanted]
        result.configs = configs
        results.append(result)
        if call.spend(ENTRY_COST * len(entries) + CONFIG_COST * len(configs)):
            yield None
    return (yield from call.send_in_steps(DescribeConfigsResponse(results=results)))


def _named_once(resources: list[Resource]) -> Iterable[Resource]:
    return {
        (each.resource_type, each.resource_name, tuple(each.configuration_keys or ())): each for each in resources
    }.values()


def _entries(call: Call, resource: Resource) -> Iterable[Entry]:
    name, settings = resource.resource_name, call.broker.settings
    check_allowed(call, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, name)
    if resource.resource_type == TOPIC:
        check_name(name)
        topic = call.broker.topics.get(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(topic.configs, settings)
    kind = RESOURCE_KINDS.get(resource.resource_type)
    if kind is not None:
        if not name:
            raise TopicError(ErrorCode.INVALID_REQUEST, kind.nameless[1])
        return kind.entries(call.broker.dynamic_settings.settings((kind.key, name)), settings)
    is_logger = resource.resource_type == BROKER_LOGGER
    if name or is_logger:
        _check_broker_id(name, call.broker.leadership.broker_id, is_logger=is_logger)
    if is_logger:
        return ()
    return broker_entries(settings) if name else default_broker_entries(settings)


def _check_broker_id(name: str, broker_id: int, *, is_logger: bool) -> None:
    number = whole_number(name, *INT32)
    if not name:
        message = "Broker id must not be empty"
    elif number is None:
        message = f"Broker id must be an integer, but it is: {name}"
    elif number != broker_id:
        allowed = f"{broker_id}" if is_logger else f"{broker_id} or empty string,"
        message = f"Unexpected broker id, expected {allowed} but received {name}"
    else:
        return
    raise TopicError(ErrorCode.INVALID_REQUEST, message)


def _config(entry: Entry, request: DescribeConfigsRequest) -> Config:
    definition = entry.definition
    config = Config(
        name=definition.name,
        value=None if definition.sensitive else entry.value,
        read_only=definition.read_only,
        config_source=entry.source,
        is_sensitive=definition.sensitive,
        config_type=CONFIG_TYPES[definition.type],
        documentation=None,
    )
    if request.include_synonyms:
        config.synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source)
            for synonym in entry.synonyms
        ]
    if request.include_documentation:
        config.documentation = definition.documentation or NOT_ACTED_ON
    return config


def _result(
    resource: Resource, code: ErrorCode = ErrorCode.NONE, message: str = ""
) -> DescribeConfigsResponse.DescribeConfigsResult:
    return DescribeConfigsResponse.DescribeConfigsResult(code, message, resource.resource_type, resource.resource_name)


def error_response(
    request: DescribeConfigsRequest,
    call: Call,
    code: ErrorCode,
) -> DescribeConfigsResponse:
    message = MALFORMED if code is ErrorCode.INVALID_REQUEST else ""
    return DescribeConfigsResponse(results=[_result(resource, code, message) for resource in request.resources])
