"""Unmodified clients manage access rules over a SASL listener, and are served or refused by them."""

import time

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.conftest import start_broker
from tests.crashes.lengths import drawn
from tests.kafka_tools import kafka_tool

pytestmark = pytest.mark.clients

SECONDS_MAX = 20.0
ROOT, ALICE = "root", "alice"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = [
    "listeners=SASL://127.0.0.1:0",
    "listener.security.protocol.map=SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f'listener.name.sasl.plain.sasl.jaas.config={JAAS} user_{ROOT}="{ROOT}" user_{ALICE}="{ALICE}";',
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    f"super.users=User:{ROOT}",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
]


@pytest.fixture(params=drawn("pipelined", "classic"))
def broker(request, tmp_path):
    started = start_broker(tmp_path / "broker", mode=request.param, settings=SETTINGS)
    yield started
    started.stop()
    started.process.stdout.close()


def settings(broker, user, **more):
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def result(futures):
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def rule(kind, name, operation, pattern=ResourcePatternType.LITERAL):
    return AclBinding(kind, name, pattern, f"User:{ALICE}", "*", operation, AclPermissionType.ALLOW)


EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def produced(broker):
    """Produce one message; return its error or None."""
    producer = confluent_kafka.Producer(settings(broker, ALICE))
    reports = []
    producer.produce("t-1", b"value", on_delivery=lambda error, _: reports.append(error))
    producer.flush(SECONDS_MAX)
    (error,) = reports
    return None if error is None else error.code()


def consumed(broker):
    """Return the first message, or the error."""
    consumer = confluent_kafka.Consumer(settings(broker, ALICE, group_id="g", auto_offset_reset="earliest"))
    consumer.subscribe(["t-1"])
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None:
                return message.value() if message.error() is None else message.error().code()
    finally:
        consumer.close()
    raise AssertionError("nothing came")


def test_clients_are_refused_and_then_allowed(broker):
    root = AdminClient(settings(broker, ROOT))
    result(root.create_topics([NewTopic("t-1", 1, 1)]))
    assert produced(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(broker) == KafkaError.GROUP_AUTHORIZATION_FAILED
    rules = [
        rule(ResourceType.TOPIC, "t-", AclOperation.WRITE, ResourcePatternType.PREFIXED),
        rule(ResourceType.GROUP, "g", AclOperation.READ),
    ]
    for future in root.create_acls(rules).values():
        future.result(SECONDS_MAX)
    assert produced(broker) is None
    assert consumed(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED, "to write implies to describe, not to read"
    reading = rule(ResourceType.TOPIC, "*", AclOperation.READ)
    result(root.create_acls([reading]))
    assert consumed(broker) == b"value"
    assert set(root.describe_acls(EVERY_RULE).result(SECONDS_MAX)) == {*rules, reading}
    assert set(result(root.delete_acls([EVERY_RULE]))) == {*rules, reading}
    assert produced(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_only_a_client_that_may_alter_the_cluster_creates_rules(broker):
    alice = AdminClient(settings(broker, ALICE))
    for asked in (
        lambda: result(alice.create_acls([rule(ResourceType.TOPIC, "*", AclOperation.ALL)])),
        lambda: result(alice.delete_acls([EVERY_RULE])),
    ):
        with pytest.raises(KafkaException) as refused:
            asked()
        assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    root = AdminClient(settings(broker, ROOT))
    result(root.create_acls([rule(ResourceType.TOPIC, "t", AclOperation.READ)]))
    assert alice.describe_acls(EVERY_RULE).result(SECONDS_MAX) == [], "librdkafka hides the refusal"


@pytest.mark.parametrize("broker", drawn("pipelined", "classic"), indirect=True)
def test_kafka_acls_adds_lists_and_removes_rules(broker, tmp_path):
    properties = tmp_path / "client.properties"
    properties.write_text(
        f'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS} username="{ROOT}"'
        f' password="{ROOT}";\n'
    )

    tool = kafka_tool(tmp_path)

    def kafka_acls(*arguments):
        where = ["--bootstrap-server", f"127.0.0.1:{broker.port}", "--command-config", str(properties)]
        return tool("AclCommand", *where, *arguments).stdout

    whom = ["--allow-principal", f"User:{ALICE}", "--topic", "t-1", "--producer"]
    kafka_acls("--add", *whom)
    listed = kafka_acls("--list", "--topic", "t-1")
    for operation in ("WRITE", "CREATE", "DESCRIBE"):
        assert f"(principal=User:{ALICE}, host=*, operation={operation}, permissionType=ALLOW)" in listed
    assert produced(broker) is None
    kafka_acls("--remove", "--force", *whom)
    assert not list(AdminClient(settings(broker, ROOT)).describe_acls(EVERY_RULE).result(SECONDS_MAX))
