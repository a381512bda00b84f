"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings of topics and of the broker.

A resource is changed as a whole or refused as a whole, and resources do not depend on each other. A change acts when it
is durable, which is before it is answered. Codes are Kafka's: what is wrong with a topic's settings is INVALID_CONFIG,
with a broker's INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pipeline_broker.apis.broker_loggers import alter_loggers, loggers_to_change
from pipeline_broker.apis.describe_configs import BROKER, BROKER_LOGGER, NODE_ID, TOPIC, check_allowed
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.resolution import (
    NotAListError,
    Operation,
    alter_broker_settings,
    alter_topic_settings,
    check_list_operations,
)
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.state.outcome import Write

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = IncrementalAlterConfigsRequest
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse

Change: TypeAlias = tuple["Write", Callable[["Write"], None]]
"""What was decided, and what applies it."""


def handle(call: Call, request: IncrementalAlterConfigsRequest) -> Result:
    """Alter what may be altered."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    changes: list[Change] = []
    responses = []
    for resource in request.resources:
        code, message = ErrorCode.NONE, None
        try:
            _check_names(resource, counts[resource.resource_type, resource.resource_name])
            if resource.resource_type in {TOPIC, BROKER, BROKER_LOGGER}:
                check_allowed(call, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            change = _alter(call, resource, validate_only=request.validate_only)
            if change is not None:
                changes.append(change)
        except TopicError as error:
            code, message = error.code, error.message
        except ConfigError as error:
            of_request = resource.resource_type == BROKER and not isinstance(error, NotAListError)
            code = ErrorCode.INVALID_REQUEST if of_request else ErrorCode.INVALID_CONFIG
            message = error.client_message
        responses.append(_response(resource, code, message))
    answer = call.send(IncrementalAlterConfigsResponse(responses=responses))
    return call.broker.commit_metadata(changes, call.now_ms, answer)


def _check_names(resource: Resource, count: int) -> None:
    """Refuse what names something twice, or no value; `count` says how often the request names the resource."""
    if count > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise TopicError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != Operation.DELETE
    ]
    if nulls:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _alter(call: Call, resource: Resource, *, validate_only: bool) -> Change | None:
    if resource.resource_type == TOPIC:
        return _alter_topic(call, resource, validate_only=validate_only)
    if resource.resource_type == BROKER:
        return _alter_broker(call, resource, validate_only=validate_only)
    if resource.resource_type != BROKER_LOGGER:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    _check_node_id(call, resource, f"Unexpected node id. Expected {call.broker.config.node_id}, but received ")
    levels = loggers_to_change(call.broker.loggers, resource.configs)
    if not validate_only:
        alter_loggers(call.broker.loggers, levels)
    return None


def _alter_topic(call: Call, resource: Resource, *, validate_only: bool) -> Change | None:
    name, catalogue = resource.resource_name, call.broker.topics
    operations = _operations(resource, ErrorCode.UNKNOWN_SERVER_ERROR)
    check_list_operations(operations)
    if not name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    topic = catalogue.latest(name)
    altered = alter_topic_settings({} if topic is None else topic.configs, operations)
    if topic is None:  # Kafka looks at the settings first
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if validate_only or not resource.configs:
        return None
    call.broker.settings_warnings.tell_of_topic(_set_by(resource))
    gone = dict.fromkeys(topic.configs.keys() - altered.keys())
    return catalogue.alter_configs(name, {**altered, **gone}), call.broker.topic_durable


def _alter_broker(call: Call, resource: Resource, *, validate_only: bool) -> Change | None:
    broker = call.broker
    node_id = broker.config.node_id
    if resource.resource_name:
        _check_node_id(call, resource, f"Unexpected broker id, expected {node_id}, but received ")
    key = broker.settings_key(for_all=not resource.resource_name)
    operations = _operations(resource, ErrorCode.INVALID_REQUEST)
    altered = alter_broker_settings(broker.cluster.latest_settings(key), operations, for_all=not resource.resource_name)
    broker.check_settings(key, altered, [config.name for config in resource.configs])
    if validate_only or not resource.configs:
        return None
    broker.settings_warnings.tell(_set_by(resource))
    return broker.cluster.alter(key, altered), broker.settings_durable


def _operations(resource: Resource, unknown: ErrorCode) -> list[tuple[str, Operation, str | None]]:
    operations = []
    for config in resource.configs:
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            of_broker = unknown is ErrorCode.INVALID_REQUEST
            message = f"Unknown operations type {config.config_operation}" if of_broker else None
            raise TopicError(unknown, message) from None
        operations.append((config.name, operation, config.value))
    return operations


def _set_by(resource: Resource) -> list[str]:
    return [config.name for config in resource.configs if config.config_operation != Operation.DELETE]


def _check_node_id(call: Call, resource: Resource, unexpected: str) -> None:
    name = resource.resource_name
    if not NODE_ID.fullmatch(name):
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != call.broker.config.node_id:
        raise TopicError(ErrorCode.INVALID_REQUEST, unexpected + name)


def _response(resource: Resource, code: ErrorCode, message: str | None = None) -> ResourceResponse:
    return ResourceResponse(code, message, resource.resource_type, resource.resource_name)


def error_response(
    request: IncrementalAlterConfigsRequest,
    call: Call,
    code: ErrorCode,
) -> IncrementalAlterConfigsResponse:
    """Every resource with the same error."""
    return IncrementalAlterConfigsResponse(responses=[_response(resource, code) for resource in request.resources])
