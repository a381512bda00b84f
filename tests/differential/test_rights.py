"""Rules of access allow and deny the same as in Apache Kafka, API by API, and refusals look the same.

The guest asks from an address of its own, which the rules are about; everything else is asked by the control, which a
rule of its own allows everything. See oracle for their addresses.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.security.acl import (
    CLUSTER_NAME,
    SUPPORTED,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.apis.authorized_requests import CASES
from tests.apis.authorized_transactions import TRANSACTION_CASES
from tests.differential.access_requests import ACCESS_REQUESTS
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import NOW_MS, ask
from tests.differential.oracle import CLOSED, CONTROL_HOST, GUEST_HOST, Side
from tests.differential.table import PACED, REQUESTS, versions_of
from tests.differential.test_sequences import fetched, remember_session

GIVEN_LATER = (
    "SHARE_GROUP_HEARTBEAT",
    "SHARE_GROUP_DESCRIBE",
    "SHARE_FETCH",
    "ALTER_SHARE_GROUP_OFFSETS",
    "DELETE_SHARE_GROUP_OFFSETS",
)
"""What members of a share group are given here with their first heartbeat, in Kafka about a second later."""
ALL_CASES = [case for case in CASES + TRANSACTION_CASES if not case.id.startswith(GIVEN_LATER)]
pytestmark = pytest.mark.xdist_group("kafka")
OF_STORIES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID]
NAMES = {
    ResourceType.TOPIC: ["one", "three", "missing", "made0", "auto0", "one"],
    ResourceType.GROUP: ["simple", "other", "nobody"],
    ResourceType.TRANSACTIONAL_ID: ["transaction", "simple"],
    ResourceType.CLUSTER: [CLUSTER_NAME],
}
PREFIXES = {
    ResourceType.TOPIC: ["o", "th", "m", "one"],
    ResourceType.GROUP: ["s", "other"],
    ResourceType.TRANSACTIONAL_ID: ["t"],
}
Rule = CreateAclsRequest.AclCreation


def rule(kind, name, pattern, host, operation, permission, principal="User:ANONYMOUS"):
    return Rule(kind, name, pattern, principal, host, operation, permission)


ALL_TO_CONTROL = [
    rule(kind, "*", PatternType.LITERAL, CONTROL_HOST, AclOperation.ALL, PermissionType.ALLOW, "User:*")
    for kind in OF_STORIES
]


@st.composite
def rules(draw):
    kind = draw(st.sampled_from([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, *SUPPORTED]))
    kind = kind if kind in NAMES else ResourceType.TOPIC
    pattern = draw(st.sampled_from([PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED]))
    if kind not in PREFIXES:
        pattern = PatternType.LITERAL
    names = PREFIXES[kind] if pattern is PatternType.PREFIXED else [*NAMES[kind], NAMES[kind][0]]
    name = draw(st.sampled_from([*names, "*"] if kind is not ResourceType.CLUSTER else names))
    permission = draw(st.sampled_from([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]))
    return rule(
        kind,
        name,
        pattern,
        draw(st.sampled_from([GUEST_HOST, GUEST_HOST, GUEST_HOST, "10.9.8.5"])),
        draw(st.sampled_from([AclOperation.ALL, *SUPPORTED[kind]])),
        permission,
        draw(st.sampled_from(["User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:ann"])),
    )


def add(sides, wanted):
    for side in sides.all:
        results = side.ask(CreateAclsRequest(wanted), 3)["results"]
        assert not any(result["error_code"] for result in results), results
    sides.settle_what(Side.acls)


def remove(sides, wanted):
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in wanted
    ]
    for side in sides.all:
        side.ask(DeleteAclsRequest(filters), 3)
    sides.settle_what(Side.acls)


def ask_as_guest(sides, guests, key, step, remember=None):
    for guest, side in zip(guests.all, sides.all, strict=True):
        guest.topic_ids, guest.names = side.topic_ids, side.names
    return compare(guests, key, step, remember, settling=sides)


def drawn_steps(data, keys):
    """One request of each API, in a drawn version."""
    versions = {key: data.draw(st.sampled_from(versions_of(key))) for key in keys if versions_of(key)}
    return [(key, data.draw(REQUESTS[key](version))) for key, version in versions.items()]


def tell(sides, guests, wanted, steps):
    """Ask while there are rules; nothing may differ."""
    add(sides, wanted)
    found = []
    try:
        for key, step in steps:
            found += ask_as_guest(sides, guests, key, step)
    finally:
        remove(sides, wanted)
    assert not found, "\n".join([repr(wanted), *found])


@drawn(4)
@given(
    data=st.data(),
    wanted=st.lists(rules(), min_size=3, max_size=12, unique_by=repr),
    order=st.permutations(sorted(set(REQUESTS) - set(ACCESS_REQUESTS) - PACED) + sorted(ACCESS_REQUESTS)),
)
def test_every_api_allows_and_denies_what_kafka_does(sides, guests, data, wanted, order):
    tell(sides, guests, [*ALL_TO_CONTROL, *wanted], drawn_steps(data, order))


READING = [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.PRODUCE, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS]
READING += [ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_GROUPS]


@drawn(2)
@given(data=st.data(), wanted=st.lists(rules().filter(lambda each: each.resource_name != "*"), min_size=2, max_size=6))
def test_what_no_rule_is_about_is_allowed_to_everybody_as_in_kafka(sides, guests, data, wanted):
    """`allow.everyone.if.no.acl.found`; the control may not use what the rules are about."""
    wanted = [each for each in wanted if each.resource_type != ResourceType.CLUSTER]
    tell(sides, guests, wanted, drawn_steps(data, READING))


BROKER, BROKER_LOGGER = 4, 8
OF_BROKERS = [
    (BROKER, "x", "log.retention.ms", "1"),
    (BROKER, "9", "log.retention.ms", "1"),
    (BROKER, "1", "log.retention.ms", "1"),
    (BROKER, "1", "log.retention.ms", "many"),
    (BROKER, "1", "node.id", "2"),
    (BROKER, "1", "log.retention.ms", None),
    (BROKER, "", "log.retention.ms", "many"),
    (BROKER, "", "log.retention.ms", "1"),
    (BROKER_LOGGER, "x", "root", "INFO"),
    (BROKER_LOGGER, "9", "root", "INFO"),
    (BROKER_LOGGER, "1", "root", "LOUD"),
    (99, "x", "root", "INFO"),
]
"""Resource type, name, setting, value."""


@pytest.mark.parametrize(("kind", "name", "setting", "value"), OF_BROKERS)
def test_settings_of_brokers_are_refused_to_a_client_without_rights_as_by_kafka(
    sides, guests, kind, name, setting, value
):
    """Altered in both ways; this broker refuses before it looks at the values (`refused_first`)."""
    old, new = AlterConfigsRequest, IncrementalAlterConfigsRequest
    replaced = old.AlterConfigsResource(kind, name, [old.AlterableConfig(setting, value)])
    changed = new.AlterConfigsResource(kind, name, [new.AlterableConfig(setting, 0, value)])
    unknown = new.AlterConfigsResource(kind, name, [new.AlterableConfig(setting, 7, value)])
    deny = rule(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, GUEST_HOST, AclOperation.ALL, PermissionType.DENY
    )
    asked = [
        (ApiKey.ALTER_CONFIGS, ask(2, old([replaced], validate_only=True))),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, ask(1, new([changed], validate_only=True))),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, ask(1, new([unknown], validate_only=True))),
    ]
    tell(sides, guests, [deny], asked)


@pytest.mark.parametrize(
    ("version", "code", "needed", "message"),
    [case.values for case in ALL_CASES],
    ids=[c.id for c in ALL_CASES],
)
def test_each_right_is_asked_for_as_in_kafka(sides, guests, version, code, needed, message):
    """Without any, with each alone, and with all of the rules of the table that the tests of the APIs use."""
    del code
    created = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 20_000)
    found = []
    subsets = {frozenset(): [], **{frozenset([each]): [each] for each in needed}, frozenset(needed): needed}
    add(sides, ALL_TO_CONTROL)
    try:
        for subset in subsets.values():
            for side in sides.all:
                side.ask(created, 5)
            sides.settle()
            given_rules = [
                rule(
                    each.resource_type,
                    each.resource_name,
                    each.pattern_type,
                    GUEST_HOST,
                    each.operation,
                    each.permission,
                )
                for each in subset
            ]
            add(sides, given_rules)
            step = ask(version, message)
            found += ask_as_guest(sides, guests, message.SCHEMA.key, step)
            remove(sides, given_rules)
    finally:
        remove(sides, ALL_TO_CONTROL)
        sides.settle()
    assert not found, "\n".join(found)


ONE_RIGHT = {"kind": ResourceType.TOPIC, "pattern": PatternType.LITERAL, "host": GUEST_HOST}


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_right_that_ends_and_returns_is_seen_by_a_fetch_session_as_in_kafka(sides, guests, version):
    """Full fetch, incremental fetches while reading is denied, and after that."""
    denied = rule(name="three", operation=AclOperation.READ, permission=PermissionType.DENY, **ONE_RIGHT)
    allowed = rule(name="three", operation=AclOperation.ALL, permission=PermissionType.ALLOW, **ONE_RIGHT)
    wanted = [*ALL_TO_CONTROL, allowed]
    add(sides, wanted)
    found = []
    try:
        for epoch, change in enumerate((None, None, add, None, remove, None)):
            if change is not None:
                change(sides, [denied])
            step = fetched("three", version, epoch, 0, [] if epoch else [0, 1])
            found += ask_as_guest(sides, guests, ApiKey.FETCH, step, remember_session)
    finally:
        remove(sides, [*wanted, denied])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_produce_request_without_answer_that_is_denied_closes_the_connection_as_in_kafka(sides, guests, is_allowed):
    batch = build_batch([NewRecord(b"v", None, NOW_MS)])
    partition = ProduceRequest.PartitionProduceData(0, batch)
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("three", partition_data=[partition])])
    request.acks, request.timeout_ms = 0, 10_000
    permission = PermissionType.ALLOW if is_allowed else PermissionType.DENY
    wanted = [*ALL_TO_CONTROL, rule(name="three", operation=AclOperation.WRITE, permission=permission, **ONE_RIGHT)]
    add(sides, wanted)
    try:
        for guest in guests.all:
            guest.send(request, 9)
            assert (guest.ask(ApiVersionsRequest(), 0) != CLOSED) == is_allowed, guest.name
    finally:
        remove(sides, wanted)
