"""Requests that Hypothesis seldom draws, each in every run: names given twice, loggers, settings of the broker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline_broker.security.acl import AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.admin_requests import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tests.differential.comparison import compare
from tests.differential.data_requests import NO_ID, Ask, ask, topic_id
from tests.differential.oracle import SETTLE_SECONDS_MAX, Side
from tests.tables import each_row

pytestmark = pytest.mark.xdist_group("kafka")
Step = tuple[ApiKey, Ask]
SET, DELETE, APPEND, SUBTRACT, UNKNOWN = 0, 1, 2, 3, 9
TIMEOUT_MS = 20_000


def created(
    name: str, *, partitions: int = 1, timeout_ms: int = TIMEOUT_MS, settings: Sequence[tuple[str, str | None]] = ()
) -> Step:
    configs = [CreateTopicsRequest.CreatableTopicConfig(*setting) for setting in settings]
    wanted = CreateTopicsRequest.CreatableTopic(name, partitions, 1, [], configs)
    return ApiKey.CREATE_TOPICS, ask(7, CreateTopicsRequest([wanted], timeout_ms), changes_topics=True)


def deleted(*wanted: tuple[str | None, str | None], timeout_ms: int = TIMEOUT_MS) -> Step:
    """Topics by a name, by the id of a name, or by both."""

    def build(side: Side) -> DeleteTopicsRequest:
        states = [
            DeleteTopicsRequest.DeleteTopicState(name, topic_id(side, other) if other else NO_ID)
            for name, other in wanted
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    return ApiKey.DELETE_TOPICS, Ask(6, build, changes_topics=True, text=f"delete {wanted}")


def changes(resources: Sequence[tuple[int, str, Any]], is_dry: bool) -> bool:
    """Whether settings of topics, groups or subscriptions may be others afterwards."""
    return not is_dry and any(kind not in (BROKER, BROKER_LOGGER) for kind, _, _ in resources)


def altered(*resources: tuple[int, str, list[tuple[str, int, str | None]]], is_dry: bool = False) -> Step:
    request = IncrementalAlterConfigsRequest
    wanted = [
        request.AlterConfigsResource(kind, name, [request.AlterableConfig(*each) for each in configs])
        for kind, name, configs in resources
    ]
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, ask(
        1, request(wanted, is_dry), changes_settings=changes(resources, is_dry)
    )


def set_all(*resources: tuple[int, str, dict[str, str | None]], is_dry: bool = False) -> Step:
    request = AlterConfigsRequest
    wanted = [
        request.AlterConfigsResource(kind, name, [request.AlterableConfig(*each) for each in configs.items()])
        for kind, name, configs in resources
    ]
    return ApiKey.ALTER_CONFIGS, ask(2, request(wanted, is_dry), changes_settings=changes(resources, is_dry))


def described(*resources: tuple[int, str, list[str] | None]) -> Step:
    wanted = [DescribeConfigsRequest.DescribeConfigsResource(*each) for each in resources]
    return ApiKey.DESCRIBE_CONFIGS, ask(4, DescribeConfigsRequest(wanted, include_synonyms=True))


def committed(group: str) -> Step:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        "one", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, 5)]
    )
    return ApiKey.OFFSET_COMMIT, ask(7, OffsetCommitRequest(group, topics=[topic]))


def forgotten(group: str, *topics: str) -> Step:
    request = OffsetDeleteRequest
    wanted = [request.OffsetDeleteRequestTopic(name, [request.OffsetDeleteRequestPartition(0)]) for name in topics]
    return ApiKey.OFFSET_DELETE, ask(0, request(group, wanted))


def users(*changes: tuple[str, int, int | None]) -> Step:
    """SCRAM users as (name, mechanism, iterations), without iterations to be deleted."""
    request = AlterUserScramCredentialsRequest
    gone = [request.ScramCredentialDeletion(name, mechanism) for name, mechanism, count in changes if count is None]
    made = [
        request.ScramCredentialUpsertion(name, mechanism, count, b"salt", b"salted password")
        for name, mechanism, count in changes
        if count is not None
    ]
    altered = request(gone, made)
    return ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Ask(0, lambda _side: altered, text=f"{changes}", changes_users=True)


def described_users(*names: str) -> Step:
    request = DescribeUserScramCredentialsRequest
    return ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ask(0, request([request.UserName(name) for name in names]))


def allowed(*rules: tuple[int, str, int]) -> Step:
    """Rules about (resource type, name, type of pattern) that allow a user of no connection to read."""
    made = [
        CreateAclsRequest.AclCreation(
            kind, name, pattern, "User:rare", "10.9.8.5", AclOperation.READ, PermissionType.ALLOW
        )
        for kind, name, pattern in rules
    ]
    return ApiKey.CREATE_ACLS, Ask(3, lambda _side: CreateAclsRequest(made), text=f"{rules}", changes_acls=True)


def disallowed(*kinds: int) -> Step:
    """All rules of that user about a kind of resource."""
    of_all = (None, PatternType.ANY, "User:rare", None, AclOperation.ANY, PermissionType.ANY)
    gone = [DeleteAclsRequest.DeleteAclsFilter(kind, *of_all) for kind in kinds]
    return ApiKey.DELETE_ACLS, Ask(3, lambda _side: DeleteAclsRequest(gone), text=f"{kinds}", changes_acls=True)


SHA_256, SHA_512 = 1, 2
RETENTION = ("retention.ms", SET, "1000000")
OF_EACH_KIND = [
    (TOPIC, "one", "retention.ms"),
    (TOPIC, "missing", "retention.ms"),
    (TOPIC, "", "retention.ms"),
    (BROKER, "1", "num.io.threads"),
    (BROKER, "", "num.io.threads"),
    (BROKER_LOGGER, "1", "root"),
    (GROUP, "g", "consumer.session.timeout.ms"),
    (CLIENT_METRICS, "m", "interval.ms"),
]
"""Settings that are no lists."""
STORIES: dict[str, list[Step]] = {
    "a topic by its name and by its id": [created("rare1"), deleted(("rare1", None), (None, "rare1"))],
    "a topic by its id": [created("rare2"), deleted((None, "rare2")), deleted((None, "rare2"))],
    "topics that are given twice": [
        created("rare3"),
        deleted((None, "rare3"), (None, "rare3"), (None, "missing"), (None, "missing"), (None, "other missing")),
        deleted(("missing", None), ("missing", None), ("rare3", None), (None, "other missing")),
    ],
    "topics to be made and deleted at once": [
        created("rare4", timeout_ms=0),
        created("rare4"),
        deleted(("rare4", None), timeout_ms=0),
        deleted(("rare4", None)),
    ],
    "topics that are not made": [
        created("rare5", partitions=10_001),
        created("rare5", settings=[("retention.ms", None)]),
        created("rare5", settings=[("retention.ms", "1"), ("retention.ms", "2")]),
    ],
    "the group without a name": [
        step for _ in range(2) for step in (committed(""), forgotten("", "one", "missing"), forgotten(""))
    ],
    "users": [
        users(("rare", SHA_256, 4096), ("rare", SHA_512, 8192), ("other", SHA_256, 4096)),
        users(("rare", SHA_256, 4096), ("rare", SHA_256, 4097), ("other", SHA_512, 4096)),
        users(("rare", SHA_256, None), ("rare", SHA_256, 4096)),
        users(("other", SHA_256, None), ("other", SHA_512, 4096), ("rare", SHA_256, None), ("rare", SHA_256, None)),
        users(("other", SHA_256, 4095), ("rare", SHA_256, 16_385), ("", SHA_256, 4096), ("x", 0, 4096), ("y", 9, 4096)),
        described_users("rare", "other", "nobody"),
        described_users("rare", "rare", "other"),
        users(("rare", SHA_256, None), ("rare", SHA_512, None), ("other", SHA_512, None), ("nobody", SHA_256, None)),
        described_users("rare", "other"),
    ],
    "rules": [
        allowed((ResourceType.CLUSTER, "cluster", PatternType.LITERAL)),
        allowed((ResourceType.GROUP, "", PatternType.LITERAL), (ResourceType.GROUP, "rare", PatternType.LITERAL)),
        allowed((ResourceType.TOPIC, "rare", PatternType.MATCH), (ResourceType.TOPIC, "rare", PatternType.ANY)),
        allowed((ResourceType.GROUP, "rare", PatternType.LITERAL), (ResourceType.GROUP, "rare", PatternType.LITERAL)),
        allowed(
            (ResourceType.TRANSACTIONAL_ID, "*", PatternType.PREFIXED),
            (ResourceType.USER, "User:a", PatternType.LITERAL),
        ),
        disallowed(ResourceType.GROUP, ResourceType.GROUP, ResourceType.TOPIC),
        disallowed(ResourceType.UNKNOWN),
        disallowed(ResourceType.ANY),
        disallowed(ResourceType.ANY),
    ],
    "a resource given twice": [altered((TOPIC, "one", [RETENTION]), (TOPIC, "one", [RETENTION]), (TOPIC, "three", []))],
    "a setting given twice": [altered((TOPIC, "one", [RETENTION, ("retention.ms", DELETE, None)]))],
    "a setting without a value": [
        altered((TOPIC, "one", [("retention.ms", SET, None)])),
        altered((TOPIC, "one", [("retention.ms", APPEND, None)])),
        altered((BROKER, "1", [("num.io.threads", SET, None)])),
        altered((BROKER_LOGGER, "1", [("root", SET, None)])),
        set_all((TOPIC, "one", {"retention.ms": None})),
    ],
    "operations that cannot be": [
        altered((kind, name, [(setting, operation, "1")]))
        for operation in (APPEND, SUBTRACT, UNKNOWN)
        for kind, name, setting in OF_EACH_KIND
        if operation != UNKNOWN or kind in (BROKER, BROKER_LOGGER)  # at the others Kafka's controller resigns
    ],
    "loggers": [
        altered((BROKER_LOGGER, name, [(logger, operation, value)]), is_dry=is_dry)
        for is_dry in (False, True)
        for name, logger, operation, value in [
            ("1", "no.such.logger", SET, "INFO"),
            ("1", "no.such.logger", DELETE, None),
            ("1", "root", DELETE, None),
            ("1", "root", SET, "LOUD"),
            ("1", "root", SET, "error"),
            ("7", "root", SET, "INFO"),
            ("x", "root", SET, "INFO"),
            ("", "root", SET, "INFO"),
        ]
    ],
    "a logger's level": [
        altered((BROKER_LOGGER, "1", [("root", SET, "WARN")])),
        described((BROKER_LOGGER, "1", ["root", "no.such.logger"])),
        altered((BROKER_LOGGER, "1", [("root", SET, "ERROR")])),
        described((BROKER_LOGGER, "x", None), (BROKER_LOGGER, "7", None), (BROKER_LOGGER, "", None)),
    ],
    "settings of the broker": [
        altered((BROKER, name, [(setting, operation, value)]), is_dry=is_dry)
        for is_dry in (True, False)
        for name, setting, operation, value in [
            ("1", "num.io.threads", SET, "many"),
            ("1", "num.io.threads", SET, "0"),
            ("1", "num.io.threads", SET, "1000"),
            ("1", "no.such.setting", SET, "1"),
            ("1", "no.such.setting", DELETE, None),
            ("1", "node.id", SET, "2"),
            ("", "node.id", SET, "2"),
            ("1", "log.retention.ms", SET, "1000000000"),
            ("1", "log.retention.ms", DELETE, None),
            ("", "log.retention.ms", SET, "1000000000"),
            ("", "log.retention.ms", DELETE, None),
            ("1", "log.cleanup.policy", APPEND, "compact"),
            ("1", "log.cleanup.policy", SUBTRACT, "delete"),
            ("1", "log.cleanup.policy", SET, "shred"),
            ("1", "log.cleanup.policy", DELETE, None),
            ("7", "log.retention.ms", SET, "1"),
            ("x", "log.retention.ms", SET, "1"),
            ("1", "max.connections", SET, "-1"),
            ("1", "message.max.bytes", SET, "-1"),
            ("", "max.connections.per.ip.overrides", SET, "nobody"),
            ("1", "listener.name.plaintext.max.connections", SET, "5"),
            ("1", "listener.name.plaintext.max.connections", DELETE, None),
        ]
    ],
    "all settings of the broker": [
        set_all((BROKER, "1", {"log.retention.ms": "1000000000"}), is_dry=True),
        set_all((BROKER, "1", {"log.retention.ms": "1000000000"})),
        described((BROKER, "1", ["log.retention.ms"]), (BROKER, "", None)),
        set_all((BROKER, "1", {})),
        set_all((BROKER, "1", {"node.id": "2"})),
        set_all((BROKER_LOGGER, "1", {"root": "INFO"})),
        set_all((GROUP, "g", {"consumer.session.timeout.ms": "50000"}), (CLIENT_METRICS, "m", {"interval.ms": "100"})),
        set_all((GROUP, "g", {}), (CLIENT_METRICS, "m", {})),
        set_all((99, "one", {})),
        described((BROKER, "1", ["log.retention.ms"]), (BROKER, "", None)),
    ],
}


@each_row("steps", STORIES.values(), ids=STORIES)
def test_a_rare_request_is_answered_as_kafka_answers_it(sides: Any, steps: list[Step]) -> None:
    found = [text for api, step in steps for text in differences(sides, api, step)]
    assert not found, "\n".join(found)


def differences(sides: Any, api: ApiKey, step: Ask) -> list[str]:
    """Of the answers; of descriptions those that stay, since Kafka's broker takes over its settings a little later."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while (found := compare(sides, api, step)) and api is ApiKey.DESCRIBE_CONFIGS and time.monotonic() < deadline:
        time.sleep(0.01)
    return found
