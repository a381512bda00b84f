"""SASL authentication in Kafka's frames; every answer, and every close without one, is that of Apache Kafka."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.apis.call import Session
from pipeline_broker.apis.cluster.api_versions import TELEMETRY
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.apis.security.authentication import SaslAuthenticator, State
from pipeline_broker.security.offer import read_offer
from pipeline_broker.security.principal import ANONYMOUS, KafkaPrincipal
from pipeline_broker.security.scram_users import ScramUsers
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.registry import ApiKey
from stages.authentication import Conversation
from tests.bad_input.raw_client import each_served_version, request_class
from tests.security.scram_client import ScramClient
from tests.security.tokens import NOW_SECONDS, initial, jwk, rsa_key, token, write_keys
from tests.wire.generated import sample

CONTINUES, SUCCEEDED, FAILED = Conversation
LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret" user_bob="b";'
SCRAM_LINE = 'org.apache.kafka.common.security.scram.ScramLoginModule required user_alice="alice-secret";'
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "plain.sasl.jaas.config": LINE,
    "scram-sha-256.sasl.jaas.config": SCRAM_LINE,
}
GOOD = b"\0alice\0alice-secret"
ALICE = KafkaPrincipal("User", "alice")
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
RESPONSES = {
    SaslHandshakeRequest: SaslHandshakeResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
    ApiVersionsRequest: ApiVersionsResponse,
    MetadataRequest: MetadataResponse,
}


def frame_of(message, version):
    header = RequestHeader(type(message).SCHEMA.key, version, 7, "client")
    return encode_request_header(header) + b"".join(map(bytes, encode(message, version)))


class Talk:
    """The authentication of one connection, with its own clocks."""

    def __init__(self, users=None, **settings):
        self.session = Session(host="127.0.0.1", listener="SASL")
        self.now_ns = 10**15
        self.failures = []
        self.begun_ns = self.now_ns
        self.offer = read_offer({**SETTINGS, **settings}, users or ScramUsers(), self.now_ms)
        self.authenticator = SaslAuthenticator(
            self.session,
            lambda: self.offer,
            self.now_ms,
            lambda: self.now_ns,
            failed=lambda *told: self.failures.append(told),
        )

    def now_ms(self):
        return NOW_SECONDS * 1000 + (self.now_ns - self.begun_ns) // 1_000_000

    def wait(self, seconds):
        self.now_ns += int(seconds * 1e9)

    def raw(self, frame):
        reply = self.authenticator.receive(frame)
        return reply.conversation, b"".join(map(bytes, reply.parts)) if reply.parts else None

    def ask(self, message, version):
        conversation, data = self.raw(frame_of(message, version))
        if data is None:
            return conversation, None
        correlation_id, position = read_response_header(type(message).SCHEMA.key, version, data)
        assert correlation_id == 7
        response, end = decode(RESPONSES[type(message)], version, data, position)
        assert end == len(data)
        return conversation, response

    def handshake(self, mechanism="PLAIN", version=1):
        return self.ask(SaslHandshakeRequest(mechanism), version)

    def token(self, data, version=2):
        return self.ask(SaslAuthenticateRequest(data), version)

    def login(self, mechanism="PLAIN", data=GOOD):
        self.handshake(mechanism)
        conversation, response = self.token(data)
        assert conversation is SUCCEEDED
        return response.session_lifetime_ms

    def begins(self, message=None):
        return self.authenticator.begins(frame_of(message or SaslHandshakeRequest("PLAIN"), 1))


@pytest.fixture
def talk():
    return Talk()


@pytest.mark.parametrize("version", [1, 2, 0])
def test_versions_handshake_and_token_make_a_principal(talk, version):
    conversation, versions = talk.ask(VERSIONS, 3)
    assert conversation is CONTINUES
    assert {each.api_key for each in versions.api_keys} == set(SERVED) - TELEMETRY
    assert talk.session.software_name == "x"
    assert talk.handshake() == (CONTINUES, SaslHandshakeResponse(0, MECHANISMS))
    assert talk.session.principal == ANONYMOUS
    conversation, response = talk.token(GOOD, version)
    assert conversation is SUCCEEDED
    assert (response.error_code, response.error_message, response.auth_bytes) == (0, "", b"")
    assert response.session_lifetime_ms == 0
    assert talk.session.principal == ALICE
    assert not talk.authenticator.has_expired()


def test_a_handshake_of_version_0_is_followed_by_raw_tokens(talk):
    assert talk.handshake(version=0) == (CONTINUES, SaslHandshakeResponse(0, MECHANISMS))
    assert talk.raw(GOOD) == (SUCCEEDED, b"")
    assert talk.session.principal == ALICE


def test_raw_tokens_can_be_several(talk):
    talk.handshake("SCRAM-SHA-256", 0)
    client = ScramClient("sha256", "alice", "alice-secret")
    conversation, first = talk.raw(client.first())
    assert conversation is CONTINUES
    conversation, final = talk.raw(client.final(first))
    assert conversation is SUCCEEDED
    assert client.accepts(final)


def test_wrapped_tokens_can_be_several(talk):
    talk.handshake("SCRAM-SHA-256")
    client = ScramClient("sha256", "alice", "alice-secret")
    conversation, first = talk.token(client.first())
    assert (conversation, first.session_lifetime_ms) == (CONTINUES, 0)
    conversation, final = talk.token(client.final(first.auth_bytes))
    assert conversation is SUCCEEDED
    assert client.accepts(final.auth_bytes)


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_wrong_scram_credentials_are_refused_without_details(talk, user):
    talk.handshake("SCRAM-SHA-256")
    client = ScramClient("sha256", user, "wrong")
    _, first = talk.token(client.first())
    conversation, response = talk.token(client.final(first.auth_bytes))
    assert (conversation, response.error_code, response.error_message) == (FAILED, 58, GENERIC)


@pytest.mark.parametrize("data", [b"\0alice\0no", b"\0zed\0no"])
def test_a_wrong_password_is_error_58(talk, data):
    talk.handshake()
    conversation, response = talk.token(data)
    text = "Authentication failed: Invalid username or password"
    assert (conversation, response.error_code, response.error_message) == (FAILED, 58, text)
    assert talk.session.principal == ANONYMOUS


def test_a_wrong_raw_token_closes_the_connection(talk):
    talk.handshake(version=0)
    assert talk.raw(b"\0alice\0no") == (FAILED, None)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "OAUTHBEARER"])
def test_a_mechanism_that_is_not_offered_is_error_33_with_those_that_are(talk, mechanism):
    assert talk.handshake(mechanism) == (FAILED, SaslHandshakeResponse(33, MECHANISMS))


def test_versions_can_be_requested_once(talk):
    talk.ask(VERSIONS, 3)
    assert talk.ask(VERSIONS, 3) == (FAILED, None)


def test_a_version_of_api_versions_that_is_not_served_is_answered_and_can_be_corrected(talk):
    frame = frame_of(VERSIONS, 3)
    conversation, data = talk.raw(frame[:2] + struct.pack(">h", 99) + frame[4:])
    assert conversation is CONTINUES
    assert data == bytes.fromhex("00000007 0023 00000001 0012 0000 0005")
    assert talk.ask(VERSIONS, 3)[0] is CONTINUES
    assert talk.login() == 0


def test_a_bad_name_of_a_software_is_answered_and_can_be_corrected(talk):
    conversation, response = talk.ask(ApiVersionsRequest(client_software_name="-", client_software_version="1"), 3)
    assert (conversation, response.error_code, response.api_keys) == (CONTINUES, 42, [])
    assert talk.ask(VERSIONS, 3)[1].error_code == 0


@pytest.mark.parametrize(
    "steps",
    [
        [(MetadataRequest(topics=[]), 9)],
        [(SaslAuthenticateRequest(GOOD), 2)],
        [(VERSIONS, 3), (MetadataRequest(topics=[]), 9)],
        [(VERSIONS, 3), (SaslAuthenticateRequest(GOOD), 2)],
    ],
)
def test_any_other_request_before_the_handshake_closes_the_connection(talk, steps):
    for step in steps[:-1]:
        assert talk.ask(*step)[0] is CONTINUES
    assert talk.ask(*steps[-1]) == (FAILED, None)


@pytest.mark.parametrize(("message", "version"), [(SaslHandshakeRequest("PLAIN"), 1), (VERSIONS, 0), (VERSIONS, 3)])
def test_a_handshake_or_versions_request_in_place_of_a_token_is_error_34(talk, message, version):
    talk.handshake()
    conversation, response = talk.ask(message, version)
    assert (conversation, response.error_code) == (FAILED, 34)


@each_served_version()
def test_no_other_api_is_decoded_or_answered_in_place_of_a_token(key, version):
    """Kafka answers with error 34; here a handler's error response could read data of other clients."""
    talk = Talk()
    talk.handshake()
    conversation, data = talk.raw(frame_of(sample(request_class(key), version), version))
    assert conversation is FAILED
    if key not in {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}:
        assert data is None
    assert talk.session.principal == ANONYMOUS


@pytest.mark.parametrize("step", ["handshake", "token", "other"])
def test_an_unserved_version_closes_the_connection(talk, step):
    frame = frame_of(SaslHandshakeRequest("PLAIN"), 1)
    if step != "handshake":
        talk.handshake()
        frame = frame_of(SaslAuthenticateRequest(GOOD) if step == "token" else MetadataRequest(topics=[]), 1)
    assert talk.raw(frame[:2] + struct.pack(">h", 99) + frame[4:]) == (FAILED, None)


def test_every_state_that_takes_a_frame_has_a_step():
    assert set(SaslAuthenticator._STEPS) == set(State) - {State.COMPLETE, State.FAILED}


@given(frames=st.lists(st.binary(max_size=60), min_size=1, max_size=4), wrapped=st.sampled_from([None, 0, 1]))
def test_random_bytes_neither_raise_nor_authenticate(frames, wrapped):
    talk = Talk()
    if wrapped is not None:
        talk.handshake(version=wrapped)
    for frame in frames:
        conversation, _ = talk.raw(frame)
        assert conversation is not SUCCEEDED
        assert talk.session.principal == ANONYMOUS
        if conversation is FAILED:
            break


# Again, on a connection that is authenticated


def test_without_a_session_lifetime_a_handshake_is_a_request(talk):
    talk.login()
    assert not talk.begins()
    talk.wait(10**6)
    assert not talk.authenticator.has_expired()


def test_a_session_ends_when_the_listener_says_so():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    assert talk.login() == 2500
    talk.wait(2.5)
    assert not talk.authenticator.has_expired()
    talk.wait(0.001)
    assert talk.authenticator.has_expired()
    assert talk.begins()
    assert talk.login() == 2500
    assert not talk.authenticator.has_expired()
    assert talk.session.principal == ALICE


def test_only_a_handshake_starts_reauthentication():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login()
    assert not talk.begins(SaslAuthenticateRequest(GOOD))
    assert not talk.begins(MetadataRequest(topics=[]))
    assert not talk.authenticator.begins(b"")
    assert not talk.authenticator.begins(b"\0")
    assert talk.begins()


def test_a_client_reauthenticates_at_most_once_a_second():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login()
    assert talk.begins()
    talk.login()
    talk.wait(0.999)
    assert not talk.begins()
    talk.wait(0.001)
    assert talk.begins()


def test_another_user_cannot_take_over_a_connection():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login()
    talk.handshake()
    conversation, response = talk.token(b"\0bob\0b")
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (conversation, response.error_code, response.error_message) == (FAILED, 58, text)
    assert talk.session.principal == ALICE


def test_another_mechanism_cannot_be_used_again():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login()
    conversation, response = talk.handshake("SCRAM-SHA-256")
    assert (conversation, response.error_code) == (CONTINUES, 0)
    assert talk.token(GOOD) == (FAILED, None)


def test_a_wrong_password_at_reauthentication_closes_the_connection():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login("PLAIN")
    talk.handshake()
    assert talk.token(b"\0alice\0no")[0] is FAILED


@pytest.mark.parametrize(("data", "expected"), [(GOOD, FAILED), (b"\0alice\0new", SUCCEEDED)])
def test_reauthentication_uses_the_current_offer_of_the_listener(data, expected):
    """A changed password or a deleted user must not stay valid for the whole life of a connection."""
    talk = Talk(**{"connections.max.reauth.ms": "10000"})
    talk.login()
    talk.offer = read_offer(
        {**SETTINGS, "plain.sasl.jaas.config": LINE.replace("alice-secret", "new")}, ScramUsers(), talk.now_ms
    )
    talk.wait(5)
    assert talk.begins()
    talk.handshake()
    assert talk.token(data)[0] is expected


def test_reauthentication_begins_with_the_handshake():
    talk = Talk(**{"connections.max.reauth.ms": "2500"})
    talk.login()
    assert talk.ask(VERSIONS, 3) == (FAILED, None)


@pytest.mark.parametrize(("limit_ms", "lifetime_ms"), [("0", 3600_000), ("1000", 1000), ("9999999999", 3600_000)])
def test_a_token_ends_its_session_or_the_listener_does_first(tmp_path, limit_ms, lifetime_ms):
    talk = Talk(**with_keys(tmp_path), **{"connections.max.reauth.ms": limit_ms})
    assert talk.login("OAUTHBEARER", initial(token())) == lifetime_ms
    talk.wait(lifetime_ms / 1000 + 0.001)
    assert talk.authenticator.has_expired()


def with_keys(directory):
    path = write_keys(directory / "jwks.json", jwk(rsa_key(), "r"))
    unverified = {f"sasl.oauthbearer.allow.unverified.{claim}": "true" for claim in ("issuer", "audience")}
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{path}",
        **unverified,
    }


def test_a_token_that_lives_by_the_skew_alone_ends_at_once(tmp_path):
    talk = Talk(**with_keys(tmp_path))
    assert talk.login("OAUTHBEARER", initial(token(exp=NOW_SECONDS - 10))) == 0
    talk.wait(0.001)
    assert talk.authenticator.has_expired()


def test_the_same_expired_token_does_not_renew_a_session(tmp_path):
    talk = Talk(**with_keys(tmp_path), **{"sasl.oauthbearer.clock.skew.seconds": "0"})
    old = initial(token(exp=NOW_SECONDS + 60))
    talk.login("OAUTHBEARER", old)
    talk.wait(60)
    talk.handshake("OAUTHBEARER")
    conversation, response = talk.token(old)
    assert (conversation, response.error_code, response.auth_bytes) == (CONTINUES, 0, b'{"status":"invalid_token"}')
    conversation, response = talk.token(b"\x01")
    assert (conversation, response.error_code, response.error_message) == (FAILED, 58, '{"status":"invalid_token"}')


def test_nothing_of_a_token_is_logged(talk, caplog):
    caplog.set_level("DEBUG")
    talk.handshake()
    talk.token(b"\0alice\0my-wrong-secret")
    assert "127.0.0.1 failed to authenticate on SASL as 'alice' by PLAIN: " in caplog.text
    assert "my-wrong-secret" not in caplog.text
