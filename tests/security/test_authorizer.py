"""Who may do what, against the rules spelled out plainly, and the cases that security holes of the past teach."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.security.acl import (
    CLUSTER_NAME,
    SUPPORTED,
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.security.acls import Acls
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.security.principal import KafkaPrincipal

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
OPERATIONS = SUPPORTED[TOPIC]
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ANY_RULE = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY)

names = st.sampled_from(["a", "ab", "abc", "b", "ba"])
bindings = st.builds(
    AclBinding,
    st.sampled_from([TOPIC, GROUP]),
    st.one_of(names, st.just("*")),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    st.sampled_from([HOST, "10.0.0.2", "*"]),
    st.sampled_from([AclOperation.ALL, *OPERATIONS]),
    st.sampled_from([ALLOW, DENY]),
)


def acls_of(*rules):
    acls = Acls()
    acls.durable(acls.add(rules))
    return acls


def rule(name="t", permission=ALLOW, operation=AclOperation.READ, pattern=PatternType.LITERAL, **others):
    fields = {"resource_type": TOPIC, "principal": "User:alice", "host": "*", **others}
    return AclBinding(resource_name=name, pattern_type=pattern, operation=operation, permission=permission, **fields)


def covers(binding, resource_type, name):
    if binding.resource_type is not resource_type:
        return False
    if binding.pattern_type is PatternType.PREFIXED:
        return name.startswith(binding.resource_name)
    return binding.resource_name in (name, "*")


def model(rules, principal, host, operation, resource_type, name, *, everyone):
    """StandardAuthorizer in one expression after the other."""
    about = [each for each in rules if covers(each, resource_type, name)]
    if not about:
        return everyone
    mine = [each for each in about if each.principal in (str(principal), "User:*") and each.host in (host, "*")]
    if any(each.permission is DENY and each.operation in (AclOperation.ALL, operation) for each in mine):
        return False
    enough = {AclOperation.ALL, operation}
    if operation is AclOperation.DESCRIBE:
        enough |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        enough.add(AclOperation.ALTER_CONFIGS)
    return any(each.permission is ALLOW and each.operation in enough for each in mine)


@given(
    rules=st.lists(bindings, max_size=8),
    operation=st.sampled_from(OPERATIONS),
    name=names,
    principal=st.sampled_from([ALICE, BOB]),
    everyone=st.booleans(),
)
def test_every_decision_is_the_model_s(rules, operation, name, principal, everyone):
    authorizer = Authorizer(acls_of(*rules), allow_everyone=everyone)
    decided = authorizer.is_allowed(principal, HOST, operation, TOPIC, name)
    assert decided == model(set(rules), principal, HOST, operation, TOPIC, name, everyone=everyone)


@given(rules=st.lists(bindings, max_size=8), operation=st.sampled_from(OPERATIONS), everyone=st.booleans())
def test_what_is_allowed_somewhere_is_what_some_name_allows(rules, operation, everyone):
    """Names that rules mention, their continuations, and one that none mentions stand for all names.

    A rule that implies an operation, such as READ for DESCRIBE, does not count here, as in Apache Kafka.
    """
    rules = [each for each in rules if each.operation in (AclOperation.ALL, operation)]
    authorizer = Authorizer(acls_of(*rules), allow_everyone=everyone)
    tried = {each.resource_name for each in rules} | {each.resource_name + "~" for each in rules} | {"unheard"}
    tried.discard("*")
    expected = any(model(set(rules), ALICE, HOST, operation, TOPIC, name, everyone=everyone) for name in tried)
    assert authorizer.is_allowed_somewhere(ALICE, HOST, operation, TOPIC) == expected


@given(rules=st.lists(bindings, max_size=8), extra=bindings, operation=st.sampled_from(OPERATIONS), name=names)
def test_one_more_rule_that_denies_never_allows_more(rules, extra, operation, name):
    deny = AclBinding(
        extra.resource_type,
        extra.resource_name,
        extra.pattern_type,
        extra.principal,
        extra.host,
        extra.operation,
        DENY,
    )
    before = Authorizer(acls_of(*rules)).is_allowed(ALICE, HOST, operation, TOPIC, name)
    after = Authorizer(acls_of(*rules, deny)).is_allowed(ALICE, HOST, operation, TOPIC, name)
    assert before or not after


@given(rules=st.lists(bindings, max_size=8), operation=st.sampled_from(OPERATIONS), name=names)
def test_a_super_user_may_do_everything_and_nobody_else_may_without_rules(rules, operation, name):
    authorizer = Authorizer(acls_of(*rules), ["User:root"])
    assert authorizer.is_allowed(KafkaPrincipal("User", "root"), HOST, operation, TOPIC, name)
    assert authorizer.is_allowed_somewhere(KafkaPrincipal("User", "root"), HOST, operation, TOPIC)
    assert not Authorizer(Acls(), ["User:root"]).is_allowed(ALICE, HOST, operation, TOPIC, name)


def test_principals_are_compared_as_they_are():
    authorizer = Authorizer(acls_of(rule()), ["User:Root"])
    assert authorizer.is_allowed(ALICE, HOST, AclOperation.READ, TOPIC, "t")
    for other in (KafkaPrincipal("User", "Alice"), KafkaPrincipal("user", "alice"), KafkaPrincipal("User", "root")):
        assert not authorizer.is_allowed(other, HOST, AclOperation.READ, TOPIC, "t")


def test_the_wildcard_works_as_a_literal_only():
    everything = rule("*")
    a_star = rule("*", pattern=PatternType.PREFIXED)
    assert Authorizer(acls_of(everything)).is_allowed(ALICE, HOST, AclOperation.READ, TOPIC, "t")
    assert not Authorizer(acls_of(a_star)).is_allowed(ALICE, HOST, AclOperation.READ, TOPIC, "t")


def test_a_denied_description_does_not_follow_from_a_denied_read():
    rules = (rule(permission=DENY), rule(operation=AclOperation.WRITE))
    assert Authorizer(acls_of(*rules)).is_allowed(ALICE, HOST, AclOperation.DESCRIBE, TOPIC, "t")


@given(rules=st.lists(bindings, unique=True, max_size=8), data=st.data())
def test_taking_rules_away_leaves_their_neighbours(rules, data):
    """CVE-2024-27309."""
    acls = acls_of(*rules)
    gone = data.draw(st.lists(st.sampled_from(rules), unique=True)) if rules else []
    acls.durable(acls.remove(gone))
    left = sorted(set(rules) - set(gone))
    assert acls.matching(ANY_RULE) == left
    for operation in OPERATIONS:
        decided = Authorizer(acls).is_allowed(ALICE, HOST, operation, TOPIC, "abc")
        assert decided == model(set(left), ALICE, HOST, operation, TOPIC, "abc", everyone=False)


@given(rules=st.lists(bindings, max_size=8), gone=st.lists(bindings, max_size=3))
def test_records_bring_the_same_rules_back(rules, gone):
    acls, again = Acls(), Acls()
    for write in (acls.add(rules), acls.remove(gone)):
        acls.durable(write)
        for record in write.records:
            again.replay(record.key, record.value)
    assert set(again) == set(acls) == set(rules) - set(gone)


@given(
    rules=st.lists(bindings, max_size=8),
    pattern=st.sampled_from([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
    name=st.none() | names | st.just("*"),
    principal=st.sampled_from([None, "User:alice"]),
)
def test_a_filter_finds_what_it_means(rules, pattern, name, principal):
    found = acls_of(*rules).matching(
        AclFilter(TOPIC, name, pattern, principal, None, AclOperation.ANY, PermissionType.ANY)
    )
    for each in set(rules):
        is_meant = each.resource_type is TOPIC and principal in (None, each.principal)
        if pattern is PatternType.MATCH and name is not None:
            is_meant = is_meant and covers(each, TOPIC, name)
        else:
            is_meant = is_meant and pattern in (PatternType.ANY, PatternType.MATCH, each.pattern_type)
            is_meant = is_meant and name in (None, each.resource_name)
        assert (each in found) == is_meant


def test_the_cluster_is_one_resource():
    of_cluster = rule(CLUSTER_NAME, resource_type=ResourceType.CLUSTER, operation=AclOperation.ALTER)
    authorizer = Authorizer(acls_of(of_cluster))
    assert authorizer.is_allowed(ALICE, HOST, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert not authorizer.is_allowed(ALICE, HOST, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
