"""Users of the dashboard: a read-only one changes nothing, and the broker's rules limit what each sees."""

import base64
import json
import logging

import pytest

from pipeline_broker.dashboard.rights import NEEDED
from pipeline_broker.dashboard.routes import CHANGES, EXACT, PAGES, VARYING, find_route
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.basic_users import BasicUsers
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from tests.dashboard.board import Board
from tests.dashboard.test_groups_view import join_consumer
from tests.dashboard.test_rights import RIGHTS, SETTINGS, prepare, register, rule

VIEWS = {
    *EXACT,
    "/api/topics/t",
    "/api/topics/t/records",
    "/api/topics/t/groups",
    "/events/topics/t",
    "/api/acls",
    "/api/users",
    "/api/quotas",
    "/static/app.js",
}
GROUP_VIEWS = {"/api/group": "?group=g", "/api/lags": "?group=g"}
METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")
MARKUP = "<img src=x onerror=alert(1)>\u202e'\"&\n"


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text("ada:secret\n[read-only]\nalice:secret\n")
    return BasicUsers(path)


def as_user(board, name):
    board.authorization = f"Basic {base64.b64encode(f'{name}:secret'.encode()).decode()}"


def allow(board, *rights):
    created = board.desk.ask(CreateAclsRequest([rule(*right) for right in rights]), 3).results
    assert {each.error_code for each in created} == {0}


def secured(users=None):
    board = Board(*SETTINGS, users=users, has_registry=True)
    prepare(board)
    return board


# Roles


def test_a_read_only_user_changes_nothing_by_any_method_at_any_address(users):
    async def scenario(board):
        as_user(board, "alice")
        headers = (f"Origin: http://{board.authority}", "Content-Type: application/json", *board.bearer)
        for path in sorted({*CHANGES, *VIEWS, *PAGES, "/nowhere"}):
            for method in METHODS:
                body = json.dumps(RIGHTS[path][0] if path in RIGHTS else {}).encode()
                status, _, answer = await board.exchange(method, path, *headers, body=body)
                reason = {"error": "the user alice is read-only, so it cannot change anything"}
                assert (status, json.loads(answer)) == (403, reason), (method, path)
        assert (await board.get("/api/broker"))["is_read_only"] is True
        assert (await board.get("/api/broker"))["user"] == "alice"
        as_user(board, "ada")
        assert (await board.get("/api/broker"))["is_read_only"] is False

    board = Board(users=users, has_registry=True)
    prepare(board)
    board.run(scenario)


def test_an_admin_changes_as_before_and_the_audit_log_has_a_line_without_secrets(users, caplog):
    caplog.set_level(logging.INFO)

    async def scenario(board):
        as_user(board, "ada")
        await register(board)
        for path in sorted(CHANGES):
            if CHANGES[path].name == "change":
                assert (await board.change(path, RIGHTS[path][0]))[0] in (200, 409), path
        assert (await board.change("/api/changes/set-password", RIGHTS["/api/changes/set-password"][0]))[0] == 200
        refused = RIGHTS["/api/changes/register-schema"][0] | {"schema": '"string"'}
        assert (await board.change("/api/changes/register-schema", refused))[0] == 409

    board = Board(users=users, has_registry=True)
    prepare(board)
    board.run(scenario)
    lines = [record.getMessage() for record in caplog.records if record.name == "pipeline_broker.audit"]
    assert '/api/changes/create-topic {"topic": "new"} by User:ada from 127.0.0.1: done' in lines
    (set_password, *_) = [line for line in lines if "set-password" in line]
    assert set_password.startswith(
        '/api/changes/set-password {"user": "bob", "mechanism": "SCRAM-SHA-256"} by User:ada'
    )
    (registered,) = [line for line in lines if "register-schema" in line]
    assert "refused: " in registered
    assert 'POST "/subjects/s/versions" by anyone from : done' in lines
    assert not any("secret" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    "headers", [("Origin: http://evil.test",), ("Origin: null",), ("Sec-Fetch-Site: cross-site",), ()]
)
def test_a_foreign_page_changes_nothing_with_the_password_of_an_admin(users, headers):
    async def scenario(board):
        as_user(board, "ada")
        for path in sorted(CHANGES):
            sent = ("Content-Type: application/json", *board.bearer, *headers)
            body = json.dumps(RIGHTS[path][0]).encode()
            assert (await board.exchange("POST", path, *sent, body=body))[0] == 403, path

    Board(users=users, has_registry=True).run(scenario)


# Views


def test_every_route_has_an_entry_in_the_table_of_rights():
    names = {*EXACT.values(), *(name for _, name in VARYING), *(route.name for route in CHANGES.values()), "page"}
    assert NEEDED.keys() == names


def needed_rights(path):
    right = NEEDED[find_route("GET", path).name]
    if right is None:
        return None
    operation, kind = right
    schemas = "_schemas" if "schemas" in path else "t"
    name = {ResourceType.TOPIC: schemas, ResourceType.GROUP: "g", ResourceType.CLUSTER: "kafka-cluster"}[kind]
    return kind.name, name, operation.name


async def status_of(board, path):
    async with await board.connect("GET", path, board.bearer) as stream:
        return int(bytes(await stream.receive_some()).split()[1])


@pytest.mark.parametrize("path", sorted(path for path in VIEWS if needed_rights(path)))
def test_a_view_needs_its_right_and_names_it(path, users):
    kind, name, operation = needed_rights(path)

    async def scenario(board):
        as_user(board, "alice")
        await register(board)
        target = path + GROUP_VIEWS.get(path, "")
        status, _, body = await board.exchange("GET", target, *board.bearer)
        resource = "the cluster" if kind == "CLUSTER" else f"the {kind.lower()} {name}"
        needs = f"User:alice needs {operation.title().replace('_', '')} on {resource}"
        assert (status, json.loads(body)) == (403, {"error": needs})
        allow(board, (kind, name, operation))
        assert await status_of(board, target) in (200, 404), target

    board = secured(users)
    board.run(scenario)


def test_lists_omit_what_the_principal_may_not_describe(users):
    async def scenario(board):
        as_user(board, "alice")
        assert (await board.get("/api/topics"))["topics"] == []
        assert (await board.get("/api/topics"))["count"] == 0
        assert (await board.get("/api/groups"))["groups"] == []
        assert (await board.get("/api/broker"))["limited_to"] == "User:alice"
        allow(board, ("TOPIC", "t", "DESCRIBE"), ("GROUP", "g", "DESCRIBE"))
        board.dashboard._shared.forget()
        assert [each["name"] for each in (await board.get("/api/topics"))["topics"]] == ["t"]
        assert [each["group"] for each in (await board.get("/api/groups"))["groups"]] == ["g"]
        as_user(board, "ada")  # she does not get the answers that are kept for alice
        assert (await board.get("/api/topics"))["topics"] == []
        assert (await board.get("/api/groups"))["groups"] == []
        as_user(board, "alice")
        assert (await board.get("/api/topics/t"))["configuration"] is None
        allow(board, ("TOPIC", "t", "DESCRIBE_CONFIGS"))
        board.dashboard._shared.forget()
        assert (await board.get("/api/topics/t"))["configuration"]

    secured(users).run(scenario)


def test_a_group_omits_partitions_and_assignments_of_hidden_topics(users):
    async def scenario(board):
        as_user(board, "alice")
        allow(board, ("GROUP", "g", "DESCRIBE"), ("GROUP", "joined", "DESCRIBE"))
        assert (await board.get("/api/group?group=g"))["offsets"] == []
        (member,) = (await board.get("/api/group?group=joined"))["members"]
        assert member["assignment"] == {}
        allow(board, ("TOPIC", "t", "DESCRIBE"))
        board.dashboard._shared.forget()
        assert [row["topic"] for row in (await board.get("/api/group?group=g"))["offsets"]] == ["t"]
        (member,) = (await board.get("/api/group?group=joined"))["members"]
        assert member["assignment"] == {"t": [0, 1, 2, 3]}

    board = secured(users)
    join_consumer(board, "joined")
    board.run(scenario)


@pytest.mark.parametrize(
    "path", ["/api/changes/empty-topic", "/api/changes/produce", "/api/changes/delete-offsets", "/api/group/offsets"]
)
def test_a_refusal_does_not_show_whether_the_topic_or_group_exists(path, users):
    async def scenario(board):
        as_user(board, "ada")
        errors = set()
        for names in ({"group": "g", "topic": "t"}, {"group": "absent", "topic": "absent"}):
            body = RIGHTS[path][0]
            status, answer = await board.change(
                path, {**body, **{field: names[field] for field in names if field in body}}
            )
            assert status == 409
            errors.add(answer["error"].rpartition(" ")[0])
        assert len(errors) == 1

    secured(users).run(scenario)


# Hostile names


@pytest.mark.parametrize("path", sorted(CHANGES))
def test_markup_in_every_field_is_carried_out_or_refused_as_text(path, caplog):
    """Names appear in answers as JSON only, and in the audit log on one line."""
    caplog.set_level(logging.INFO)

    async def scenario(board):
        await register(board)
        body = RIGHTS[path][0]
        for field in body:
            hostile = {MARKUP: MARKUP} if isinstance(body[field], dict) else MARKUP
            status, headers, answer = await board.exchange(
                "POST",
                path,
                f"Origin: http://{board.authority}",
                "Content-Type: application/json",
                *board.bearer,
                body=json.dumps({**body, field: hostile}).encode(),
            )
            assert status in (200, 409), (field, answer)
            assert headers["content-type"] == "application/json; charset=utf-8"
            json.loads(answer)
            status, answer = await board.change(path, {**body, field: "\ud800"})
            assert status in (200, 409), (field, answer)

    board = Board(*SETTINGS, has_registry=True)
    prepare(board)
    board.run(scenario)
    assert not any("\n" in each.getMessage() for each in caplog.records if each.name == "pipeline_broker.audit")


def test_the_rows_of_the_access_page_have_hostile_names_as_they_are():
    async def scenario(board):
        acl = {**RIGHTS["/api/changes/create-acl"][0], "name": MARKUP, "principal": f"User:{MARKUP}"}
        assert await board.change("/api/changes/create-acl", acl) == (200, {})
        assert acl in (await board.get("/api/acls"))["rows"]
        quota = {"of": {"user": MARKUP, "client-id": None}, "quota": "producer_byte_rate", "value": 1024}
        assert await board.change("/api/changes/set-quota", quota) == (200, {})
        assert (await board.get("/api/quotas"))["rows"] == [{**quota, "value": 1024.0}]
        assert await board.change("/api/changes/set-quota", {**quota, "value": None}) == (200, {})
        assert (await board.get("/api/quotas"))["rows"] == []
        assert await board.change("/api/changes/delete-acl", acl) == (200, {})
        assert (await board.get("/api/acls"))["rows"] == []

    Board(*SETTINGS).run(scenario)


def test_the_operations_of_the_form_are_those_of_kafka():
    async def scenario(board):
        choices = await board.get("/api/acls/choices")
        assert choices["USER"] == ["ALL", "CREATE_TOKENS", "DESCRIBE_TOKENS"]
        assert {name for names in choices.values() for name in names} <= AclOperation.__members__.keys()

    Board().run(scenario)


def test_the_lag_of_all_groups_needs_describe_on_the_cluster_and_its_absence_is_no_denial(users):
    async def scenario(board):
        as_user(board, "alice")
        reason = "The lag of all groups needs Describe on the cluster."
        assert await board.get("/api/lags") == {"ages": [], "lag": [], "reason": reason}
        assert board.desk.broker.denials.newest() == []
        allow(board, ("CLUSTER", "kafka-cluster", "DESCRIBE"))
        assert "reason" not in await board.get("/api/lags")

    secured(users).run(scenario)
