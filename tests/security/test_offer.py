"""The mechanisms of a listener follow from Kafka's properties; an error is one line without a secret."""

import base64
import hashlib
import time

import pytest

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.delegation_tokens import DelegationTokens
from pipeline_broker.security.offer import LINE_USERS_MAX, read_offer
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.sasl import AuthenticationFailedError
from pipeline_broker.security.scram import SCRAM_MECHANISMS
from pipeline_broker.security.scram_users import ScramUsers, Upsertion
from tests.security.scram_client import ScramClient
from tests.security.tokens import NOW_SECONDS, initial, jwk, rsa_key, token, write_keys

PLAIN_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="x" user_a="s-1";'
SCRAM_LINE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SCRAM_USER_LINE = 'org.apache.kafka.common.security.scram.ScramLoginModule required user_admin="s-2";'
OAUTH_LINE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]


def offer(settings, users=None):
    return read_offer(settings, users or ScramUsers(), lambda: NOW_SECONDS * 1000)


def plain(**more):
    return {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": PLAIN_LINE, **more}


def prove(server, user, password):
    client = ScramClient("sha256", user, password)
    assert client.accepts(server.receive(client.final(server.receive(client.first()))))
    return client


def test_kafkas_lines_are_enough(tmp_path):
    path = write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"))
    made = offer(
        {
            "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "plain.sasl.jaas.config": PLAIN_LINE,
            "scram-sha-256.sasl.jaas.config": SCRAM_LINE,
            "oauthbearer.sasl.jaas.config": OAUTH_LINE,
            "oauthbearer.sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{path}",
            "sasl.oauthbearer.expected.audience": "x, broker",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.clock.skew.seconds": "0",
            "sasl.oauthbearer.sub.claim.name": "who",
            "connections.max.reauth.ms": "5000",
            "oauthbearer.connections.max.reauth.ms": "0",
            "sasl.server.max.receive.size": "1000",
        }
    )
    assert made.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    assert made.lifetimes_ms_max == {"PLAIN": 5000, "SCRAM-SHA-256": 5000, "SCRAM-SHA-512": 5000, "OAUTHBEARER": 0}
    assert made.frame_bytes_max == 1000
    server = made.servers["PLAIN"]()
    server.receive(b"\0a\0s-1")
    assert server.is_complete
    server = made.servers["OAUTHBEARER"]()
    server.receive(initial(token(who="carol", iss="us", aud="broker")))
    assert server.name == "carol"
    server = made.servers["OAUTHBEARER"]()
    server.receive(initial(token(who="carol", iss="them", aud="broker")))
    assert not server.is_complete


def test_the_password_of_the_broker_itself_lets_no_client_in():
    server = offer(plain()).servers["PLAIN"]()
    with pytest.raises(AuthenticationFailedError):
        server.receive(b"\0b\0x")


def test_the_default_limit_is_kafkas():
    assert offer(plain()).frame_bytes_max == 524288
    for settings in ({}, {"connections.max.reauth.ms": "0"}, {"connections.max.reauth.ms": "-1"}):
        assert offer(plain(**settings)).lifetimes_ms_max == {"PLAIN": 0}
    assert offer(plain(**{"connections.max.reauth.ms": "1"})).lifetimes_ms_max == {"PLAIN": 1}


def test_a_scram_user_of_the_line_looks_like_one_that_does_not_exist():
    users = ScramUsers()
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "scram-sha-256.sasl.jaas.config": SCRAM_USER_LINE}
    begin = offer(settings, users).servers["SCRAM-SHA-256"]
    shown = prove(begin(), "admin", "s-2")
    assert (shown.salt, shown.iterations) == users.parameters(SHA_256, "admin")
    _, write = users.alter([], [Upsertion("eve", 1, 8192, b"x" * 20, b"p" * 32)])
    users.durable(write)
    shown = prove(begin(), "admin", "s-2")
    assert (len(shown.salt), shown.iterations) == (20, 8192)
    with pytest.raises(AuthenticationFailedError):
        prove(begin(), "admin", "s-3")


def test_a_scram_user_with_a_record_counts_at_once():
    users = ScramUsers()
    begin = offer({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, users).servers["SCRAM-SHA-256"]
    with pytest.raises(AuthenticationFailedError):
        prove(begin(), "eve", "pencil")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)
    _, write = users.alter([], [Upsertion("eve", 1, 4096, b"salt", salted)])
    users.durable(write)
    prove(begin(), "eve", "pencil")


URL = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE, ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
SUBJECT, SCOPE = "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name"
SKEW = "sasl.oauthbearer.clock.skew.seconds"
UNVERIFIED = {f"sasl.oauthbearer.allow.unverified.{claim}": "true" for claim in ("issuer", "audience")}


@pytest.mark.parametrize(
    ("settings", "said", "name"),
    [
        ({}, {}, "alice"),
        ({}, {"exp": NOW_SECONDS - 29}, "alice"),
        ({}, {"exp": NOW_SECONDS - 30}, None),
        ({SKEW: "0"}, {"exp": NOW_SECONDS}, None),
        ({SKEW: "0"}, {"exp": NOW_SECONDS + 1}, "alice"),
        ({SKEW: "60", f"oauthbearer.{SKEW}": "0"}, {"exp": NOW_SECONDS - 1}, None),
        ({AUDIENCE: "x, broker"}, {"aud": "broker"}, "alice"),
        ({AUDIENCE: "x, broker"}, {"aud": "y"}, None),
        ({AUDIENCE: "x"}, {}, None),
        ({AUDIENCE: ""}, {"aud": "y"}, "alice"),
        ({ISSUER: "us"}, {"iss": "us"}, "alice"),
        ({ISSUER: "us"}, {}, None),
        ({ISSUER: ""}, {"iss": "them"}, "alice"),
        ({SUBJECT: "who"}, {"who": "bob"}, "bob"),
        ({SUBJECT: ""}, {"who": "bob"}, "alice"),
        ({}, {"scope": ["a", "a"]}, None),
        ({SCOPE: "roles"}, {"scope": ["a", "a"]}, "alice"),
        ({SCOPE: "roles"}, {"roles": ["a", "a"]}, None),
        ({SCOPE: ""}, {"scope": ["a", "a"]}, None),
    ],
)
def test_token_rules_are_kafkas_properties_for_all_mechanisms_or_one(tmp_path, settings, said, name):
    path = write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"))
    made = offer({"sasl.enabled.mechanisms": "OAUTHBEARER", URL: f"file://{path}", **UNVERIFIED, **settings})
    server = made.servers["OAUTHBEARER"]()
    server.receive(initial(token(**said)))
    assert (server.is_complete, server.name) == (name is not None, name or "")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_client_logs_in_by_scram_with_a_delegation_token(is_known):
    tokens = DelegationTokens(BrokerConfig(delegation_token_secret_key="a secret"))
    ann = KafkaPrincipal("User", "ann")
    _, write = tokens.create("t", ann, ann, (), -1, NOW_SECONDS * 1000)
    tokens.durable(write)
    made = offer({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, ScramUsers(tokens if is_known else None))
    client = ScramClient("sha256", "t", base64.b64encode(tokens.secret("t")).decode(), extensions=",tokenauth=true")
    server = made.servers["SCRAM-SHA-256"]()
    if is_known:
        assert client.accepts(server.receive(client.final(server.receive(client.first()))))
        assert (server.owner, server.is_token, server.expires_ms) == (ann, True, NOW_SECONDS * 1000 + 86_400_000)
    else:
        with pytest.raises(AuthenticationFailedError):
            server.receive(client.final(server.receive(client.first())))


def test_a_clock_cannot_be_wrong_by_less_than_nothing(tmp_path):
    path = write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"))
    with pytest.raises(ConfigError, match="at least 0"):
        offer({"sasl.enabled.mechanisms": "OAUTHBEARER", URL: f"file://{path}", **UNVERIFIED, SKEW: "-1"})


@pytest.mark.parametrize("claim", ["issuer", "audience"])
def test_tokens_with_any_issuer_or_audience_are_accepted_only_if_the_settings_say_so(tmp_path, claim):
    path = write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"))
    settings = {"sasl.enabled.mechanisms": "OAUTHBEARER", URL: f"file://{path}", **UNVERIFIED}
    waiver = f"sasl.oauthbearer.allow.unverified.{claim}"
    for value in ("false", "", None):
        changed = {name: text for name, text in (settings | {waiver: value}).items() if text is not None}
        with pytest.raises(ConfigError, match=f"any {claim}. Set sasl.oauthbearer.expected.{claim}, or {waiver}=true"):
            offer(changed)
        offer(changed | {f"sasl.oauthbearer.expected.{claim}": "x"})


def test_a_frame_has_a_byte_at_least():
    assert offer(plain(**{"sasl.server.max.receive.size": "1"})).frame_bytes_max == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Kafka's default, GSSAPI, is not offered"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "is not offered"),
        ({"sasl.enabled.mechanisms": ""}, "the list is empty"),
        ({"sasl.enabled.mechanisms": "plain"}, "'plain' is not one of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "plain.sasl.jaas.config"),
        (plain(**{"plain.sasl.jaas.config": SCRAM_USER_LINE}), "login module"),
        (plain(**{"plain.sasl.jaas.config": PLAIN_LINE.replace("user_a", "usera")}), "user_NAME"),
        (plain(**{"plain.sasl.jaas.config": PLAIN_LINE.replace('"s-1"', '""')}), "no password may be empty"),
        (plain(**{"plain.sasl.jaas.config": PLAIN_LINE.replace('"s-1"', "s-1@")}), "expected"),
        (
            plain(**{"plain.sasl.server.callback.handler.class": "com.evil.Handler"}),
            "com.evil.Handler is not supported",
        ),
        (plain(**{"sasl.server.max.receive.size": "0"}), "at least 1"),
        (plain(**{"connections.max.reauth.ms": "x"}), "whole number"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "jwks.endpoint.url"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://idp/jwks"},
            "https",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
                "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
            },
            "Unsecured",
        ),
    ],
    ids=str,
)
def test_an_unusable_mechanism_is_refused_at_startup(settings, said):
    """Including OAUTHBEARER without keys: Kafka's default accepts any token (CVE-2026-33557)."""
    with pytest.raises(ConfigError, match=said) as caught:
        offer(settings)
    assert "\n" not in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("s-1", "s-2"))


def test_a_line_of_scram_has_so_many_users_as_are_hashed_in_seconds():
    line = SCRAM_LINE.removesuffix(";") + " ".join(f'user_{number}="x"' for number in range(LINE_USERS_MAX + 1)) + ";"
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "scram-sha-256.sasl.jaas.config": line.replace("required", "required "),
    }
    began = time.thread_time()
    with pytest.raises(ConfigError, match="it has 251 users, but at most 250 are allowed"):
        offer(settings)
    assert time.thread_time() - began < 0.5
