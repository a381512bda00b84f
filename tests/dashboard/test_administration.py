"""Pages change topics, configuration, records and groups, or show Kafka's error."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.broker.group_views import committed_offsets
from pipeline_broker.dashboard import changes, routes
from pipeline_broker.dashboard.administration import CHANGES
from pipeline_broker.dashboard.wishes import RequestError
from pipeline_broker.security.refusals import ROWS_OF_SOURCE_MAX
from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramCredential, salted_password
from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from tests.dashboard.board import Board

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USER = "super.users=User:root"

ACL = {
    "principal": "User:alice",
    "permission": "ALLOW",
    "operation": "READ",
    "resource": "TOPIC",
    "name": "orders",
    "pattern": "PREFIXED",
    "host": "*",
}
CREDENTIAL = {"user": "ada", "mechanism": "SCRAM-SHA-512"}
QUOTA = {"of": {"user": "ada"}, "quota": "producer_byte_rate", "value": 1000}


def scenario(test):
    """Run a test with a served board."""

    def run(board=None):
        (board or Board()).run(test)

    return run


async def change(board, name, /, **body):
    return await board.change(f"/api/changes/{name}", body)


async def topic(board, name):
    return await board.get(f"/api/topics/{name}")


def test_a_topic_is_created_grows_is_configured_and_is_deleted():
    @scenario
    async def run(board):
        assert await change(board, "create-topic", topic="new", partitions=2, settings={"retention.ms": "1000"}) == (
            200,
            {},
        )
        assert await change(board, "add-partitions", topic="new", partitions=3) == (200, {})
        assert await change(board, "configure", topic="new", setting="retention.ms", value="2000") == (200, {})
        found = await topic(board, "new")
        settings = {entry["name"]: entry for entry in found["configuration"]}
        assert found["partitions"] == 3
        assert settings["retention.ms"]["value"] == "2000"
        assert await change(board, "configure", topic="new", setting="retention.ms", value=None) == (200, {})
        settings = {entry["name"]: entry for entry in (await topic(board, "new"))["configuration"]}
        assert settings["retention.ms"]["is_default"]
        assert await change(board, "delete-topic", topic="new") == (200, {})
        assert (await board.exchange("GET", "/api/topics/new"))[0] == 404

    run()


def test_a_refused_body_is_quoted_with_the_expected_form():
    @scenario
    async def run(board):
        expected = 'a change is a JSON object such as {"topic": "orders"}, not [1]'
        assert await board.change("/api/changes/delete-topic", [1]) == (400, {"error": expected})

    run()


def test_a_record_goes_to_the_partition_of_its_key_and_a_topic_is_emptied():
    @scenario
    async def run(board):
        status, answer = await change(board, "produce", topic="t", key="k", value="v", headers=[["h", "x"], ["h", "y"]])
        assert (status, answer["offset"]) == (200, 0)
        (record,) = (await board.get("/api/topics/t/records"))["records"]
        assert (record["partition"], record["key"]["text"], record["value"]["text"]) == (answer["partition"], "k", "v")
        assert [(each["name"], each["content"]["text"]) for each in record["headers"]] == [("h", "x"), ("h", "y")]
        assert await change(board, "produce", topic="t", value=None, partition=3) == (
            200,
            {"partition": 3, "offset": 0},
        )
        assert await change(board, "empty-topic", topic="t") == (200, {})
        assert (await board.get("/api/topics/t/records"))["records"] == []
        assert (await topic(board, "t"))["offsets"] == 0

    run()


def test_a_setting_of_the_broker_is_changed():
    @scenario
    async def run(board):
        assert await change(board, "configure", setting="log.retention.ms", value="5000") == (200, {})
        entries = (await board.get("/api/configuration"))["configuration"]
        (found,) = [entry for entry in entries if entry["name"] == "log.retention.ms"]
        assert found["value"] == "5000"

    run()


def test_a_group_without_members_is_deleted():
    @scenario
    async def run(board):
        board.commit("g", 3)
        assert await change(board, "delete-group", group="g") == (200, {})
        assert (await board.exchange("GET", "/api/group?group=g"))[0] == 404

    run()


def test_the_offsets_of_one_topic_are_deleted():
    @scenario
    async def run(board):
        board.commit("g", 3)
        board.commit("g", 1, partition=2)
        assert await change(board, "delete-offsets", group="g", topic="t") == (200, {})
        assert list(committed_offsets(board.desk.broker, "g")) == []

    run()


def test_a_rule_is_added_and_deleted_alone():
    async def test(board):
        assert await change(board, "create-acl", **ACL) == (200, {})
        assert await change(board, "create-acl", **ACL | {"operation": "WRITE"}) == (200, {})
        assert await change(board, "delete-acl", **ACL) == (200, {})
        assert (await board.get("/api/acls"))["rows"] == [ACL | {"operation": "WRITE"}]

    Board(AUTHORIZER, SUPER_USER).run(test)


def test_a_user_is_created_gets_another_password_and_is_deleted():
    @scenario
    async def run(board):
        users = board.desk.broker.scram_users
        found = []
        for password in ("first", "second"):
            assert await change(board, "set-password", **CREDENTIAL, password=password) == (200, {})
            found.append(users.credential(SCRAM_MECHANISMS["SCRAM-SHA-512"], "ada"))
        first, second = found
        assert second == ScramCredential.of(
            SCRAM_MECHANISMS["SCRAM-SHA-512"],
            second.salt,
            second.iterations,
            salted_password(SCRAM_MECHANISMS["SCRAM-SHA-512"], "second", second.salt, second.iterations),
        )
        assert first.salt != second.salt
        assert (await board.get("/api/users"))["rows"] == [{**CREDENTIAL, "iterations": 4096}]
        assert await change(board, "delete-password", **CREDENTIAL) == (200, {})
        assert (await board.get("/api/users"))["rows"] == []

    run()


def test_a_quota_is_set_changed_and_removed():
    @scenario
    async def run(board):
        for value in (1000, 2000.0):
            assert await change(board, "set-quota", **QUOTA | {"value": value}) == (200, {})
            assert (await board.get("/api/quotas"))["rows"] == [QUOTA | {"value": value}]
        assert await change(board, "set-quota", **QUOTA | {"value": None}) == (200, {})
        assert (await board.get("/api/quotas"))["rows"] == []

    run()


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("create-topic", {"topic": "t"}, "TOPIC_ALREADY_EXISTS"),
        ("create-topic", {"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION"),
        ("create-topic", {"topic": "a", "settings": {"retention.ms": "x"}}, "INVALID_CONFIG"),
        ("create-topic", {"topic": "a", "settings": ["x"]}, "settings must be an object with texts as values"),
        ("create-topic", {"topic": "a", "partitions": 0}, "partitions must be a whole number from 1 to"),
        ("create-topic", {}, "topic must be a non-empty text"),
        ("delete-topic", {"topic": "absent"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("add-partitions", {"topic": "t", "partitions": 2}, "INVALID_PARTITIONS"),
        ("add-partitions", {"topic": "t"}, "partitions is missing"),
        ("empty-topic", {"topic": "absent"}, "the topic 'absent' does not exist"),
        ("configure", {"topic": "t", "setting": "no.such", "value": "1"}, "INVALID_CONFIG"),
        ("configure", {"topic": "t", "value": "1"}, "setting must be a non-empty text"),
        ("produce", {"topic": "t", "partition": 9}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("produce", {"topic": "t", "key": 1}, "key must be a text"),
        ("produce", {"topic": "t", "headers": [["h", 1]]}, "headers must be a list of pairs of texts"),
        ("delete-group", {"group": "absent"}, "GROUP_ID_NOT_FOUND"),
        (
            "delete-offsets",
            {"group": "absent", "topic": "t"},
            "the group 'absent' has no committed offsets of the topic 't'",
        ),
        ("delete-offsets", {"group": "g"}, "topic must be a non-empty text"),
        ("create-acl", ACL, "SECURITY_DISABLED: No Authorizer is configured."),
        ("create-acl", ACL | {"operation": "ANY"}, "operation must be one of ALL, READ, WRITE"),
        ("delete-acl", ACL | {"pattern": "MATCH"}, "pattern must be one of LITERAL, PREFIXED"),
        ("delete-acl", {}, "resource must be a non-empty text"),
        ("set-password", {**CREDENTIAL, "password": ""}, "password must be a non-empty text"),
        ("set-password", {"user": "a", "mechanism": "PLAIN"}, "mechanism must be one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("delete-password", CREDENTIAL, "RESOURCE_NOT_FOUND"),
        ("set-quota", QUOTA | {"value": -1}, "INVALID_REQUEST: Quota producer_byte_rate must be greater than 0"),
        ("set-quota", QUOTA | {"value": "1"}, "value must be a number"),
        ("set-quota", QUOTA | {"value": True}, "value must be a number"),
        ("set-quota", QUOTA | {"value": 10**400}, "value is too large"),
        ("set-quota", QUOTA | {"of": {}}, "of must be an object"),
        ("set-quota", QUOTA | {"of": {"ip": "x"}}, "INVALID_REQUEST: x is not a valid IP"),
        ("produce", {"topic": "t", "value": "\ud800"}, "value must be valid Unicode text"),
    ],
)
def test_a_refused_change_has_kafkas_error(name, body, reason):
    @scenario
    async def run(board):
        status, answer = await board.change(f"/api/changes/{name}", body)
        assert status == 409
        assert answer["error"].startswith(reason)

    run()


def test_a_read_only_dashboard_refuses_changes():
    async def test(board):
        for path in routes.CHANGES:
            assert await board.change(path, {}) == (403, {"error": "this dashboard is read-only"})
        assert (await board.get("/api/broker"))["is_read_only"] is True

    Board(is_read_only=True).run(test)


def test_rules_users_and_quotas_are_shown():
    async def test(board):
        assert await board.get("/api/acls") == {"rows": [], "is_cut": False, "reason": ""}
        assert (await board.get("/api/users"))["rows"] == []
        assert (await board.get("/api/quotas"))["rows"] == []

    Board(AUTHORIZER, SUPER_USER).run(test)


@pytest.mark.parametrize(("count", "is_cut"), [(2, False), (3, True)])
def test_rows_beyond_the_maximum_are_cut(count, is_cut, monkeypatch):
    monkeypatch.setattr(changes, "ROWS_MAX", 2)
    board = Board()
    operation = AlterClientQuotasRequest.OpData("producer_byte_rate", 1000.0)
    for number in range(count):
        entity = AlterClientQuotasRequest.EntityData("user", f"user {number}")
        entry = AlterClientQuotasRequest.EntryData([entity], [operation])
        (answered,) = board.desk.ask(AlterClientQuotasRequest([entry]), 1).entries
        assert answered.error_code == 0

    async def test(board):
        found = await board.get("/api/quotas")
        assert (len(found["rows"]), found["is_cut"]) == (2, is_cut)

    board.run(test)


def test_refusals_are_counted_by_kind_and_listed():
    async def test(board):
        broker = board.desk.broker
        broker.failed_logins.add(("SASL", "PLAIN"), ("10.0.0.1",), "eve", "wrong")
        for number in range(ROWS_OF_SOURCE_MAX + 2):
            broker.denials.add(("READ", "Topic"), ("User:alice", "10.0.0.2"), f"t-{number}")
        now_ms, shown = broker.ports.clock_ms(), await board.get("/api/refusals")

        login = {"listener": "SASL", "mechanism": "PLAIN"}
        row = {**login, "from": "10.0.0.1", "name": "eve", "is_sum": False, "count": 1, "last_ms": now_ms}
        kinds = [{**login, "count": 1}]
        assert shown["logins"] == {"kinds": kinds, "rows": [{**row, "reason": "wrong"}], "left_out": 0}
        denials = shown["denials"]
        assert denials["kinds"] == [{"operation": "READ", "resource": "Topic", "count": ROWS_OF_SOURCE_MAX + 2}]
        assert {(each["principal"], each["from"]) for each in denials["rows"]} == {("User:alice", "10.0.0.2")}
        (older,) = [each for each in denials["rows"] if each["is_sum"]]
        assert (older["count"], older["operation"], older["name"]) == (2, "", "")

    Board(AUTHORIZER, SUPER_USER).run(test)


def test_refusals_need_describe_on_the_cluster():
    async def test(board):
        board.desk.broker.failed_logins.add(("SASL", "PLAIN"), ("10.0.0.1",), "eve", "wrong")
        reason = "CLUSTER_AUTHORIZATION_FAILED: User:alice needs Describe on the cluster"
        assert await board.get("/api/refusals") == {"reason": reason}

    Board(AUTHORIZER, SUPER_USER, principal="alice").run(test)


def test_a_broker_without_an_authorizer_gives_the_reason_for_missing_acls():
    @scenario
    async def run(board):
        found = await board.get("/api/acls")
        assert found["rows"] == []
        assert found["reason"].startswith("SECURITY_DISABLED")

    run()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        *("topic", "partitions", "partition", "settings", "setting", "value", "key", "headers", "group", "principal"),
        *(
            "permission",
            "operation",
            "resource",
            "name",
            "pattern",
            "host",
            "user",
            "mechanism",
            "password",
            "of",
            "quota",
        ),
    ]
)


BOARD = Board()


@given(st.sampled_from(sorted(CHANGES)), st.dictionaries(NAMES, JSON | st.just("t")))
def test_any_body_is_parsed_or_refused(name, body):
    with suppress(RequestError):
        CHANGES[name].request(BOARD.desk.broker, body)
