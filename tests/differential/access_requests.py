"""Requests about rules of access, SCRAM users and SASL, drawn by Hypothesis.

The rules that are drawn are about hosts that nobody asks from, and about no existing resource as a whole: they change
nothing for other requests. Rules that do are in test_rights.
"""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline_broker.security.acl import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import Ask, ask

UNHEARD_OF = 99
ODDS = 7
"""One of so many numbers is not good."""
HOSTS = ["10.9.8.7", "10.9.8.6"]
NAMES = ["acl-a", "acl-b", "acl-ab"]
PRINCIPALS = ["User:ann", "User:bob", "User:*", "Group:ann", "User:", ":"]
STRANGE_PRINCIPALS = ["ann", ""]
USERS = ["ann", "bob", ""]
MECHANISMS = [1, 2, 0, 9]


def mostly(good: list[int], bad: list[int]) -> st.SearchStrategy[int]:
    """Numbers that mean something here, and now and then one that does not."""
    return st.integers(0, ODDS).flatmap(lambda drawn: st.sampled_from(good if drawn else bad))


RESOURCE_TYPES = [int(kind) for kind in ResourceType if kind > ResourceType.ANY]
OPERATIONS = [int(operation) for operation in AclOperation if operation > AclOperation.ANY]
PATTERNS = [int(PatternType.LITERAL), int(PatternType.PREFIXED)]
PERMISSIONS = [int(PermissionType.ALLOW), int(PermissionType.DENY)]
NO_RULE = [0, 1, UNHEARD_OF]


@st.composite
def creations(draw: st.DrawFn) -> CreateAclsRequest.AclCreation:
    kind = draw(mostly(RESOURCE_TYPES, NO_RULE))
    names = [*NAMES, ""]
    if kind == ResourceType.CLUSTER:
        names = [CLUSTER_NAME, CLUSTER_NAME, "cluster"]
    elif kind > ResourceType.CLUSTER:
        names = [*names, "*"]
    return CreateAclsRequest.AclCreation(
        kind,
        draw(st.sampled_from(names)),
        draw(mostly(PATTERNS, [*NO_RULE, PatternType.MATCH])),
        draw(st.sampled_from(PRINCIPALS * 2 + STRANGE_PRINCIPALS)),
        draw(st.sampled_from(HOSTS)),
        draw(mostly(OPERATIONS, NO_RULE)),
        draw(mostly(PERMISSIONS, NO_RULE)),
    )


@st.composite
def create_acls(draw: st.DrawFn, version: int) -> Ask:
    request = CreateAclsRequest(draw(st.lists(creations(), max_size=4)))
    return Ask(version, lambda _side: request, text=repr(request), changes_acls=True)


filter_names = st.sampled_from([None, *NAMES, "acl-abc", "*", "", CLUSTER_NAME])
filter_kinds = mostly([1, *RESOURCE_TYPES], [0, UNHEARD_OF])
filter_patterns = mostly([1, 2, *PATTERNS], [0, UNHEARD_OF])
filter_principals = st.sampled_from([None, *PRINCIPALS, *STRANGE_PRINCIPALS])
filter_operations = mostly([1] * 9 + OPERATIONS, [0, UNHEARD_OF])
filter_permissions = mostly([1, *PERMISSIONS], [0, UNHEARD_OF])


@st.composite
def describe_acls(draw: st.DrawFn, version: int) -> Ask:
    request = DescribeAclsRequest(
        draw(filter_kinds),
        draw(filter_names),
        draw(filter_patterns),
        draw(filter_principals),
        draw(st.sampled_from([None, *HOSTS])),
        draw(filter_operations),
        draw(filter_permissions),
    )
    return ask(version, request)


@st.composite
def delete_acls(draw: st.DrawFn, version: int) -> Ask:
    filters = st.builds(
        DeleteAclsRequest.DeleteAclsFilter,
        filter_kinds,
        filter_names,
        filter_patterns,
        filter_principals,
        st.sampled_from(HOSTS),
        filter_operations,
        filter_permissions,
    )
    request = DeleteAclsRequest(draw(st.lists(filters, max_size=3)))
    return Ask(version, lambda _side: request, text=repr(request), changes_acls=True)


@st.composite
def alter_user_scram_credentials(draw: st.DrawFn, version: int) -> Ask:
    altered = AlterUserScramCredentialsRequest
    users = st.sampled_from(USERS)
    deletions = st.builds(altered.ScramCredentialDeletion, users, st.sampled_from(MECHANISMS))
    upsertions = st.builds(
        altered.ScramCredentialUpsertion,
        users,
        st.sampled_from(MECHANISMS),
        st.sampled_from([4096, 4096, 8192, 4095, 16385, -1]),
        st.just(b"salt"),
        st.just(b"salted password"),
    )
    request = altered(draw(st.lists(deletions, max_size=2)), draw(st.lists(upsertions, max_size=2)))
    return Ask(version, lambda _side: request, text=repr(request), changes_users=True)


@st.composite
def describe_user_scram_credentials(draw: st.DrawFn, version: int) -> Ask:
    """Without null, which Kafka does not answer to those who may not ask."""
    users = draw(st.lists(st.sampled_from(USERS), max_size=3))
    wanted = [DescribeUserScramCredentialsRequest.UserName(name) for name in users]
    return ask(version, DescribeUserScramCredentialsRequest(wanted))


@st.composite
def sasl_handshake(draw: st.DrawFn, version: int) -> Ask:
    """On a listener without SASL, as all of this folder."""
    return ask(version, SaslHandshakeRequest(draw(st.sampled_from(["PLAIN", "SCRAM-SHA-256", ""]))))


@st.composite
def sasl_authenticate(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, SaslAuthenticateRequest(draw(st.sampled_from([b"", b"\0ann\0secret"]))))


ACCESS_REQUESTS = {
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    ApiKey.SASL_HANDSHAKE: sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate,
}
