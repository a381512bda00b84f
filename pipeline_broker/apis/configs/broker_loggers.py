"""Log levels: the BROKER_LOGGER resource of DescribeConfigs and IncrementalAlterConfigs.

A change takes effect at once and is not stored. A request changes all of its loggers or none. Codes and messages are
Kafka's. Deleting a level restores the level of startup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.changes import Operation
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.telemetry.broker_loggers import LEVELS, ROOT
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsResponse

if TYPE_CHECKING:
    from pipeline_broker.apis.configs.alteration import SettingChange
    from pipeline_broker.telemetry.broker_loggers import BrokerLoggers

__all__ = ["LoggerChange", "alter_loggers", "describe_loggers", "loggers_to_change"]

# Kafka's number of the config source.
DYNAMIC_BROKER_LOGGER = 6
Config = DescribeConfigsResponse.DescribeConfigsResourceResult


@attrs.frozen
class LoggerChange:
    """A new level of a logger; None restores the level of startup."""

    name: str
    level: str | None


def describe_loggers(loggers: BrokerLoggers) -> list[Config]:
    return [
        Config(name=name, value=level, config_source=DYNAMIC_BROKER_LOGGER) for name, level in loggers.levels().items()
    ]


def loggers_to_change(loggers: BrokerLoggers, configs: Iterable[SettingChange]) -> list[LoggerChange]:
    """Validate the changes that a request makes to loggers, and return them.

    Raises:
        TopicError: a logger or level is unknown, or the operation is not possible for the logger.
    """
    return [_change(loggers, config) for config in configs]


def _change(loggers: BrokerLoggers, config: SettingChange) -> LoggerChange:
    name, operation = config.name, config.config_operation
    if operation not in {Operation.SET, Operation.DELETE}:
        is_known = operation in {Operation.APPEND, Operation.SUBTRACT}
        named = f"{Operation(operation).name} operation" if is_known else f"Unknown operation type {operation}"
        raise TopicError(ErrorCode.INVALID_REQUEST, f"{named} is not allowed for the BROKER_LOGGER resource")
    if name not in loggers:
        raise TopicError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.DELETE:
        if name == ROOT:
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
        return LoggerChange(name, None)
    if config.value not in LEVELS:
        message = (
            f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )
        raise TopicError(ErrorCode.INVALID_CONFIG, message)
    return LoggerChange(name, config.value)


def alter_loggers(loggers: BrokerLoggers, changes: Iterable[LoggerChange]) -> None:
    for change in changes:
        if change.level is None:
            loggers.reset_level(change.name)
        else:
            loggers.set_level(change.name, change.level)
