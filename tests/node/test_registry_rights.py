"""Users of the schema registry: read-only ones change nothing, and the broker's rules limit what each does."""

import json

import attrs
import pytest
import trio

from pipeline_broker.node.http_callers import HttpCallers
from pipeline_broker.node.registry_rights import GuardedRegistry
from pipeline_broker.schema_registry.api import ANY, READS, TABLE
from pipeline_broker.security.basic_users import HttpUser
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from tests.apis.desk import Desk
from tests.dashboard.test_rights import SETTINGS, rule
from tests.schema_registry.registry_desk import request_of

OPERATIONS = [
    ("/" + "/".join("x" if part == ANY else part for part in pattern), method, decide)
    for pattern, methods in TABLE.items()
    for method, decide in [*methods.items(), ("HEAD", methods.get("GET"))]
    if decide is not None
]
IDS = [f"{method} {path}" for path, method, _ in OPERATIONS]
CHANGES = [
    (path, method) for path, method, decide in OPERATIONS if method not in ("GET", "HEAD") and decide not in READS
]


class Asked:
    """A registry that keeps the requests that reach it."""

    def __init__(self):
        self.requests = []

    async def answer(self, request):
        await trio.lowlevel.checkpoint()
        self.requests.append(request)


def asked(path, method, user, *rights, settings=()):
    """Send a request; return None if it reached the registry, else the status and the body of the refusal."""
    desk, registry = Desk(*settings), Asked()
    if rights:
        created = desk.ask(CreateAclsRequest([rule(*right) for right in rights]), 3).results
        assert {each.error_code for each in created} == {0}
    guarded = GuardedRegistry(registry, HttpCallers(None, desk.broker, "SCHEMA_REGISTRY"))
    answer = trio.run(guarded.answer, attrs.evolve(request_of(method, path, {}), user=user))
    return None if registry.requests else (answer.status, json.loads(answer.body))


@pytest.mark.parametrize(("path", "method", "decide"), OPERATIONS, ids=IDS)
def test_a_read_only_user_reads_everything_and_changes_nothing(path, method, decide):
    is_read = method in ("GET", "HEAD") or decide in READS
    text = "the user alice is read-only, so it cannot change anything"
    refused = (403, {"error_code": 403, "message": text})
    assert asked(path, method, HttpUser("alice", True)) == (None if is_read else refused)
    assert asked(path, method, HttpUser("alice", False)) is None
    assert asked(path, method, None) is None


@pytest.mark.parametrize(("path", "method", "decide"), OPERATIONS, ids=IDS)
def test_with_an_authorizer_a_user_needs_read_or_write_on_the_topic(path, method, decide):
    is_read = method in ("GET", "HEAD") or decide in READS
    needed, other = ("READ", "WRITE") if is_read else ("WRITE", "READ")
    text = f"User:alice needs {needed.title()} on the topic _schemas"
    user = HttpUser("alice", False)
    for rights in ((), [("TOPIC", "_schemas", other)], [("TOPIC", "t", needed)]):
        assert asked(path, method, user, *rights, settings=SETTINGS) == (403, {"error_code": 403, "message": text})
    assert asked(path, method, user, ("TOPIC", "_schemas", needed), settings=SETTINGS) is None
    assert asked(path, method, HttpUser("root", False), settings=SETTINGS) is None


def test_the_table_has_changes_of_schemas_settings_and_modes():
    assert len(CHANGES) == 11


@pytest.mark.parametrize(("path", "method", "status"), [("/nowhere", "GET", 404), ("/subjects", "PATCH", 405)])
def test_an_unknown_operation_is_refused(path, method, status):
    assert asked(path, method, HttpUser("alice", True))[0] == status
