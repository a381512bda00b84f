"""Flush settings of clients act at once, and a weaker policy requires ALTER on the cluster."""

import logging

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.segments.policies import NEVER, FlushRules
from pipeline_broker.security.acl import AclOperation as Op
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.access_cases import cluster, topic
from tests.apis.configs.test_incremental_alter_configs import ALL, DELETE, SET, B, T, alter, shown
from tests.apis.desk import Desk

MESSAGES, MS = "flush.messages", "flush.ms"
OF_BROKER, MS_OF_BROKER = "log.flush.interval.messages", "log.flush.interval.ms"
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
Wanted = CreateTopicsRequest.CreatableTopic


def create(desk, *configs, validate_only=False):
    settings = [CreateTopicsRequest.CreatableTopicConfig(*each) for each in configs]
    request = CreateTopicsRequest([Wanted("t", 1, 1, configs=settings)], validate_only=validate_only)
    (result,) = desk.ask(request, 7).topics
    return result.error_code


def desk_with_topic(*settings):
    desk = Desk(*settings)
    assert create(desk) == 0
    return desk


def rules(desk, name="t"):
    return desk.broker.logs.find(name, 0).policies.flush


@pytest.fixture
def desk():
    return desk_with_topic()


def test_flush_always_is_one_message_and_is_shown_so(desk):
    assert rules(desk) == FlushRules(messages=1)
    assert shown(desk, B, OF_BROKER) == ("1", 4, [(OF_BROKER, "1", 4), (OF_BROKER, str(NEVER), 5)])
    assert shown(desk, T, MESSAGES)[:2] == ("1", 4)
    assert desk.broker.logs.topics_synced_later == 0


def test_a_startup_property_overrides_the_option():
    desk = desk_with_topic(f"{OF_BROKER}=10000", f"{MS_OF_BROKER}=1000")
    assert rules(desk) == FlushRules(messages=10000, ms=1000)


def test_the_interval_of_kafka_s_scheduler_is_that_of_topics_without_another():
    assert rules(desk_with_topic("log.flush.scheduler.interval.ms=3000")).ms == 3000


@pytest.mark.parametrize("resource", [B, ALL])
def test_a_broker_setting_applies_to_topics_without_their_own(desk, resource):
    assert alter(desk, (T, (MS, SET, "50"))) == [(0, None)]
    assert alter(desk, (resource, (OF_BROKER, SET, "5"), (MS_OF_BROKER, SET, "700"))) == [(0, None)]
    assert rules(desk) == FlushRules(messages=5, ms=50)
    assert desk.broker.logs.topics_synced_later == 1
    assert alter(desk, (T, (MESSAGES, SET, "1"))) == [(0, None)]
    assert rules(desk).messages == 1
    assert desk.broker.logs.topics_synced_later == 0
    assert alter(desk, (resource, (OF_BROKER, DELETE, None)), (T, (MESSAGES, DELETE, None))) == [(0, None)] * 2
    assert rules(desk) == FlushRules(messages=1, ms=50)


def test_it_survives_a_restart(desk):
    assert alter(desk, (T, (MESSAGES, SET, "5"))) == [(0, None)]
    again = desk.restart()
    assert rules(again).messages == 5
    assert again.broker.logs.topics_synced_later == 1


def guest(desk, *rights):
    """Restrict the client to these rights."""
    desk.broker.acls_durable(desk.broker.acls.add(rights))
    desk.broker.authorizer = Authorizer(desk.broker.acls)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


TOPIC_RIGHTS = (topic(Op.ALTER_CONFIGS), topic(Op.DESCRIBE_CONFIGS), topic(Op.CREATE))
WEAKER = [
    (T, (MESSAGES, SET, "2")),
    (T, (MESSAGES, SET, str(NEVER)), (MS, SET, "1")),
    (B, (OF_BROKER, SET, "2")),
    (ALL, (OF_BROKER, SET, "2")),
]


@pytest.mark.parametrize("change", WEAKER)
@pytest.mark.parametrize("validate_only", [False, True])
def test_weakening_requires_alter_on_the_cluster(desk, caplog, change, validate_only):
    guest(desk, *TOPIC_RIGHTS, cluster(Op.ALTER_CONFIGS))
    ((code, message),) = alter(desk, change, validate_only=validate_only)
    assert code == REFUSED
    assert "ALTER on the cluster" in message
    assert rules(desk) == FlushRules(messages=1)
    assert not warnings_of(caplog)


@pytest.mark.parametrize("change", WEAKER)
def test_weakening_is_logged_as_a_warning(desk, caplog, change):
    guest(desk, *TOPIC_RIGHTS, cluster(Op.ALTER_CONFIGS), cluster(Op.ALTER))
    assert alter(desk, change, validate_only=True) == [(0, None)]
    assert not warnings_of(caplog)
    assert alter(desk, change) == [(0, None)]
    (message,) = warnings_of(caplog)
    assert "a power cut loses those that are not synced" in message


def test_an_equal_or_stronger_policy_needs_no_further_right(desk):
    guest(desk, *TOPIC_RIGHTS, cluster(Op.ALTER_CONFIGS))
    for change in ((T, (MESSAGES, SET, "1")), (T, (MS, SET, "5")), (T, (MS, DELETE, None)), (B, (OF_BROKER, SET, "1"))):
        assert alter(desk, change) == [(0, None)]


def test_removing_a_stronger_topic_setting_weakens_the_topic():
    desk = desk_with_topic(f"{OF_BROKER}=100")
    assert alter(desk, (T, (MESSAGES, SET, "1"))) == [(0, None)]
    guest(desk, *TOPIC_RIGHTS)
    assert [code for code, _ in alter(desk, (T, (MESSAGES, DELETE, None)))] == [REFUSED]


@pytest.mark.parametrize("validate_only", [False, True])
def test_creating_a_weaker_topic_requires_alter_on_the_cluster(validate_only):
    desk = Desk()
    guest(desk, *TOPIC_RIGHTS)
    assert create(desk, (MESSAGES, "2"), validate_only=validate_only) == REFUSED
    guest(desk, cluster(Op.ALTER))
    assert create(desk, (MESSAGES, "2"), validate_only=validate_only) == 0
    assert desk.broker.logs.topics_synced_later == (not validate_only)
