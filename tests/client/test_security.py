"""TLS and SASL of the client: properties, errors, and exchanges with our own server code."""

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import PLAINTEXT, ClientSecurity, read_security
from pipeline_broker.security.plain import PlainServer, PlainUsers
from pipeline_broker.security.sasl import AuthenticationFailedError
from pipeline_broker.security.scram import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramServer,
    salted_password,
)
from tests.measure.load.conversations import talk

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "ada", "sasl.password": "secret"}


def test_the_default_is_plaintext():
    assert read_security({}) == read_security({"security.protocol": "plaintext"}) == PLAINTEXT


def test_the_names_are_those_of_librdkafka_and_case_does_not_matter():
    found = read_security({**SASL, "sasl.mechanisms": "scram-sha-512"})
    assert (found.context, found.mechanism, found.username) == (None, "SCRAM-SHA-512", "ada")
    assert "secret" not in repr(found)


def test_a_broker_is_verified_by_default(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "ca.pem")}
    strict = read_security(tls).context
    assert strict.check_hostname
    assert strict.get_ca_certs()
    unnamed = read_security({**tls, "ssl.endpoint.identification.algorithm": "none"}).context
    assert (unnamed.check_hostname, unnamed.verify_mode.name) == (False, "CERT_REQUIRED")
    assert (
        read_security({**tls, "enable.ssl.certificate.verification": "false"}).context.verify_mode.name == "CERT_NONE"
    )


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({"sasl.user": "x"}, "unknown property 'sasl.user'; did you mean sasl.username"),
        ({"security.protocol": "tls"}, "security.protocol 'tls' is not one of plaintext, ssl"),
        (
            {"sasl.username": "ada"},
            "sasl.username has no effect without SASL. Set security.protocol=sasl_plaintext",
        ),
        ({"ssl.ca.location": "x"}, "ssl.ca.location has no effect without TLS. Set security.protocol=ssl"),
        ({"enable.ssl.certificate.verification": "false"}, "Set security.protocol=ssl"),
        (SASL, "sasl.mechanism '' is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "'GSSAPI' is not one of PLAIN"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.password": ""}, "PLAIN needs sasl.username and sasl.password"),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"},
            "ssl.ca.location: /nowhere.pem is not a file",
        ),
        ({"security.protocol": "ssl", "ssl.key.location": "/k.pem"}, "ssl.key.location needs ssl.certificate.location"),
        (
            {"security.protocol": "ssl", "enable.ssl.certificate.verification": "maybe"},
            "'maybe' is not one of true, false",
        ),
    ],
)
def test_an_invalid_property_is_one_line(properties, refusal):
    with pytest.raises(ClientError) as caught:
        read_security(properties)
    assert refusal in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_without_a_certificate_is_named(name, tmp_path):
    (tmp_path / "empty.pem").write_text("not a certificate\n")
    with pytest.raises(ClientError, match=r"empty\.pem"):
        read_security({"security.protocol": "ssl", name: str(tmp_path / "empty.pem")})


def credential(mechanism, password):
    salt = b"0123456789abcdef"
    return ScramCredential.of(mechanism, salt, 4096, salted_password(mechanism, password, salt, 4096))


texts = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=8)


@given(texts, texts, st.sampled_from(list(SCRAM_MECHANISMS)))
def test_scram_proves_a_password_to_our_own_server(name, password, mechanism_name):
    mechanism = SCRAM_MECHANISMS[mechanism_name]
    server = ScramServer(mechanism, lambda _: credential(mechanism, password))
    assert talk(ClientSecurity(None, mechanism_name, name, password), server) == name


def test_our_own_server_rejects_a_wrong_password():
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    server = ScramServer(mechanism, lambda _: credential(mechanism, "right"))
    with pytest.raises(AuthenticationFailedError):
        talk(ClientSecurity(None, mechanism.name, "ada", "wrong"), server)


def test_plain_sends_name_and_password():
    assert talk(ClientSecurity(None, "PLAIN", "ada", "secret"), PlainServer(PlainUsers({"ada": "secret"}))) == "ada"


@pytest.mark.parametrize(
    "server_first",
    [b"", b"r=,s=AAAA,i=4096", b"r=other,s=AAAA,i=4096", b"NONCEmore,s=AAAA,i=1", b"r=NONCEmore,s=!,i=4096",
     b"r=NONCEmore,s=AAAA,i=999999999", b"r=NONCEmore,s=AAAA,i=64"],
)  # fmt: skip
def test_an_implausible_first_message_ends_the_exchange(server_first):
    conversation = ClientSecurity(None, "SCRAM-SHA-256", "ada", "secret").converse()
    nonce = next(conversation).partition(b"r=")[2]
    with pytest.raises(ClientError):
        conversation.send(server_first.replace(b"NONCE", nonce))


def test_a_broker_that_does_not_know_the_password_is_rejected():
    conversation = ClientSecurity(None, "SCRAM-SHA-256", "ada", "secret").converse()
    nonce = next(conversation).partition(b"r=")[2]
    conversation.send(b"r=%bmore,s=AAAA,i=4096" % nonce)
    with pytest.raises(ClientError, match="it may be an impostor"):
        conversation.send(b"v=AAAA")
