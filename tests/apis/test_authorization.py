"""Every API requires the right that Kafka requires: a client without it is refused, and one with only it is served."""

from typing import Any

import attrs
import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.apis.steps import ELEMENT_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import (
    ResourceType,
)
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.wire.messages.data.fetch import FetchReplicaState
from pipeline_broker.wire.registry import ApiKey, message_classes
from stages.request import PARKED, TURN_COST, Unfinished
from tests.apis.authorized_requests import (
    BATCH,
    CASES,
    REFUSALS,
    TOPIC_REFUSED,
    Op,
    cluster,
    group,
    inner,
    make,
    rule,
    topic,
)
from tests.apis.authorized_transactions import TRANSACTION_CASES
from tests.apis.desk import Desk
from tests.coordinators import coordinator_of

ALL_CASES = CASES + TRANSACTION_CASES
OPEN_TO_ALL = {
    ApiKey.API_VERSIONS: "open to all clients",
    ApiKey.DESCRIBE_CLUSTER: "only the operations that it names depend on rights",
    ApiKey.LIST_GROUPS: "lists only resources that the client may describe; has its own test",
    ApiKey.LIST_TRANSACTIONS: "lists only resources that the client may describe; has its own test",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "open to all clients",
    ApiKey.PUSH_TELEMETRY: "open to all clients",
    ApiKey.CREATE_DELEGATION_TOKEN: "refused without authentication; has its own tests",
    ApiKey.RENEW_DELEGATION_TOKEN: "as above; for owners and renewers",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "as above; for owners and renewers",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "as above; lists only tokens that the client may describe",
    ApiKey.SASL_HANDSHAKE: "sent before authentication",
    ApiKey.SASL_AUTHENTICATE: "sent before authentication",
}


@pytest.fixture
def desk():
    desk = Desk("offsets.topic.num.partitions=1")
    for name in ("__consumer_offsets", "t"):
        new = desk.broker.new_topic(name)
        result = desk.broker.commit_metadata(
            [(desk.broker.topics.create(new), desk.broker.topic_durable)], desk.now_ms, None
        )
        desk.commit(list(result.entries))
        result.on_durable()

    desk.denials = Refusals(lambda: desk.now_ms)
    desk.broker.authorizer = Authorizer(desk.broker.acls, denials=desk.denials)
    return desk


def allow(desk, *rules):
    write = desk.broker.acls.add(rules)
    desk.broker.acls_durable(write)


def forbid(desk, *rules):
    """Remove the ACLs again."""
    desk.broker.acls_durable(desk.broker.acls.remove(rules))


def codes(message: Any) -> set[int]:
    """Return all error codes of a response, at any depth."""
    if isinstance(message, list):
        return set().union(*map(codes, message))
    if not attrs.has(type(message)):
        return set()
    found = set()
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if field.name in {"error_code", "partition_error_code"}:
            found.add(value)
        elif field.name != "topic_config_error_code":
            found |= codes(value)
    return found


@pytest.mark.parametrize(("version", "code", "rules", "message"), ALL_CASES)
def test_a_client_without_the_right_is_refused_and_one_with_it_is_not(desk, version, code, rules, message):
    """A client that is not refused causes no counted denial: operators alert on these."""
    assert code in codes(desk.ask(message, version))
    assert desk.denials.by_kind
    for some in rules[1:]:
        allow(desk, some)
        assert code in codes(desk.ask(message, version)), "one right of several is not enough"
    allow(desk, *rules)
    desk.denials.by_kind.clear()
    assert not codes(desk.ask(message, version)) & REFUSALS
    assert not desk.denials.by_kind


@pytest.mark.parametrize(("version", "code", "rules", "message"), ALL_CASES)
def test_a_broker_without_an_authorizer_refuses_no_client_in_one_turn(desk, version, code, rules, message):
    desk.broker.authorizer = None
    result = desk.decide(message, version)
    is_large = type(message).SCHEMA.key == ApiKey.DESCRIBE_CONFIGS  # of all settings that a broker has
    assert is_large or not isinstance(result, Unfinished) or result.first is not None
    assert not codes(desk.finish(message, version, result)) & REFUSALS


def test_every_api_is_in_the_table_or_open_to_all_for_a_reason():
    """CVE-2023-50976: an API without any check."""
    asked = {type(parameters.values[3]).SCHEMA.key for parameters in ALL_CASES}
    assert asked | set(OPEN_TO_ALL) >= set(SERVED)
    assert all(message_classes(key) for key in asked)


def test_lists_omit_resources_that_the_client_may_not_describe(desk):
    everything = make("metadata", topics=None)
    assert [each.name for each in desk.ask(everything, 9).topics] == []
    allow(desk, topic(Op.READ))
    assert [each.name for each in desk.ask(everything, 9).topics] == ["t"]
    pages = make("describe_topic_partitions", topics=[])
    assert [each.name for each in desk.ask(pages, 0).topics] == ["t"]


def test_only_brokers_get_errors_about_keys_of_share_partitions(desk):
    """Rights are checked before the form of a key, as in Kafka."""
    wanted = make("find_coordinator", key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0", "no key"])
    found = desk.ask(wanted, 6).coordinators
    assert [each.error_code for each in found] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    allow(desk, cluster(Op.CLUSTER_ACTION))
    found = desk.ask(wanted, 6).coordinators
    assert [each.error_code for each in found] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_a_forbidden_alteration_of_share_offsets_shows_the_topic_id_and_creates_no_group(desk):
    """As in Kafka."""
    module = "alter_share_group_offsets"
    partition = inner(module, "Partition", 0, 3)
    wanted = make(module, group_id="g", topics=[inner(module, "Topic", "t", [partition])])
    allow(desk, group(Op.READ))
    (answered,) = desk.ask(wanted, 0).responses
    assert answered.topic_id == desk.broker.topics.get("t").topic_id
    assert [each.error_code for each in answered.partitions] == [TOPIC_REFUSED]
    assert coordinator_of(desk.broker, "g").share.find("g") is None


def test_auto_creation_requires_the_right_to_create(desk):
    wanted = make("metadata", topics=[inner("metadata", "MetadataRequestTopic", name="new")])
    allow(desk, rule(ResourceType.TOPIC, "new", Op.READ))
    assert TOPIC_REFUSED in codes(desk.ask(wanted, 9))
    assert desk.broker.topics.get("new") is None
    allow(desk, rule(ResourceType.TOPIC, "new", Op.CREATE))
    desk.ask(wanted, 9)
    assert desk.broker.topics.get("new") is not None


def test_a_refused_auto_creation_shows_no_authorized_operations(desk):
    """As in Kafka: not even the right to describe it."""
    allow(desk, rule(ResourceType.TOPIC, "new", Op.DESCRIBE))
    topics = [inner("metadata", "MetadataRequestTopic", name="new")]
    for creates, told in ((True, -(2**31)), (False, 1 << Op.DESCRIBE)):
        wanted = make(
            "metadata", topics=topics, allow_auto_topic_creation=creates, include_topic_authorized_operations=True
        )
        assert [each.topic_authorized_operations for each in desk.ask(wanted, 8).topics] == [told]


def test_a_revoked_right_ends_the_fast_path_of_produce_too(desk):
    """A template must not outlive the right."""
    version, _, rules, message = CASES[0].values
    allow(desk, *rules)
    for _ in range(3):
        assert codes(desk.ask(message, version)) == {0}
    assert desk.connection.session.produce_templates is not None
    write = desk.broker.acls.remove(rules)
    desk.broker.acls_durable(write)
    assert codes(desk.ask(message, version)) == {TOPIC_REFUSED}


def test_a_right_revoked_while_a_fetch_waits_ends_its_records(desk):
    """The fetch was allowed when it arrived; records appended after the right ended are not returned."""
    allow(desk, topic(Op.READ), topic(Op.WRITE))
    wanted = inner("fetch", "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [inner("fetch", "FetchTopic", topic="t", partitions=[wanted])]
    request = make("fetch", topics=topics, max_bytes=1 << 20, min_bytes=1, max_wait_ms=1000, session_epoch=-1)
    assert desk.decide(request, 12) is PARKED
    desk.broker.acls_durable(desk.broker.acls.remove([topic(Op.READ)]))
    version, *_, message = CASES[0].values
    assert codes(desk.ask(message, version)) == {0}
    ((_, result),) = desk.connection.completed
    data = b"".join(map(bytes, result.parts))
    assert BATCH[-20:] not in data
    assert int(TOPIC_REFUSED).to_bytes(2) in data


def test_authorized_operations_are_those_of_the_rules(desk):
    allow(desk, topic(Op.READ), group(Op.DELETE), cluster(Op.ALTER))
    described = make(
        "metadata",
        topics=[inner("metadata", "MetadataRequestTopic", name="t")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = desk.ask(described, 9)
    assert response.topics[0].topic_authorized_operations == 1 << Op.READ | 1 << Op.DESCRIBE
    assert response.cluster_authorized_operations == 1 << Op.ALTER | 1 << Op.DESCRIBE
    groups = make("describe_groups", groups=["g"], include_authorized_operations=True)
    assert desk.ask(groups, 5).groups[0].authorized_operations == 1 << Op.DELETE | 1 << Op.DESCRIBE


def test_forbidden_topics_by_id_are_refused_without_their_name(desk):
    topic_id = desk.broker.topics.get("t").topic_id
    wanted = make("metadata", topics=[inner("metadata", "MetadataRequestTopic", topic_id=topic_id, name=None)])
    (found,) = desk.ask(wanted, 12).topics
    assert (found.error_code, found.name) == (TOPIC_REFUSED, None)
    deletion = make("delete_topics", topics=[inner("delete_topics", "DeleteTopicState", None, topic_id)], timeout_ms=9)
    (refused,) = desk.ask(deletion, 6).responses
    assert (refused.error_code, refused.name) == (TOPIC_REFUSED, None)
    allow(desk, topic(Op.DESCRIBE))
    (refused,) = desk.ask(deletion, 6).responses
    assert (refused.error_code, refused.name) == (TOPIC_REFUSED, "t")


def test_a_forbidden_topic_is_refused_and_the_topics_after_it_are_answered(desk):
    allow(desk, topic(Op.DESCRIBE))
    partition = inner("list_offsets", "ListOffsetsPartition", 0, timestamp=-1)
    wanted = [inner("list_offsets", "ListOffsetsTopic", name, [partition]) for name in ("secret", "t")]
    refused, found = desk.ask(make("list_offsets", replica_id=-1, topics=wanted), 9).topics
    assert [(it.name, it.partitions[0].error_code) for it in (refused, found)] == [("secret", TOPIC_REFUSED), ("t", 0)]


@pytest.mark.parametrize(
    ("name", "version", "of_topic", "of_partition"),
    [
        ("list_offsets", 9, "ListOffsetsTopic", "ListOffsetsPartition"),
        ("offset_for_leader_epoch", 4, "OffsetForLeaderTopic", "OffsetForLeaderPartition"),
        ("delete_records", 2, "DeleteRecordsTopic", "DeleteRecordsPartition"),
    ],
)
def test_to_refuse_many_partitions_takes_turns_too(desk, name, version, of_topic, of_partition):
    partitions = [inner(name, of_partition, index) for index in range(TURN_COST // ELEMENT_COST)]
    message = make(name, topics=[inner(name, of_topic, "t", partitions)])
    assert type(desk.decide(message, version)) is Unfinished


@pytest.mark.parametrize("replica_id", [0, 1])
@pytest.mark.parametrize("version", [12, 17])
def test_a_fetch_as_a_broker_requires_cluster_action(desk, version, replica_id):
    """CVE-2018-1288: such a fetch would report the progress of a follower. This broker has no followers."""
    t = desk.broker.topics.get("t")
    wanted = [inner("fetch", "FetchTopic", "t", t.topic_id, partitions=[inner("fetch", "FetchPartition", 0)])]
    fetch = make("fetch", topics=wanted, max_wait_ms=0)
    if version < 15:
        fetch.replica_id = replica_id
    else:
        fetch.replica_state = FetchReplicaState(replica_id)
    allow(desk, cluster(Op.CLUSTER_ACTION))
    assert codes(desk.ask(fetch, version)) >= {ErrorCode.NOT_LEADER_OR_FOLLOWER}, "a broker may read every topic"
    forbid(desk, cluster(Op.CLUSTER_ACTION))
    allow(desk, topic(Op.READ))
    assert codes(desk.ask(fetch, version)) >= {TOPIC_REFUSED}
    allow(desk, cluster(Op.CLUSTER_ACTION))
    assert codes(desk.ask(fetch, version)) >= {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    desk.broker.authorizer = None
    assert codes(desk.ask(fetch, version)) >= {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_session_does_not_learn_the_fate_of_a_topic_after_its_right_ended(desk):
    t = desk.broker.topics.get("t")
    allow(desk, topic(Op.READ), topic(Op.DELETE))
    wanted = [inner("fetch", "FetchTopic", "", t.topic_id, partitions=[inner("fetch", "FetchPartition", 0)])]
    opened = desk.ask(make("fetch", topics=wanted, max_wait_ms=0, session_epoch=0), 13)
    assert opened.session_id
    deletion = make("delete_topics", topics=[inner("delete_topics", "DeleteTopicState", "t")], timeout_ms=9)
    assert not codes(desk.ask(deletion, 6)) & REFUSALS
    again = make("fetch", session_id=opened.session_id, session_epoch=1, max_wait_ms=0)
    assert codes(desk.ask(again, 13)) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    forbid(desk, topic(Op.READ))
    again.session_epoch = 2
    assert codes(desk.ask(again, 13)) == {0, TOPIC_REFUSED}


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS])
def test_without_an_authorizer_there_are_no_rules(desk, key):
    """Error 54, and Kafka's two messages for it."""
    desk.broker.authorizer = None
    (version, message), *_ = [case.values[::3] for case in CASES if type(case.values[3]).SCHEMA.key == key]
    response = desk.ask(message, version)
    if key is ApiKey.DESCRIBE_ACLS:
        found = (response.error_code, response.error_message)
        assert found == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    else:
        (result,) = response.results if key is ApiKey.CREATE_ACLS else response.filter_results
        assert (result.error_code, result.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured.",
        )


def test_one_rule_that_is_a_filter_refuses_all_of_a_creation(desk):
    """Apache Kafka fails the whole request."""
    allow(desk, cluster(Op.ALTER))
    creations = [inner("create_acls", "AclCreation", 2, "x", pattern, "User:x", "*", 3, 3) for pattern in (3, 2)]
    results = desk.ask(make("create_acls", creations=creations), 3).results
    assert [result.error_code for result in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert len(list(desk.broker.acls)) == 1


def test_a_filter_with_a_number_that_stands_for_nothing_deletes_nothing(desk):
    allow(desk, cluster(Op.ALTER))
    filters = [
        inner("delete_acls", "DeleteAclsFilter", 99, None, 1, None, None, 1, 1),
        inner("delete_acls", "DeleteAclsFilter", 1, None, 1, None, None, 99, 1),
    ]
    results = desk.ask(make("delete_acls", filters=filters), 3).filter_results
    assert [(each.error_code, each.error_message) for each in results] == [
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter."),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
    ]
    assert len(list(desk.broker.acls)) == 1


def test_only_transactions_that_may_be_described_are_listed_and_only_their_topics_that_may_be(desk):
    desk.create_topic("__transaction_state")
    desk.broker.authorizer = None
    start = make("init_producer_id", transactional_id="x", transaction_timeout_ms=1_000)
    producer_id = desk.ask(start, 2).producer_id
    partitions = [inner("add_partitions_to_txn", "AddPartitionsToTxnTopic", "t", [0])]
    fields = {"transactional_id": "x", "producer_id": producer_id, "producer_epoch": 0, "topics": partitions}
    desk.ask(make("add_partitions_to_txn", **{f"v3_and_below_{name}": value for name, value in fields.items()}), 3)
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    listing, description = make("list_transactions"), make("describe_transactions", transactional_ids=["x"])
    assert desk.ask(listing, 0).transaction_states == []
    allow(desk, rule(ResourceType.TRANSACTIONAL_ID, "x", Op.DESCRIBE))
    assert [each.transactional_id for each in desk.ask(listing, 0).transaction_states] == ["x"]
    (described,) = desk.ask(description, 0).transaction_states
    assert (described.error_code, described.topics) == (0, [])
    allow(desk, topic(Op.DESCRIBE))
    (described,) = desk.ask(description, 0).transaction_states
    assert [each.topic for each in described.topics] == ["t"]
