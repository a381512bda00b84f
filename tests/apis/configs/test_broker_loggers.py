"""Log levels are described and altered as in Apache Kafka; all messages were compared with a real broker."""

import logging

import pytest

from pipeline_broker.telemetry.broker_loggers import LEVELS, REQUEST_LOGGER, ROOT, BrokerLoggers
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.apis.desk import Desk

SET, DELETE, APPEND, SUBTRACT = range(4)
LOGGER = 8
OWN = "test.broker.loggers"
VALID = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.fixture
def desk():
    """A broker with one Python logger for this test."""
    desk = Desk()
    logging.getLogger(OWN).setLevel(logging.ERROR)
    desk.broker.loggers = BrokerLoggers([OWN])
    return desk


def alter(desk, *configs, validate_only=False):
    request = IncrementalAlterConfigsRequest
    resource = request.AlterConfigsResource(LOGGER, "1", [request.AlterableConfig(*config) for config in configs])
    (response,) = desk.ask(request([resource], validate_only), 1).responses
    return response.error_code, response.error_message


def described(desk, *names):
    resource = DescribeConfigsRequest.DescribeConfigsResource(LOGGER, "1", list(names) or None)
    (result,) = desk.ask(DescribeConfigsRequest([resource], include_synonyms=True), 4).results
    return result.configs


def levels(desk):
    return {config.name: config.value for config in described(desk)}


def test_loggers_are_described_with_their_levels(desk):
    assert levels(desk) == {REQUEST_LOGGER: "WARN", OWN: "ERROR"}
    (config,) = described(desk, REQUEST_LOGGER)
    assert (config.name, config.config_source, config.read_only, config.is_sensitive) == (
        REQUEST_LOGGER,
        6,
        False,
        False,
    )
    assert (config.config_type, config.synonyms) == (0, [])


def test_a_level_acts_at_once_and_deleting_it_restores_that_of_startup(desk):
    followed = []
    desk.broker.loggers.start_request_log("INFO", followed.append)
    assert alter(desk, (REQUEST_LOGGER, SET, "TRACE"), (OWN, SET, "FATAL")) == (0, None)
    assert levels(desk) == {REQUEST_LOGGER: "TRACE", OWN: "FATAL"}
    assert logging.getLogger(OWN).level == logging.CRITICAL

    assert alter(desk, (REQUEST_LOGGER, DELETE, None), (OWN, DELETE, "")) == (0, None)
    assert levels(desk) == {REQUEST_LOGGER: "INFO", OWN: "ERROR"}
    assert followed == ["INFO", "TRACE", "INFO"]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_kafka_is_known(desk, level):
    assert alter(desk, (OWN, SET, level)) == (0, None)
    assert levels(desk)[OWN] == level


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        (("nope", SET, "INFO"), 40, "Logger nope does not exist!"),
        (("nope", DELETE, None), 40, "Logger nope does not exist!"),
        (("nope", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ((OWN, SUBTRACT, "INFO"), 42, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
        ((OWN, 7, "INFO"), 42, "Unknown operation type 7 is not allowed for the BROKER_LOGGER resource"),
        (
            (OWN, SET, "debug"),
            40,
            f"Cannot set the log level of {OWN} to debug as it is not a supported log level. {VALID}",
        ),
    ],
)
def test_a_resource_with_an_invalid_change_is_refused_as_a_whole(desk, config, code, message):
    assert alter(desk, (REQUEST_LOGGER, SET, "DEBUG"), config) == (code, message)
    assert levels(desk) == {REQUEST_LOGGER: "WARN", OWN: "ERROR"}


def test_the_level_of_the_root_cannot_be_deleted(desk):
    desk.broker.loggers = BrokerLoggers([ROOT])
    assert alter(desk, (ROOT, DELETE, None)) == (42, "Removing the log level of the root logger is not allowed")


def test_a_change_that_is_only_validated_changes_nothing(desk):
    assert alter(desk, (OWN, SET, "DEBUG"), validate_only=True) == (0, None)
    assert levels(desk)[OWN] == "ERROR"


def test_a_broker_shows_its_own_loggers():
    assert set(BrokerLoggers().levels()) == {
        REQUEST_LOGGER,
        ROOT,
        "pipeline_broker",
        "pipeline_broker.audit",
        "pipeline_broker.authorizer",
        "stages",
    }
