"""Delegation tokens by request: rights, answers, and their state after a restart."""

import base64

import pytest

from pipeline_broker.apis.call import Session
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.security.acl import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.security.delegation_tokens import DelegationTokens
from pipeline_broker.security.principal import ANONYMOUS, KafkaPrincipal
from pipeline_broker.security.scram_users import ScramUsers
from pipeline_broker.wire.messages.security.create_delegation_token import CreateDelegationTokenRequest
from pipeline_broker.wire.messages.security.describe_delegation_token import DescribeDelegationTokenRequest
from pipeline_broker.wire.messages.security.expire_delegation_token import ExpireDelegationTokenRequest
from pipeline_broker.wire.messages.security.renew_delegation_token import RenewDelegationTokenRequest
from tests.apis.desk import Desk
from tests.apis.security.test_authentication import ALICE, SUCCEEDED, Talk
from tests.security.scram_client import ScramClient

Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
KEY = "delegation.token.secret.key=secret"


def become(desk, name, protocol="SASL_PLAINTEXT", *, by_token=False):
    principal = ANONYMOUS if name is None else KafkaPrincipal("User", name)
    desk.connection.session = Session(
        host="127.0.0.1", listener="PLAINTEXT", security_protocol=protocol, principal=principal, is_by_token=by_token
    )


@pytest.fixture
def desk():
    desk = Desk(KEY)
    become(desk, "ann")
    return desk


def create(desk, version=3, **fields):
    return desk.ask(CreateDelegationTokenRequest(**fields), version)


def described(desk, *owners, version=3):
    wanted = [Owner("User", owner) for owner in owners] or None
    answer = desk.ask(DescribeDelegationTokenRequest(wanted), version)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created_described_renewed_and_ended(desk, version):
    made = create(desk, version, renewers=[Renewer("User", "bob")], max_lifetime_ms=1000)
    assert (made.error_code, made.principal_name, made.issue_timestamp_ms) == (0, "ann", desk.now_ms)
    assert (made.expiry_timestamp_ms, made.max_timestamp_ms) == (desk.now_ms + 1000,) * 2
    assert described(desk, version=version) == [made.token_id]
    desk.now_ms += 10
    become(desk, "bob")
    renewed = desk.ask(RenewDelegationTokenRequest(made.hmac, 100), 2)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, desk.now_ms + 100)
    ended = desk.ask(ExpireDelegationTokenRequest(made.hmac, -1), 2)
    assert (ended.error_code, ended.expiry_timestamp_ms) == (0, desk.now_ms)
    assert described(desk) == []


REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("name", "protocol", "by_token"),
    [(None, "PLAINTEXT", False), (None, "SSL", False), ("ann", "SASL_SSL", True)],
)
def test_clients_without_authentication_or_with_a_token_are_refused(desk, name, protocol, by_token):
    become(desk, name, protocol, by_token=by_token)
    assert create(desk).error_code == REFUSED
    for request in (RenewDelegationTokenRequest(b"x"), ExpireDelegationTokenRequest(b"x")):
        answer = desk.ask(request, 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)
    assert desk.ask(DescribeDelegationTokenRequest(None), 3).error_code == REFUSED


def test_without_a_secret_key_tokens_are_disabled():
    desk = Desk()
    become(desk, "ann")
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    made = create(desk)
    assert (made.error_code, made.issue_timestamp_ms, made.max_timestamp_ms) == (disabled, 0, 0)
    for request in (RenewDelegationTokenRequest(b"x"), ExpireDelegationTokenRequest(b"x")):
        answer = desk.ask(request, 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (disabled, 0), "the time as Kafka's controller"
    assert desk.ask(DescribeDelegationTokenRequest(None), 3).error_code == disabled


def test_an_unknown_token_has_no_time(desk):
    for request in (RenewDelegationTokenRequest(b"x"), ExpireDelegationTokenRequest(b"x")):
        answer = desk.ask(request, 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_renewers_are_users(desk):
    refused = create(desk, renewers=[Renewer("Group", "g")])
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def allow(desk, operation, kind, name):
    rule = AclBinding(kind, name, PatternType.LITERAL, "User:ann", "*", operation, PermissionType.ALLOW)
    desk.broker.acls_durable(desk.broker.acls.add([rule]))


def test_a_token_for_another_user_requires_create_tokens_on_that_user(desk):
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    wanted = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert create(desk, **wanted).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allow(desk, AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    made = create(desk, **wanted)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "bob", "ann")
    assert create(desk).error_code == 0, "its own needs none"


@pytest.mark.parametrize(
    ("operation", "kind"),
    [(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN), (AclOperation.DESCRIBE_TOKENS, ResourceType.USER)],
)
def test_tokens_of_others_are_shown_to_clients_that_may_describe_them(desk, operation, kind):
    become(desk, "bob")
    token_id = create(desk).token_id
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    become(desk, "ann")
    assert described(desk) == []
    allow(desk, operation, kind, token_id if kind is ResourceType.DELEGATION_TOKEN else "User:bob")
    assert described(desk) == [token_id]
    assert described(desk, "ann") == []


def test_tokens_survive_a_restart(desk):
    made = create(desk)
    desk = desk.restart()
    become(desk, "ann")
    assert described(desk) == [made.token_id]
    assert desk.ask(RenewDelegationTokenRequest(made.hmac), 2).error_code == 0


def test_tokens_that_have_expired_are_removed_from_time_to_time(desk):
    create(desk, max_lifetime_ms=5)
    kept = create(desk).token_id
    desk.now_ms += 3_600_000
    assert desk.broker.next_deadline_ms() <= desk.now_ms
    desk.broker.advance(desk.now_ms)
    assert described(desk) == [kept]
    desk = desk.restart()
    become(desk, "ann")
    assert described(desk) == [kept]


def test_reauthentication_by_password_replaces_authentication_by_token():
    """After that the client may request tokens, unlike a client authenticated by a token."""
    tokens = DelegationTokens(BrokerConfig(delegation_token_secret_key="a secret"))
    talk = Talk(ScramUsers(tokens))
    _, write = tokens.create("t", ALICE, ALICE, (), -1, talk.now_ms())
    tokens.durable(write)
    secret = base64.b64encode(tokens.secret("t")).decode()
    for client, is_by_token in (
        (ScramClient("sha256", "t", secret, extensions=",tokenauth=true"), True),
        (ScramClient("sha256", "alice", "alice-secret"), False),
    ):
        talk.handshake("SCRAM-SHA-256")
        _, first = talk.token(client.first())
        assert talk.token(client.final(first.auth_bytes))[0] is SUCCEEDED
        assert (talk.session.principal, talk.session.is_by_token) == (ALICE, is_by_token)
