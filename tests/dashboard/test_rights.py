"""Every change through the dashboard needs the rights that Kafka requires."""

import pytest

from pipeline_broker.dashboard import administration
from pipeline_broker.dashboard.routes import CHANGES
from pipeline_broker.dashboard.schema_changes import SCHEMA_CHANGES
from pipeline_broker.faults.commands import ACTIONS
from pipeline_broker.security.acl import AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from tests.dashboard.board import Board
from tests.dashboard.test_groups_view import join_consumer
from tests.schema_registry.registry_desk import request_of

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:root;User:ANONYMOUS",
)
ALTER_CLUSTER = (("CLUSTER", "kafka-cluster", "ALTER"),)
WRITE_SCHEMAS = (("TOPIC", "_schemas", "WRITE"),)
ACL = {
    "principal": "User:eve",
    "permission": "DENY",
    "operation": "READ",
    "resource": "TOPIC",
    "name": "t",
    "pattern": "LITERAL",
    "host": "*",
}
CREDENTIAL = {"user": "bob", "mechanism": "SCRAM-SHA-256"}
RIGHTS = {
    "/api/group/offsets": (
        {"group": "g", "topic": "t", "partition": 0, "to": "earliest"},
        (("GROUP", "g", "READ"), ("TOPIC", "t", "READ")),
    ),
    "/api/changes/create-topic": ({"topic": "new"}, (("TOPIC", "new", "CREATE"),)),
    "/api/changes/delete-topic": ({"topic": "t"}, (("TOPIC", "t", "DELETE"),)),
    "/api/changes/add-partitions": ({"topic": "t", "partitions": 5}, (("TOPIC", "t", "ALTER"),)),
    "/api/changes/empty-topic": ({"topic": "t"}, (("TOPIC", "t", "DELETE"),)),
    "/api/changes/configure": (
        {"topic": "t", "setting": "retention.ms", "value": "1"},
        (("TOPIC", "t", "ALTER_CONFIGS"),),
    ),
    "/api/changes/produce": ({"topic": "t", "value": "v"}, (("TOPIC", "t", "WRITE"),)),
    "/api/changes/delete-group": ({"group": "g"}, (("GROUP", "g", "DELETE"),)),
    "/api/changes/delete-offsets": ({"group": "g", "topic": "t"}, (("GROUP", "g", "DELETE"), ("TOPIC", "t", "READ"))),
    "/api/changes/create-acl": (ACL, ALTER_CLUSTER),
    "/api/changes/delete-acl": (ACL, ALTER_CLUSTER),
    "/api/changes/set-password": ({**CREDENTIAL, "password": "secret"}, ALTER_CLUSTER),
    "/api/changes/delete-password": (CREDENTIAL, ALTER_CLUSTER),
    "/api/changes/set-quota": (
        {"of": {"user": "bob"}, "quota": "request_percentage", "value": 5},
        (("CLUSTER", "kafka-cluster", "ALTER_CONFIGS"),),
    ),
    "/api/changes/register-schema": ({"subject": "s", "type": "AVRO", "schema": '"long"'}, WRITE_SCHEMAS),
    "/api/changes/set-compatibility": ({"subject": "s", "level": "NONE"}, WRITE_SCHEMAS),
    "/api/changes/delete-schema": ({"subject": "s"}, WRITE_SCHEMAS),
    "/api/faults/add": ({"arguments": ["api=Produce", "drop"]}, ALTER_CLUSTER),
    "/api/faults/remove": ({"number": 1}, ALTER_CLUSTER),
    "/api/faults/clear": ({}, ALTER_CLUSTER),
    "/api/faults/release": ({"number": 1}, ALTER_CLUSTER),
    "/api/faults/expire": ({"group": "joined"}, ALTER_CLUSTER),
    "/api/faults/rebalance": ({"group": "joined"}, ALTER_CLUSTER),
}
"""The body of each change, and the least rights that it needs."""


def rule(kind, name, operation):
    return CreateAclsRequest.AclCreation(
        ResourceType[kind],
        name,
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation[operation],
        PermissionType.ALLOW,
    )


def prepare(board):
    """Commit offsets of the group `g`, and set the password of bob."""
    board.commit("g", 0)
    request = AlterUserScramCredentialsRequest
    credential = request.ScramCredentialUpsertion("bob", 1, 4096, b"salt", b"salted")
    (answered,) = board.desk.ask(request([], [credential]), 0).results
    assert answered.error_code == 0, answered


async def register(board):
    answer = await board.registry.answer(request_of("POST", "/subjects/s/versions", {"schema": '"int"'}))
    assert answer.status == 200, answer.body


def asked(path, rights, principal="alice"):
    """Send a change as a principal with these rights; return the status and the response."""
    board = Board(*SETTINGS, principal=principal, has_registry=True)
    prepare(board)
    join_consumer(board, "joined")
    board.desk.broker.faults.when("Fetch").drop()
    if rights:
        created = board.desk.ask(CreateAclsRequest([rule(*right) for right in rights]), 3).results
        assert {each.error_code for each in created} == {0}

    async def scenario(board):
        await register(board)
        return await board.change(path, RIGHTS[path][0])

    return board.run(scenario)


@pytest.mark.parametrize("path", sorted(CHANGES))
def test_a_change_needs_exactly_the_rights_of_kafka(path):
    _, rights = RIGHTS[path]

    for missing in rights:
        status, answer = asked(path, [each for each in rights if each != missing])
        kind, name, operation = missing
        resource = "the cluster" if kind == "CLUSTER" else f"the {kind.lower()} {name}"
        # Like Kafka, DeleteTopics first asks for Describe, which Delete implies.
        operation = "DESCRIBE" if path.endswith("delete-topic") else operation
        needs = f"User:alice needs {operation.title().replace('_', '')} on {resource}"
        assert (status, answer) == (409, {"error": f"{kind}_AUTHORIZATION_FAILED: {needs}"})
    assert asked(path, rights)[0] == 200
    assert asked(path, (), principal="root")[0] == 200


def test_every_change_has_an_address():
    assert {route.argument for route in CHANGES.values() if route.name == "change"} == administration.CHANGES.keys()
    assert {route.argument for route in CHANGES.values() if route.name == "change_faults"} == ACTIONS.keys() - {"list"}
    assert {route.argument for route in CHANGES.values() if route.name == "change_schemas"} == SCHEMA_CHANGES.keys()


@pytest.mark.parametrize("path", sorted(path for path, route in CHANGES.items() if route.name != "change_faults"))
def test_no_change_succeeds_while_writes_are_refused(path):
    board = Board(*SETTINGS, has_registry=True)
    prepare(board)

    async def scenario(board):
        await register(board)
        board.desk.journal.room.obstacle = OSError(28, "no space")
        return await board.change(path, RIGHTS[path][0])

    status, answer = board.run(scenario)

    reason = "The disk of the broker is full" if CHANGES[path].name == "change_schemas" else "KAFKA_STORAGE_ERROR"
    assert (status, answer["error"][: len(reason)]) == (409, reason)
