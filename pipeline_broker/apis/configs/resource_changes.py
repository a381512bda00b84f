"""Changes of settings of topics, brokers, loggers, groups and subscriptions, for both AlterConfigs APIs.

A resource changes as a whole or not at all, independently of other resources. A change takes effect when it is durable,
before the response is sent. Codes are Kafka's: an invalid setting is INVALID_CONFIG for a topic, and INVALID_REQUEST
for a broker.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.configs.alteration import Alteration, SettingChange
from pipeline_broker.apis.configs.broker_loggers import alter_loggers, loggers_to_change
from pipeline_broker.apis.configs.described_resources import BROKER, BROKER_LOGGER, TOPIC, check_allowed
from pipeline_broker.apis.durability import check_durability, warn_of_durability
from pipeline_broker.apis.steps import CHANGE_COST, Stepwise, commit_changes, pending_changes, wait_for_place
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.numbers import INT32, whole_number
from pipeline_broker.broker.registered_schemas import check_schema_validation
from pipeline_broker.broker.settings_layers import BROKER_RESOURCE
from pipeline_broker.broker.topic_policies import flush_rules_of
from pipeline_broker.config.changes import (
    NotAListError,
    Operation,
    alter_broker_settings,
    alter_topic_settings,
    check_list_operations,
)
from pipeline_broker.config.properties import ConfigError, topic_properties
from pipeline_broker.config.reconfiguration import check_has_effect
from pipeline_broker.config.resources import CLIENT_METRICS, RESOURCE_KINDS, ResourceError
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.topic_rules import TopicError, check_name
from stages.request import Parked, Result

__all__ = ["AlteringApi", "Change"]

Change: TypeAlias = tuple["Write", Callable[["Write"], None]]
"""A metadata write, and the function that applies it once it is durable."""
# The error code and message for one resource.
Outcome: TypeAlias = tuple[ErrorCode, str | None]


@attrs.frozen
class AlteringApi:
    """The handler of AlterConfigs or IncrementalAlterConfigs.

    Args:
        response, result: the classes of the API's response and of one resource in it.
        replaces: whether settings that are not named return to their defaults.
    """

    _response: Callable[..., Any]
    _result: Callable[..., Any]
    _replaces: bool

    def handle(self, call: Call, request: Any) -> Stepwise[Result]:
        outcomes, changes = yield from self._alter_resources(call, request)
        return (yield from commit_changes(call, changes, self._answer(request, outcomes)))

    def _alter_resources(self, call: Call, request: Any) -> Stepwise[tuple[list[Outcome], list[Change]]]:
        counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
        changes: list[Change] = []
        outcomes: list[Outcome] = []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            code, message = ErrorCode.NONE, None
            try:
                alteration = self._alteration(call, resource)
                _check_names(alteration, counts[kind, name])
                change = yield from _alter(call, alteration, changes, validate_only=request.validate_only)
                if change is not None:
                    changes.append(change)
            except TopicError as error:
                code, message = error.code, error.message
            except ConfigError as error:
                code, message = _code_of(kind, error), error.client_message
            outcomes.append((code, message))
            if call.is_turn_over(CHANGE_COST):
                yield pending_changes(call, changes)
        return outcomes, changes

    def _alteration(self, call: Call, resource: Any) -> Alteration:
        """Build the change of one resource.

        Raises:
            TopicError: the client may not alter the resource. The refusal does not depend on the values.
        """
        # Authorization comes before any work: only an `Alteration` has values, and only an allowed client gets one.
        kind, name = resource.resource_type, resource.resource_name
        if kind == BROKER_LOGGER and not authorize_cluster(call, AclOperation.ALTER_CONFIGS):
            raise TopicError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # no message, as in Kafka
        check_allowed(call, AclOperation.ALTER_CONFIGS, kind, name)
        changes = [
            SettingChange(each.name, Operation.SET if self._replaces else each.config_operation, each.value)
            for each in resource.configs
        ]
        return Alteration(kind, name, changes, self._replaces)

    def error_response(self, request: Any, _call: Call, code: ErrorCode) -> Any:
        return self._answer(request, [(code, None)] * len(request.resources))

    def _answer(self, request: Any, outcomes: Sequence[Outcome]) -> Any:
        results = [
            self._result(code, message, resource.resource_type, resource.resource_name)
            for resource, (code, message) in zip(request.resources, outcomes, strict=True)
        ]
        return self._response(responses=results)


def _code_of(resource_type: int, error: ConfigError) -> ErrorCode:
    of_broker = resource_type == BROKER and not isinstance(error, NotAListError)
    of_request = of_broker or isinstance(error, ResourceError)
    return ErrorCode.INVALID_REQUEST if of_request else ErrorCode.INVALID_CONFIG


def _check_names(alteration: Alteration, count: int) -> None:
    if count > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [each.name for each in alteration.changes]
    if len(set(names)) < len(names):
        raise TopicError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        each.name for each in alteration.changes if each.value is None and each.config_operation != Operation.DELETE
    ]
    if nulls:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    known = {TOPIC, BROKER, *RESOURCE_KINDS} | (set() if alteration.replaces else {BROKER_LOGGER})
    if alteration.resource_type not in known:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {alteration.resource_type}")


def _alter(
    call: Call, alteration: Alteration, changes: list[Change], *, validate_only: bool
) -> Stepwise[Change | None]:
    kind = alteration.resource_type
    if kind == BROKER:
        return (yield from _alter_broker(call, alteration, changes, validate_only=validate_only))
    if kind == BROKER_LOGGER:
        _alter_loggers(call, alteration, validate_only=validate_only)
        return None
    if kind == TOPIC:
        return _alter_topic(call, alteration, validate_only=validate_only)
    return _alter_other(call, alteration, validate_only=validate_only)


def _alter_loggers(call: Call, alteration: Alteration, *, validate_only: bool) -> None:
    expected = call.broker.leadership.broker_id
    _check_broker_id(call, alteration, f"Unexpected node id. Expected {expected}, but received ")
    levels = loggers_to_change(call.broker.loggers, alteration.changes)
    if not validate_only:
        alter_loggers(call.broker.loggers, levels)


def _alter_topic(call: Call, alteration: Alteration, *, validate_only: bool) -> Change | None:
    name, catalogue = alteration.name, call.broker.topics
    topic = catalogue.latest(name)
    own = {} if topic is None else topic.configs
    operations = alteration.operations(own, ErrorCode.UNKNOWN_SERVER_ERROR)
    check_list_operations(operations, topic_properties())
    if not name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    altered = alter_topic_settings(own, operations)
    if topic is None:  # Kafka validates the settings before it looks for the topic
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    wanted = {each: altered[each] for each in alteration.sets if each in altered}
    check_schema_validation(wanted, call.broker.schemas, in_cluster=call.broker.members is not None)
    settings = call.broker.settings
    before, after = flush_rules_of(own, settings), flush_rules_of(altered, settings)
    check_durability(call, before, after)
    if validate_only or not operations:
        return None
    warn_of_durability(f"topic {name}", before, after)
    call.broker.settings_warnings.warn_about_topic_settings(alteration.sets)
    # None removes a setting from the topic.
    removed = dict.fromkeys(topic.configs.keys() - altered.keys())
    return catalogue.alter_configs(name, {**altered, **removed}), call.broker.topic_durable


def _alter_broker(
    call: Call, alteration: Alteration, changes: list[Change], *, validate_only: bool
) -> Stepwise[Change | None]:
    broker, for_all = call.broker, not alteration.name
    if not for_all:
        expected = broker.leadership.broker_id
        _check_broker_id(call, alteration, f"Unexpected broker id, expected {expected}, but received ", members=True)
    try:
        # One change at a time: `load` below opens files and keys in a thread, and the settings must not change before
        # they are adopted.
        yield from wait_for_place(call, broker.altering)
        key = BROKER_RESOURCE, alteration.name
        own = broker.dynamic_settings.latest_settings(key)
        operations = alteration.operations(own, ErrorCode.INVALID_REQUEST)
        altered = alter_broker_settings(own, operations, for_all=for_all)
        check_has_effect(altered, alteration.sets)
        before = flush_rules_of({}, broker.settings)
        after = flush_rules_of({}, broker.layers.settings_with(key, altered))
        check_durability(call, before, after)
        # Files that the settings name are opened by the broker that uses them.
        is_own = for_all or key == broker.layers.key(for_all=False)
        load = broker.check_settings(key, altered, [name for name, _, _ in operations]) if is_own else None
        adopt = None
        if load is not None:
            if changes:
                yield pending_changes(call, changes)
            adopt = yield Parked(load)
        if validate_only or not operations:
            return None
        warn_of_durability("topics without settings of their own", before, after)
        broker.settings_warnings.warn_about_properties(alteration.sets)
        return broker.dynamic_settings.alter(key, altered), functools.partial(broker.settings_durable, adopt=adopt)
    finally:
        broker.altering.leave(call)


def _alter_other(call: Call, alteration: Alteration, *, validate_only: bool) -> Change | None:
    kind, dynamic = RESOURCE_KINDS[alteration.resource_type], call.broker.dynamic_settings
    key = (kind.key, alteration.name)
    # The group or subscription need not exist.
    own = dynamic.latest_settings(key)
    operations = alteration.operations(own, ErrorCode.UNKNOWN_SERVER_ERROR)
    altered = kind.alter(alteration.name, own, operations, call.broker.settings)
    if kind.number == CLIENT_METRICS:
        call.broker.client_metrics.check_room(alteration.name, altered)
    if validate_only or not operations:
        return None
    return dynamic.alter(key, altered), dynamic.durable


def _check_broker_id(call: Call, alteration: Alteration, unexpected: str, *, members: bool = False) -> None:
    name = alteration.name
    number = whole_number(name, *INT32)
    if number is None:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    is_member = members and number in call.broker.leadership.members
    if number != call.broker.leadership.broker_id and not is_member:
        raise TopicError(ErrorCode.INVALID_REQUEST, unexpected + name)
