"""`pipeline-broker acls` against a broker with an authorizer; confluent-kafka lists the rules."""

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pipeline_broker import EmbeddedBroker
from tests.commands.cluster.conftest import CommandLine

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KIND = {"TOPIC": "TOPIC", "GROUP": "GROUP", "TRANSACTIONAL_ID": "TRANSACTIONAL_ID", "BROKER": "CLUSTER"}
"""Types of confluent-kafka, with Kafka's names."""


@pytest.fixture(scope="module")
def guarded():
    with EmbeddedBroker(settings=GUARDED) as embedded:
        yield embedded


@pytest.fixture
def call(guarded):
    called = CommandLine(guarded.bootstrap_servers)
    yield called
    called("acls", "delete", "--permission", "allow")
    called("acls", "delete", "--permission", "deny")


def rules(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return {
        (
            KIND[it.restype.name],
            it.name,
            it.resource_pattern_type.name,
            it.principal,
            it.host,
            it.operation.name,
            it.permission_type.name,
        )
        for it in admin.describe_acls(every).result(timeout=20)
    }


def on(kind, name, operation, principal="User:ada", host="*", pattern="LITERAL", permission="ALLOW"):
    return kind, name, pattern, principal, host, operation, permission


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--allow-principal", "User:ada", "--topic", "t"], {on("TOPIC", "t", "ALL")}),
        (
            ["--allow-principal", "User:ada", "--operation", "read", "--operation", "describe-configs", "--topic", "t"],
            {on("TOPIC", "t", "READ"), on("TOPIC", "t", "DESCRIBE_CONFIGS")},
        ),
        (
            ["--deny-principal", "User:eve", "--deny-host", "10.0.0.1", "--group", "g", "--operation", "READ"],
            {on("GROUP", "g", "READ", "User:eve", "10.0.0.1", permission="DENY")},
        ),
        (
            ["--allow-principal", "User:ada", "--topic", "t", "--resource-pattern-type", "prefixed", "--cluster"],
            {on("TOPIC", "t", "ALL", pattern="PREFIXED"), on("CLUSTER", "kafka-cluster", "ALL")},
        ),
        (
            ["--allow-principal", "User:ada", "--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"],
            {
                *(on("TOPIC", "t", it) for it in ("WRITE", "DESCRIBE", "CREATE")),
                *(on("TRANSACTIONAL_ID", "x", it) for it in ("WRITE", "DESCRIBE")),
                on("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE"),
            },
        ),
        (
            ["--allow-principal", "User:ada", "--consumer", "--topic", "t", "--group", "g"],
            {on("TOPIC", "t", "READ"), on("TOPIC", "t", "DESCRIBE"), on("GROUP", "g", "READ")},
        ),
    ],
)
def test_another_client_sees_the_added_rules(call, guarded, arguments, expected):
    added = call("acls", "add", *arguments, "--json").json
    assert rules(guarded) == expected == {tuple(row.values()) for row in added}


def test_rules_are_listed_by_resource_and_principal(call):
    call("acls", "add", "--allow-principal", "User:ada", "--topic", "orders", "--operation", "read")
    call("acls", "add", "--allow-principal", "User:bob", "--group", "billing")
    prefixed = ["--topic", "ord", "--resource-pattern-type", "prefixed"]
    call("acls", "add", "--deny-principal", "User:eve", *prefixed)

    def who(*arguments):
        return [row["principal"] for row in call("acls", "list", *arguments, "--json").json]

    assert sorted(who()) == ["User:ada", "User:bob", "User:eve"]
    assert who("--topic", "orders") == ["User:ada"]
    assert sorted(who("--topic", "orders", "--resource-pattern-type", "match")) == ["User:ada", "User:eve"]
    assert who("--principal", "User:bob", "--principal", "User:cy") == ["User:bob"]
    assert who("--permission", "deny") == ["User:eve"]
    assert who("--operation", "read") == ["User:ada"]
    heading, line = call("acls", "list", "--group", "billing").lines
    assert heading.split() == ["TYPE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"]
    assert line.split() == ["GROUP", "billing", "LITERAL", "User:bob", "*", "ALL", "ALLOW"]


def test_only_matching_rules_are_deleted(call, guarded):
    call("acls", "add", "--allow-principal", "User:ada", "--topic", "t", "--operation", "read", "--operation", "write")
    deleted = call("acls", "delete", "--topic", "t", "--operation", "write", "--json").json
    assert [row["operation"] for row in deleted] == ["WRITE"]
    assert rules(guarded) == {on("TOPIC", "t", "READ")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "--topic", "t"], "a principal is missing: give"),
        (["add", "--allow-principal", "User:ada"], "a resource is missing: give"),
        (["add", "--allow-principal", "ada", "--topic", "t"], "'ada' is not a principal: write it like User:ada"),
        (
            ["add", "--allow-principal", "User:ada", "--consumer", "--topic", "t"],
            "needs --topic and --group",
        ),
        (["add", "--allow-principal", "User:ada", "--producer", "--topic", "t", "--operation", "read"], "--operation"),
        (["add", "--allow-principal", "User:ada", "--idempotent", "--topic", "t"], "--idempotent needs --producer"),
        (
            ["add", "--allow-principal", "User:ada", "--producer", "--topic", "t", "--cluster"],
            "accept only --topic, --group",
        ),
        (["delete"], "the rules to delete are not selected"),
        (["list", "--operation", "fly"], "'fly' is not one of"),
    ],
)
def test_an_invalid_command_is_one_line(call, arguments, message):
    called = call("acls", *arguments, code=2)
    assert message in called.err
    assert called.err.count("\n") == 1


def test_a_broker_without_an_authorizer_says_so(one_broker):
    called = CommandLine(one_broker.bootstrap_servers)("acls", "list", code=1)
    assert "set authorizer.class.name and restart it (SECURITY_DISABLED)" in called.err
    assert called.err.count("\n") == 1


READ_BOTH = (
    "The client needs the right to read on the group and on the topic; `acls add --operation read` grants it, which"
    " includes describe."
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["consume", "t", "--group", "g"], READ_BOTH),
        (["consume", "t"], "the right to read on the topic; `acls add --operation read`"),
        (["delete-records", "t", "--before", "1", "--execute"], "`acls add --operation delete`"),
        (["groups", "reset-offsets", "g", "--topic", "t", "--to", "earliest", "--execute"], READ_BOTH),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, list) else "",
)
def test_a_client_without_rights_learns_all_that_its_command_needs(arguments, said):
    with EmbeddedBroker(settings=GUARDED | {"super.users": "User:ada"}) as broker:
        broker.create_topic("t")
        (line,) = CommandLine(broker.bootstrap_servers)(*arguments, code=1).err.splitlines()
    assert said in line
