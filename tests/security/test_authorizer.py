"""Authorization compared with a plain model of the rules, and cases from past security advisories."""

import attrs
import pytest
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
from tests.drawn import drawn, measured

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
OPERATIONS = SUPPORTED[TOPIC]
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ANY_RULE = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY)

RELATED = [AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS]
"""Those that imply, and are implied."""

names = st.sampled_from(["a", "ab", "b"])
operations = st.sampled_from(RELATED) | st.sampled_from(OPERATIONS)
patterns = st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])
permissions = st.sampled_from([ALLOW, DENY])
bindings = st.builds(
    AclBinding,
    st.sampled_from([TOPIC, GROUP]),
    names | st.just("*"),
    patterns,
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    st.sampled_from([HOST, "10.0.0.2", "*"]),
    st.just(AclOperation.ALL) | operations,
    permissions,
)


def about(operation, name=None, permission=permissions):
    """Draw rules that match Alice's request, or nearly so; a name of None stands for any."""
    return st.builds(
        AclBinding,
        st.just(TOPIC),
        names | st.just("*") if name is None else st.sampled_from([name, name[:1], "*"]),
        patterns,
        st.sampled_from(["User:alice", "User:*"]),
        st.sampled_from([HOST, "*"]),
        st.sampled_from([AclOperation.ALL, operation, operation, AclOperation.READ]),
        permission,
    )


def rules_about(operation, name=None):
    """Draw several rules, some of them unrelated, or two that probably contradict each other."""
    near = about(operation, name)
    contrary = st.tuples(*(about(operation, name, st.just(each)) for each in (ALLOW, DENY))).map(list)
    return st.lists(near, max_size=4) | st.lists(near | near | bindings, min_size=3, max_size=8) | contrary


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
    """Kafka's StandardAuthorizer as a few expressions."""
    if not any(covers(each, resource_type, name) for each in rules):
        return everyone
    return not denying(rules, principal, host, operation, resource_type, name) and bool(
        allowing(rules, principal, host, operation, resource_type, name)
    )


def matching(rules, principal, host, resource_type, name):
    return [
        each
        for each in rules
        if covers(each, resource_type, name)
        and each.principal in (str(principal), "User:*")
        and each.host in (host, "*")
    ]


def denying(rules, principal, host, operation, resource_type, name):
    mine = matching(rules, principal, host, resource_type, name)
    return [each for each in mine if each.permission is DENY and each.operation in (AclOperation.ALL, operation)]


def allowing(rules, principal, host, operation, resource_type, name):
    enough = {AclOperation.ALL, operation}
    if operation is AclOperation.DESCRIBE:
        enough |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        enough.add(AclOperation.ALTER_CONFIGS)
    mine = matching(rules, principal, host, resource_type, name)
    return [each for each in mine if each.permission is ALLOW and each.operation in enough]


ABOUT_T = [("t", PatternType.LITERAL), ("t", PatternType.PREFIXED), ("*", PatternType.LITERAL)]


@pytest.mark.parametrize("denied", ABOUT_T, ids=["literal", "prefix", "wildcard"])
@pytest.mark.parametrize("allowed", ABOUT_T, ids=["literal", "prefix", "wildcard"])
def test_a_rule_that_denies_wins_over_one_that_allows(allowed, denied):
    """Whichever is more specific, and in any order of creation."""
    rules = [
        rule(allowed[0], ALLOW, pattern=allowed[1], operation=AclOperation.ALL),
        rule(denied[0], DENY, pattern=denied[1]),
    ]
    for order in (rules, rules[::-1]):
        authorizer = Authorizer(acls_of(*order), allow_everyone=True)
        assert not authorizer.is_allowed(ALICE, HOST, AclOperation.READ, TOPIC, "t")
        assert authorizer.is_allowed(ALICE, HOST, AclOperation.WRITE, TOPIC, "t")


def test_an_operation_is_denied_everywhere_if_a_rule_covers_all_allowed_resources():
    """A literal name leaves longer names allowed; a prefix covers both."""
    name, prefix = PatternType.LITERAL, PatternType.PREFIXED
    for allowed, denied, expected in [
        (name, name, False),
        (prefix, name, True),
        (name, prefix, False),
        (prefix, prefix, False),
    ]:
        authorizer = Authorizer(acls_of(rule("t", ALLOW, pattern=allowed), rule("t", DENY, pattern=denied)))
        assert authorizer.is_allowed_by_resource_type(ALICE, HOST, AclOperation.READ, TOPIC) == expected


def test_a_denied_name_leaves_the_operation_allowed_on_other_names():
    writer = Authorizer(acls_of(rule(operation=AclOperation.WRITE)))
    assert writer.is_allowed_by_resource_type(ALICE, HOST, AclOperation.WRITE, TOPIC)
    assert not writer.is_allowed_by_resource_type(ALICE, HOST, AclOperation.READ, TOPIC)
    other = Authorizer(acls_of(rule("t", DENY), rule("u")))
    assert other.is_allowed_by_resource_type(ALICE, HOST, AclOperation.READ, TOPIC)


@measured(conflict=0.02, denied_alone=0.01, allowed_alone=0.04)
@given(
    data=st.data(),
    operation=operations,
    name=names,
    principal=st.sampled_from([ALICE, ALICE, BOB]),
    everyone=st.booleans(),
)
def test_every_decision_is_the_model_s(data, operation, name, principal, everyone):
    rules = data.draw(rules_about(operation, name))
    question = principal, HOST, operation, TOPIC, name
    is_denied, is_allowed = bool(denying(rules, *question)), bool(allowing(rules, *question))
    drawn("conflict", is_denied and is_allowed)
    drawn("denied_alone", is_denied and not is_allowed)
    drawn("allowed_alone", is_allowed and not is_denied)
    authorizer = Authorizer(acls_of(*rules), allow_everyone=everyone)
    decided = authorizer.is_allowed(principal, HOST, operation, TOPIC, name)
    assert decided == model(set(rules), principal, HOST, operation, TOPIC, name, everyone=everyone)


@measured(both=0.05, allowed=0.15, denied=0.1)
@given(data=st.data(), operation=st.sampled_from(RELATED), everyone=st.booleans())
def test_an_operation_is_allowed_somewhere_if_it_is_on_some_name(data, operation, everyone):
    """The names in rules, their continuations, and one name without rules represent all names.

    A rule that implies an operation, such as READ for DESCRIBE, does not count here, as in Apache Kafka.
    """
    rules = data.draw(rules_about(operation))
    rules = [each for each in rules if each.operation in (AclOperation.ALL, operation)]
    authorizer = Authorizer(acls_of(*rules), allow_everyone=everyone)
    tried = {each.resource_name for each in rules} | {each.resource_name + "~" for each in rules} | {"unheard"}
    tried.discard("*")
    expected = any(model(set(rules), ALICE, HOST, operation, TOPIC, name, everyone=everyone) for name in tried)
    found = {
        each.permission
        for each in rules
        if each.resource_type is TOPIC and each.principal in ("User:alice", "User:*") and each.host in (HOST, "*")
    }
    drawn("both", found == {ALLOW, DENY})
    drawn("allowed", expected)
    drawn("denied", not expected)
    assert authorizer.is_allowed_by_resource_type(ALICE, HOST, operation, TOPIC) == expected


@measured(allowed_before=0.05, taken_away=0.02)
@given(data=st.data(), operation=operations, name=names)
def test_one_more_rule_that_denies_never_allows_more(data, operation, name):
    rules, extra = data.draw(rules_about(operation, name)), data.draw(about(operation, name))
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
    drawn("allowed_before", before)
    drawn("taken_away", before and not after)
    assert before or not after


@given(rules=st.lists(bindings, max_size=8), operation=operations, name=names)
def test_without_rules_only_a_super_user_may_do_anything(rules, operation, name):
    authorizer = Authorizer(acls_of(*rules), ["User:root"])
    assert authorizer.is_allowed(KafkaPrincipal("User", "root"), HOST, operation, TOPIC, name)
    assert authorizer.is_allowed_by_resource_type(KafkaPrincipal("User", "root"), HOST, operation, TOPIC)
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
def test_a_filter_finds_the_rules_that_it_matches(rules, pattern, name, principal):
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


LONG_FORMS = [
    ("::1", "0:0:0:0:0:0:0:1"),
    ("2001:db8::a", "2001:DB8:0:0:0:0:0:A"),
    ("192.0.2.1", "::ffff:192.0.2.1"),
    ("fe80::1%eth7", "FE80:0:0:0:0:0:0:1%eth7"),
]


@pytest.mark.parametrize("permission", [ALLOW, DENY])
@pytest.mark.parametrize(("client", "host"), [*LONG_FORMS, *(forms[::-1] for forms in LONG_FORMS)])
def test_a_host_in_another_form_of_the_address_is_the_same_host(client, host, permission):
    authorizer = Authorizer(acls_of(rule(host=host, permission=permission)), allow_everyone=permission is DENY)
    assert authorizer.is_allowed(ALICE, client, AclOperation.READ, TOPIC, "t") is (permission is ALLOW)
    assert authorizer.is_allowed_by_resource_type(ALICE, client, AclOperation.READ, TOPIC) is True


@pytest.mark.parametrize("client", ["::2", "0.0.0.1", "fe80::1%eth8", "fe80::1"])
def test_another_address_is_another_host(client):
    rules = acls_of(*(rule(host=host) for _, host in LONG_FORMS))
    assert not Authorizer(rules).is_allowed(ALICE, client, AclOperation.READ, TOPIC, "t")


@pytest.mark.parametrize(("short", "long"), LONG_FORMS)
def test_a_filter_finds_rules_of_a_host_in_any_form_and_shows_them_as_they_were_given(short, long):
    rules = acls_of(rule(host=short), rule(host=long), rule(host="*"))
    for host in (short, long):
        wanted = attrs.evolve(ANY_RULE, host=host)
        assert sorted(found.host for found in rules.matching(wanted)) == sorted([short, long])
    rules.durable(rules.remove(rules.matching(attrs.evolve(ANY_RULE, host=long))))
    assert [found.host for found in rules] == ["*"]
