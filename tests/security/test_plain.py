"""PLAIN accepts only the right token; Apache Kafka gave the same answers to those that it was tried with."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.security.plain import PlainServer, PlainUsers
from pipeline_broker.security.sasl import TOKEN_BYTES_MAX, AuthenticationFailedError

USERS = PlainUsers({"alice": "alice-secret", "ünï": "pässwörd"})
WRONG = "Authentication failed: Invalid username or password"


def refusal(token):
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationFailedError) as caught:
        server.receive(token)
    assert not server.is_complete
    return caught.value.client_text


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0alice\0alice-secret", "alice"),
        (b"alice\0alice\0alice-secret", "alice"),
        ("\0ünï\0pässwörd".encode(), "ünï"),
    ],
)
def test_the_right_password_proves_the_user(token, name):
    server = PlainServer(USERS)
    assert server.receive(token) == b""
    assert server.is_complete
    assert server.name == name
    assert server.expires_ms is None
    assert not server.is_token


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0no", WRONG),
        (b"\0zed\0alice-secret", WRONG),
        (b"\0Alice\0alice-secret", WRONG),
        (b"\0\xff\xfe\0x", WRONG),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_anything_else_is_refused_in_kafkas_words(token, text):
    assert refusal(token) == text


def test_another_authorization_id_is_refused_only_when_the_password_is_right():
    """CVE-2017-12610. Before the password is checked, the answer must not reveal whether the user exists."""
    assert refusal(b"bob\0alice\0no") == refusal(b"bob\0zed\0no") == WRONG


def test_a_token_that_is_too_long_is_refused():
    assert refusal(b"\0alice\0" + b"x" * TOKEN_BYTES_MAX) is None
    assert refusal(b"\0alice\0".ljust(TOKEN_BYTES_MAX, b"x")) == WRONG, "it is only wrong"


def test_after_its_end_a_conversation_takes_nothing():
    for first in (b"\0alice\0alice-secret", b"\0alice\0no"):
        server = PlainServer(USERS)
        with contextlib.suppress(AuthenticationFailedError):
            server.receive(first)
        with pytest.raises(AuthenticationFailedError):
            server.receive(b"\0alice\0alice-secret")
        assert not server.is_complete


def test_no_password_is_kept():
    assert "alice-secret" not in repr(vars(USERS))


@given(token=st.binary(max_size=60))
def test_no_other_token_proves_anything(token):
    if token.split(b"\0")[1:] != [b"alice", b"alice-secret"]:
        refusal(token)
