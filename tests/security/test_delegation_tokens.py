"""Delegation tokens: the rights of owners, renewers and others, lifetimes, and Kafka's error codes."""

import base64
import json

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.security.delegation_tokens import (
    RENEWERS_MAX,
    TOKENS_MAX,
    DelegationTokens,
    TokenError,
    read_token,
)
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.sasl import AuthenticationFailedError
from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramServer, salted_password
from pipeline_broker.security.scram_users import ScramUsers, Upsertion
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import RecordType, record_key, record_value
from tests.security.scram_client import ScramClient

ANN, BOB, EVE = (KafkaPrincipal("User", name) for name in ("ann", "bob", "eve"))
NOW, DAY_MS = 1_000_000, 86_400_000
CONFIG = BrokerConfig(delegation_token_secret_key="a secret")


@pytest.fixture
def tokens():
    return DelegationTokens(CONFIG)


def created(tokens, owner=ANN, requester=ANN, renewers=(), lifetime_ms=-1, token_id="t"):
    token, write = tokens.create(token_id, owner, requester, renewers, lifetime_ms, NOW)
    tokens.durable(write)
    return token


def code(call, *arguments):
    with pytest.raises(TokenError) as raised:
        call(*arguments)
    return raised.value.code


def test_without_a_key_tokens_are_disabled():
    tokens = DelegationTokens(BrokerConfig())
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert code(tokens.create, "t", ANN, ANN, (), -1, NOW) is disabled
    assert code(tokens.renew, b"x", ANN, -1, NOW) is disabled
    assert code(tokens.expire, b"x", ANN, -1, NOW) is disabled


def test_the_tokens_of_one_requester_and_the_renewers_of_a_token_are_bounded(tokens):
    assert code(tokens.create, "t", ANN, ANN, [BOB] * (RENEWERS_MAX + 1), -1, NOW) is ErrorCode.POLICY_VIOLATION
    for number in range(TOKENS_MAX):
        created(tokens, token_id=f"t{number}", lifetime_ms=5, renewers=[BOB] * RENEWERS_MAX)
    assert code(tokens.create, "t", BOB, ANN, (), -1, NOW) is ErrorCode.POLICY_VIOLATION
    created(tokens, owner=ANN, requester=BOB, token_id="of another")
    tokens.create("t", ANN, ANN, (), -1, NOW + 6)  # the earlier ones have expired


def test_pending_tokens_count_for_the_bound_and_pending_deletions_do_not(tokens):
    """Otherwise a client that pipelines its requests would exceed the bound."""
    for number in range(TOKENS_MAX):
        tokens.create(f"t{number}", ANN, ANN, (), -1, NOW)
    assert code(tokens.create, "t", ANN, ANN, (), -1, NOW) is ErrorCode.POLICY_VIOLATION
    tokens.expire(tokens.secret("t0"), ANN, -1, NOW)
    tokens.create("t", ANN, ANN, (), -1, NOW)


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_ms", "ends_ms"),
    [(-1, DAY_MS, 7 * DAY_MS), (0, DAY_MS, 7 * DAY_MS), (1, 1, 1), (5, 5, 5), (8 * DAY_MS, DAY_MS, 7 * DAY_MS)],
)
def test_a_token_lasts_a_day_and_a_week_at_most(tokens, lifetime_ms, expires_ms, ends_ms):
    token = created(tokens, lifetime_ms=lifetime_ms)
    assert (token.issued_ms, token.expires_ms, token.ends_ms) == (NOW, NOW + expires_ms, NOW + ends_ms)


def test_it_is_renewed_for_a_day_but_never_beyond_its_end(tokens):
    created(tokens)
    secret = tokens.secret("t")
    for now_ms, period_ms, expected in [
        (NOW + 10, -1, NOW + 10 + DAY_MS),
        (NOW + 20, 5, NOW + 25),
        (NOW + 25, 2 * DAY_MS, NOW + 25 + DAY_MS),
    ]:
        expires_ms, write = tokens.renew(secret, ANN, period_ms, now_ms)
        tokens.durable(write)
        assert expires_ms == expected
    assert code(tokens.renew, secret, ANN, -1, NOW + 2 * DAY_MS) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    for day in range(1, 7):
        _, write = tokens.expire(secret, ANN, DAY_MS + 30, NOW + 25 + day * 10)
        tokens.durable(write)
    expires_ms, _ = tokens.expire(secret, ANN, 30 * DAY_MS, NOW + 100)
    assert expires_ms == NOW + 7 * DAY_MS


def test_only_owners_and_renewers_may_renew(tokens):
    created(tokens, owner=ANN, requester=EVE, renewers=[BOB])
    secret = tokens.secret("t")
    tokens.renew(secret, ANN, -1, NOW)
    tokens.renew(secret, BOB, -1, NOW)
    assert code(tokens.renew, secret, EVE, -1, NOW) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert code(tokens.expire, secret, EVE, -1, NOW) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert code(tokens.renew, b"another", ANN, -1, NOW) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_any_principal_learns_of_the_expiry_by_renewing_and_only_renewers_by_expiring(tokens):
    created(tokens, lifetime_ms=5)
    secret = tokens.secret("t")
    assert code(tokens.renew, secret, EVE, -1, NOW + 6) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert code(tokens.expire, secret, EVE, 10, NOW + 6) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_negative_period_ends_a_token_at_once_even_one_that_has_expired(tokens):
    created(tokens, lifetime_ms=5)
    secret = tokens.secret("t")
    assert code(tokens.expire, secret, ANN, 10, NOW + 6) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    expires_ms, write = tokens.expire(secret, ANN, -1, NOW + 6)
    assert expires_ms == NOW + 6
    assert code(tokens.renew, secret, ANN, -1, NOW) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "decided already"
    tokens.durable(write)
    assert tokens.visible(ANN, None, lambda _: True) == []


def test_a_period_of_none_has_a_token_expire_now_and_does_not_end_it(tokens):
    created(tokens)
    expires_ms, write = tokens.expire(tokens.secret("t"), ANN, 0, NOW + 1)
    tokens.durable(write)
    assert expires_ms == NOW + 1
    assert code(tokens.renew, tokens.secret("t"), ANN, -1, NOW + 2) is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_nothing_is_kept_of_a_deleted_token(tokens):
    for token_id in ("kept", "gone"):
        created(tokens, token_id=token_id)
        for mechanism in SCRAM_MECHANISMS.values():
            assert tokens.login(mechanism, token_id, NOW)
    tokens.durable(tokens.expire(tokens.secret("gone"), ANN, -1, NOW)[1])
    assert (tokens._credentials.keys(), [*tokens._ids.values()]) == ({"kept"}, ["kept"])
    assert tokens._pending.all_latest({}) == {}


def test_a_principal_sees_its_own_tokens_and_those_it_may_describe(tokens):
    mine = created(tokens, token_id="mine")
    renewed = created(tokens, owner=BOB, requester=BOB, renewers=[ANN], token_id="renewed")
    asked = created(tokens, owner=BOB, requester=ANN, token_id="asked")
    other = created(tokens, owner=EVE, requester=EVE, token_id="other")
    assert tokens.visible(ANN, None, lambda _: False) == [mine, renewed, asked]
    assert tokens.visible(ANN, None, lambda token: token == other) == [mine, renewed, asked, other]
    assert tokens.visible(ANN, [BOB], lambda _: True) == [renewed, asked]
    assert tokens.visible(ANN, [], lambda _: True) == []


def test_the_tokens_of_a_principal_include_those_it_requested_or_may_renew(tokens):
    """As in Apache Kafka. Whether the client may see them is checked separately."""
    renewed = created(tokens, owner=ANN, requester=ANN, renewers=[BOB], token_id="renewed")
    asked = created(tokens, owner=ANN, requester=BOB, token_id="asked")
    created(tokens, owner=ANN, requester=ANN, token_id="other")
    assert tokens.visible(ANN, [BOB, EVE], lambda _: False) == [renewed, asked]


def test_pending_changes_decide_while_earlier_ones_become_durable(tokens):
    created(tokens)
    secret = tokens.secret("t")
    _, shorter = tokens.expire(secret, ANN, 10, NOW)
    _, longer = tokens.renew(secret, ANN, -1, NOW)
    tokens.durable(shorter)
    assert tokens.sweep(NOW + 10) is None, "it was renewed"
    tokens.durable(longer)
    assert tokens.sweep(NOW + 10) is None
    assert tokens.sweep(NOW + DAY_MS + 1) is not None


def test_expired_tokens_are_swept(tokens):
    created(tokens, lifetime_ms=5, token_id="short")
    kept = created(tokens, token_id="long")
    assert tokens.sweep(NOW + 5) is None
    write = tokens.sweep(NOW + 6)
    assert tokens.sweep(NOW + 6) is None, "already on its way"
    tokens.durable(write)
    assert tokens.visible(ANN, None, lambda _: True) == [kept]


def test_tokens_survive_a_restart_and_are_void_with_another_key(tokens):
    token, write = tokens.create("t", ANN, EVE, [BOB], -1, NOW)
    again, other = DelegationTokens(CONFIG), DelegationTokens(BrokerConfig(delegation_token_secret_key="other"))
    for each in (again, other):
        for record in write.records:
            assert tokens.secret("t") not in record.value
            each.replay(record.key, record.value)
        assert each.visible(ANN, None, lambda _: False) == [token]
    assert again.secret("t") == tokens.secret("t")
    assert code(other.renew, tokens.secret("t"), ANN, -1, NOW) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_no_token_can_log_in_after_the_key_was_removed(tokens):
    """The secret would be derived from an empty key, which every attacker knows."""
    _, write = tokens.create("t", ANN, ANN, (), -1, NOW)
    with_key, without = DelegationTokens(CONFIG), DelegationTokens(BrokerConfig())
    for record in write.records:
        with_key.replay(record.key, record.value)
        without.replay(record.key, record.value)
    (mechanism, *_) = SCRAM_MECHANISMS.values()
    assert with_key.login(mechanism, "t", NOW).owner == ANN
    assert without.login(mechanism, "t", NOW) is None
    assert with_key.login(mechanism, "another", NOW) is None


def test_a_period_of_none_and_of_less_than_none_is_the_usual_one(tokens):
    created(tokens)
    for period_ms, expected in [(0, DAY_MS), (-1, DAY_MS), (1, 1)]:
        assert tokens.renew(tokens.secret("t"), ANN, period_ms, NOW)[0] == NOW + expected


@pytest.mark.parametrize("pair", [["User", 1], [1, "ann"], ["User"], ["User", None]])
def test_a_record_with_an_invalid_principal_is_reported(tokens, pair):
    body = {"owner": pair, "requester": ["User", "ann"], "renewers": [], "issued_ms": 1, "expires_ms": 1, "ends_ms": 1}
    key = record_key(RecordType.DELEGATION_TOKEN, "t")
    tokens.replay(key, record_value(json.dumps({**body, "owner": ["User", "ann"]})))
    with pytest.raises(CorruptStateRecordError):
        tokens.replay(key, record_value(json.dumps(body)))


@pytest.mark.parametrize("name", ["issued_ms", "expires_ms", "ends_ms"])
def test_times_in_a_record_are_from_1970_to_the_end_of_int64(name):
    times = {"issued_ms": 1, "expires_ms": 1, "ends_ms": 1}
    body = {"owner": ["User", "ann"], "requester": ["User", "bob"], "renewers": [["User", "cat"]], **times}
    key = record_key(RecordType.DELEGATION_TOKEN, "t")
    for value in (0, 2**63 - 1):
        token_id, token = read_token(key, record_value(json.dumps({**body, name: value})))
        assert (token_id, getattr(token, name)) == ("t", value)
    for value in (-1, 2**63, True, None):
        with pytest.raises(CorruptStateRecordError):
            read_token(key, record_value(json.dumps({**body, name: value})))


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"owner": ["User"]}'])
def test_an_unreadable_record_is_reported(tokens, body):
    with pytest.raises(CorruptStateRecordError):
        tokens.replay(record_key(RecordType.DELEGATION_TOKEN, "t"), record_value(body))


def login(tokens, mechanism, token_id, password, now_ms=NOW, extensions=",tokenauth=true", users=None):
    users = users or ScramUsers(tokens)
    server = ScramServer(
        mechanism, lambda name: users.credential(mechanism, name), lambda name: tokens.login(mechanism, name, now_ms)
    )
    client = ScramClient(mechanism.hash_name, token_id, password, extensions=extensions)
    final = server.receive(client.final(server.receive(client.first())))
    assert client.accepts(final)
    return server


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
def test_a_client_with_a_token_is_its_owner_until_the_token_expires(tokens, mechanism):
    token = created(tokens, owner=BOB)
    password = base64.b64encode(tokens.secret("t")).decode()
    server = login(tokens, mechanism, "t", password)
    assert (server.owner, server.is_token, server.expires_ms) == (BOB, True, token.expires_ms)
    with pytest.raises(AuthenticationFailedError):
        login(tokens, mechanism, "t", password, now_ms=token.expires_ms + 1)
    with pytest.raises(AuthenticationFailedError):
        login(tokens, mechanism, "t", "wrong")
    with pytest.raises(AuthenticationFailedError):
        login(tokens, mechanism, "nobody's", password)
    with pytest.raises(AuthenticationFailedError):
        login(tokens, mechanism, "t", password, extensions="")


def test_one_token_proves_its_owner_by_either_mechanism_again_and_again(tokens):
    created(tokens, owner=BOB)
    password = base64.b64encode(tokens.secret("t")).decode()
    for mechanism in [*SCRAM_MECHANISMS.values()] * 2:
        assert login(tokens, mechanism, "t", password).owner == BOB


def test_the_password_of_a_user_does_not_prove_a_token_of_that_name(tokens):
    mechanism, users = SCRAM_MECHANISMS["SCRAM-SHA-256"], ScramUsers(tokens)
    salted = salted_password(mechanism, "secret", b"salt", 4096)
    _, write = users.alter([], [Upsertion("ann", mechanism.number, 4096, b"salt", salted)])
    users.durable(write)
    assert login(tokens, mechanism, "ann", "secret", extensions="", users=users).name == "ann"
    with pytest.raises(AuthenticationFailedError):
        login(tokens, mechanism, "ann", "secret", users=users)


def test_a_token_cannot_log_in_before_it_is_durable(tokens):
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    _, write = tokens.create("t", ANN, ANN, (), -1, NOW)
    assert tokens.login(mechanism, "t", NOW) is None
    tokens.durable(write)
    assert tokens.login(mechanism, "t", NOW).owner == ANN
