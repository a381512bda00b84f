"""OAUTHBEARER transfers one token. A refused one gets an answer without a reason, and then the failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.security.oauthbearer import BearerToken, InvalidTokenError, OAuthBearerServer
from pipeline_broker.security.sasl import AuthenticationFailedError
from tests.security.tokens import initial

REFUSAL = b'{"status":"invalid_token"}'


def validate(token):
    if token != "good.token":
        raise InvalidTokenError("the reason, for the log")
    return BearerToken("alice", 5000)


@pytest.fixture
def server():
    return OAuthBearerServer(validate)


def refused(server, token):
    with pytest.raises(AuthenticationFailedError) as caught:
        server.receive(token)
    assert not server.is_complete
    assert (server.name, server.owner, server.expires_ms, server.is_token) == ("", None, None, False)
    return caught.value


@pytest.mark.parametrize(
    "first",
    [
        initial("good.token"),
        initial("good.token", authorization_id="alice"),
        initial("good.token", pairs="host=localhost\x01port=9092\x01"),
        initial("good.token").replace(b"Bearer ", b"bearer  "),
    ],
)
def test_a_valid_token_proves_a_name_and_an_expiry(server, first):
    assert server.receive(first) == b""
    assert server.is_complete
    assert (server.name, server.expires_ms) == ("alice", 5000)


@pytest.mark.parametrize(("escaped", "name"), [("a=2Cb=3Dc", "a,b=c"), ("a=3D2Cb", "a=2Cb"), ("=3D3D", "=3D")])
def test_an_authorization_id_is_the_name_with_its_commas_and_equals_signs_escaped(escaped, name):
    def validate(_):
        return BearerToken(name, 5000)

    server = OAuthBearerServer(validate)
    assert server.receive(initial("good.token", authorization_id=escaped)) == b""
    assert server.name == name


def test_an_invalid_token_is_refused_in_two_steps(server):
    assert server.receive(initial("bad.token")) == REFUSAL
    assert not server.is_complete
    failure = refused(server, b"\x01")
    assert failure.client_text == REFUSAL.decode()
    assert str(failure) == "the reason, for the log"


def test_a_second_token_after_a_refusal_is_not_tried(server):
    server.receive(initial("bad.token"))
    assert refused(server, initial("good.token")).client_text is None


def test_another_authorization_id_is_refused(server):
    failure = refused(server, initial("good.token", authorization_id="bob"))
    assert "different from the token's principal name" in failure.client_text


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"p=x,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"n,,\x01auth=Bearer good.token\x01\x01more",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01AUTH2=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01a1=x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,a=al=ice,\x01auth=Bearer good.token\x01\x01",
    ],
)
def test_a_first_message_of_another_form_is_refused(server, first):
    assert refused(server, first).client_text is None


@given(token=st.binary(max_size=100))
def test_no_other_bytes_prove_anything(token):
    server = OAuthBearerServer(validate)
    try:
        server.receive(token)
    except AuthenticationFailedError:
        pass
    else:
        pytest.fail("a message of no token was answered")
    assert not server.is_complete
