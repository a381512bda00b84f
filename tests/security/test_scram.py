"""SCRAM with an independent client: the right password is proved without being sent, and every attack fails alike."""

import base64
import contextlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.security.sasl import AuthenticationFailedError
from pipeline_broker.security.scram import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramServer,
    salted_password,
)
from pipeline_broker.security.scram_users import ScramUsers
from tests.security.scram_client import ScramClient

USER, PASSWORD, SALT, ITERATIONS = "user", "pencil", b"W22ZaJ0SNY7soEsUEjb6gQ==", 4096
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
each_mechanism = pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)


def credential(mechanism, password=PASSWORD, salt=SALT):
    return ScramCredential.of(mechanism, salt, ITERATIONS, salted_password(mechanism, password, salt, ITERATIONS))


CREDENTIALS = {mechanism.name: credential(mechanism) for mechanism in SCRAM_MECHANISMS.values()}


def server_of(mechanism=SHA_256):
    nobody = ScramUsers()
    known = {USER: CREDENTIALS[mechanism.name]}
    return ScramServer(mechanism, lambda name: known.get(name) or nobody.credential(mechanism, name))


def client_of(mechanism=SHA_256, user=USER, password=PASSWORD, **options):
    return ScramClient(mechanism.hash_name, user, password, **options)


def refused(server, token):
    with pytest.raises(AuthenticationFailedError) as caught:
        server.receive(token)
    assert not server.is_complete
    return caught.value.client_text


@each_mechanism
@pytest.mark.parametrize("header", ["n,,", "n,a=user,"])
@pytest.mark.parametrize("extensions", ["", ",x=1", ",tokenauth=false"])
def test_the_right_password_proves_the_user_and_the_broker(mechanism, header, extensions):
    server, client = server_of(mechanism), client_of(mechanism, header=header, extensions=extensions)
    final = server.receive(client.final(server.receive(client.first())))
    assert client.accepts(final)
    assert server.is_complete
    assert server.name == USER
    assert not server.is_token


def test_the_right_proof_with_a_sign_that_is_not_of_base64_is_refused():
    server, client = server_of(), client_of()
    final = client.final(server.receive(client.first()))
    assert refused(server, final.replace(b",p=", b",p=!")) is None
    server, client = server_of(), client_of()
    assert refused(server, client.final(server.receive(client.first())) + b"==") is None, (
        "nor a text with too many of them"
    )


def test_the_example_of_rfc_7677_is_proved():
    """The example fixes the server's nonce, so only the keys are checked. The proof depends on nothing else."""
    salt = base64.b64decode(SALT)
    made = credential(SHA_256, salt=salt)
    client = ScramClient("sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.final(first).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert client.signature == base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    server = ScramServer(SHA_256, lambda _: made)
    assert client.accepts(server.receive(client.final(server.receive(client.first()))))


@each_mechanism
def test_a_wrong_password_is_refused(mechanism):
    server, client = server_of(mechanism), client_of(mechanism, password="pen")
    assert refused(server, client.final(server.receive(client.first()))) is None


def test_an_unknown_user_is_led_to_the_same_end():
    server, client = server_of(), client_of(user="nobody")
    assert refused(server, client.final(server.receive(client.first()))) is None
    assert client.iterations == ITERATIONS


FIRSTS = [
    b"",
    b"junk",
    b"n,,",
    b"n,,r=abc,n=user",
    b"n,,n=user",
    b"n,,n=,r=abc",
    b"n,,n=us=er,r=abc",
    b"n,,n=user,r=",
    b"n,,n=user,r=a\x7fc",
    b"n,,n=user,r=abc,",
    b"n,,n=us\0er,r=abc",
    b"n,,n=\xff,r=abc",
    b"y,,n=user,r=abc",
    b"p=tls-unique,,n=user,r=abc",
    b"n,,m=x,n=user,r=abc",
    b"n,,n=user,r=abc,m=x",
    b"n,,n=user,r=abc,x=1,m=x",
]


@pytest.mark.parametrize("first", FIRSTS)
def test_a_first_message_of_another_form_is_refused(first):
    """Including channel binding and mandatory extensions."""
    assert refused(server_of(), first) is None


@pytest.mark.parametrize("user", ["user", "nobody"])
def test_another_authorization_id_is_refused_whether_or_not_the_user_exists(user):
    text = "Authentication failed: Client requested an authorization id that is different from username"
    assert refused(server_of(), f"n,a=admin,n={user},r=abc".encode()) == text


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "fyko+d2lbbFgONRv9qkxdawL"},  # the client's own half: CVE-2024-56128
        {"nonce": "x"},
        {"binding": "y,,"},
        {"binding": "n,a=admin,"},
        {"proof": b""},
        {"proof": bytes(31)},
        {"proof": bytes(32)},
        {"proof": bytes(33)},
        {"extensions": ",m=x"},
    ],
    ids=str,
)
def test_a_final_message_with_anything_else_is_refused(change):
    server, client = server_of(), client_of()
    assert refused(server, client.final(server.receive(client.first()), **change)) is None


def test_the_end_of_another_nonce_is_not_enough():
    """Before CVE-2024-56128 servers only checked that the nonce ends with their half."""
    server, client = server_of(), client_of()
    first = server.receive(client.first())
    half = first.decode().split(",")[0].removeprefix(f"r={client.nonce}")
    assert refused(server, client.final(first, nonce=f"other{half}")) is None


@pytest.mark.parametrize("final", [b"", b"c=biws", b"c=biws,r=abc", b"c=biws,r=abc,p=", b"c=!,r=abc,p=AAAA", b"\xff"])
def test_a_final_message_of_another_form_is_refused(final):
    server = server_of()
    server.receive(client_of().first())
    assert refused(server, final) is None


def test_a_final_message_cannot_be_replayed():
    server, client = server_of(), client_of()
    final = client.final(server.receive(client.first()))
    server.receive(final)
    assert refused(server, final) is None
    other = server_of()
    other.receive(client.first())
    assert refused(other, final) is None


def test_a_client_that_repeats_its_nonce_is_told_to_upgrade():
    """Before 2.6.1 librdkafka sent its own nonce before that of both sides (its issue 4895)."""
    server, client = server_of(), client_of()
    first = server.receive(client.first())
    nonce = first.decode().split(",")[0].removeprefix("r=")
    text = "Authentication failed: librdkafka before 2.6.1 sends its nonce twice. Upgrade the client"
    assert refused(server, client.final(first, nonce=client.nonce + nonce)) == text


def test_every_nonce_is_another():
    firsts = [server_of().receive(client_of().first()) for _ in range(20)]
    assert all(one != other for one, other in itertools.combinations(firsts, 2))


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=20)


@settings(max_examples=30)
@given(name=NAMES, password=st.text(st.characters(exclude_categories=("Cs",)), max_size=20), right=st.booleans())
def test_any_name_and_password_are_proved_and_no_other(name, password, right):
    made = credential(SHA_256, password)
    server = ScramServer(SHA_256, lambda asked: made if asked == name else pytest.fail("another name"))
    client = ScramClient("sha256", name, password if right else password + "x")
    final = client.final(server.receive(client.first()))
    if right:
        assert client.accepts(server.receive(final))
        assert server.name == name
    else:
        refused(server, final)


@given(token=st.binary(max_size=80))
def test_any_token_is_answered_or_refused(token):
    server = server_of()
    with contextlib.suppress(AuthenticationFailedError):
        server.receive(token)
    refused(server, token)
