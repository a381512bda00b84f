"""Cases 84 and 85 over real sockets: guessing, jumping the queue, declared sizes, other people's connections.

Memory and time are compared with what another connection sees at the same moment, never with a clock of the test.
"""

import contextlib
import ssl
import struct
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.bad_input.raw_client import RawClient, frame_of
from tests.conftest import start_broker
from tests.security.conftest import PASSWORD, PLAIN_MODULE, SECONDS_MAX, listener_ports
from tests.security.scram_client import ScramClient

pytestmark = pytest.mark.clients
GOOD = b"\0plain-user\0" + PASSWORD.encode()
RECEIVE_BYTES_MAX = 524288
ATTACKERS = 100
FAILED = 58


def authenticate(client, token=GOOD, mechanism="PLAIN"):
    assert client.ask(SaslHandshakeRequest(mechanism), 1).error_code == 0
    return client.ask(SaslAuthenticateRequest(token), 2)


def in_one_write(*messages):
    frames = [frame_of(message, version, number) for number, (message, version) in enumerate(messages)]
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


METADATA = (MetadataRequest(topics=[]), 9)
HANDSHAKE = (SaslHandshakeRequest("PLAIN"), 1)


@pytest.mark.parametrize("listener", ["SASL", "SHORT"])
def test_a_request_before_authentication_gets_no_answer(secured, listener):
    """Case 85."""
    with RawClient(secured.ports[listener]) as client:
        client.send(in_one_write(METADATA))
        assert client.is_closed()


def test_no_size_beyond_the_limit_is_taken_before_authentication(secured):
    """The connection ends before any of the declared bytes arrive. Case 57."""
    for size_bytes in (RECEIVE_BYTES_MAX + 1, 100_000_000, 2**31 - 1, -1):
        with RawClient(secured.ports["SASL"]) as client:
            client.send(struct.pack(">i", size_bytes))
            assert client.is_closed()


def test_a_declared_size_costs_no_memory_before_its_bytes_arrive(secured):
    """Case 57."""
    before = memory_bytes(secured.broker.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(RawClient(secured.ports["SASL"]))
            client.send(struct.pack(">i", RECEIVE_BYTES_MAX) + b"x")
        with RawClient(secured.ports["SASL"]) as client:
            assert authenticate(client).error_code == 0
        assert memory_bytes(secured.broker.pid) - before < 200 * RECEIVE_BYTES_MAX / 4


def memory_bytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def test_requests_after_the_right_password_are_served_and_after_a_wrong_one_are_not(secured):
    with RawClient(secured.ports["SASL"]) as client:
        client.send(in_one_write(HANDSHAKE, (SaslAuthenticateRequest(GOOD), 2), METADATA))
        assert all(client.receive_frame() is not None for _ in range(3))
    with RawClient(secured.ports["SASL"]) as client:
        client.send(in_one_write(HANDSHAKE, (SaslAuthenticateRequest(b"\0plain-user\0no"), 2), METADATA))
        assert all(client.receive_frame() is not None for _ in range(2))
        assert client.is_closed()


def test_wrong_passwords_delay_only_the_clients_that_send_them(tmp_path):
    """Case 84: while a hundred guesses wait for their refusal, others come in; then all guesses are refused."""
    broker = start_broker(
        tmp_path,
        settings=(
            "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} required user_a=b;",
            "connection.failed.authentication.delay.ms=3000",
        ),
    )
    port = listener_ports(broker)["SASL_PLAINTEXT"]
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(RawClient(port)) for _ in range(ATTACKERS)]
        for attacker in attackers:
            assert attacker.ask(*HANDSHAKE).error_code == 0
            attacker.send(in_one_write((SaslAuthenticateRequest(b"\0a\0guess"), 2)))
        for _ in range(10):
            with RawClient(port) as client:
                assert authenticate(client, b"\0a\0b").error_code == 0
                assert client.ask(*METADATA) is not None
        assert not any(has_answer(attacker) for attacker in attackers)
        for attacker in attackers:
            assert attacker.receive_frame() is not None
            assert attacker.is_closed()
    broker.stop()
    broker.process.stdout.close()


def has_answer(client):
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1) is not None
    except BlockingIOError:
        return False
    finally:
        client.socket.settimeout(SECONDS_MAX)


def test_a_refusal_does_not_reveal_whether_the_user_exists(secured):
    """Case 84."""
    answers = []
    for user in ("plain-user", "nobody"):
        with RawClient(secured.ports["SASL"]) as client:
            answers.append(authenticate(client, f"\0{user}\0no".encode()))
    assert len({(answer.error_code, answer.error_message, answer.auth_bytes) for answer in answers}) == 1
    shown = []
    for user in ("scram-user", "nobody"):
        with RawClient(secured.ports["SASL"]) as client:
            attacker = ScramClient("sha256", user, "no")
            first = authenticate(client, attacker.first(), "SCRAM-SHA-256")
            refusal = client.ask(SaslAuthenticateRequest(attacker.final(first.auth_bytes)), 2)
            shown.append((len(attacker.salt), attacker.iterations, refusal.error_code, refusal.error_message))
    assert shown[0] == shown[1]
    assert shown[0][2] == FAILED


def test_another_user_cannot_take_over_a_connection(secured):
    """Case 85."""
    with RawClient(secured.ports["SHORT"]) as client:
        assert authenticate(client).error_code == 0
        refusal = authenticate(client, b"\0plain-user\0guess")
        assert refusal.error_code == FAILED
        assert client.is_closed()


def test_a_session_that_has_ended_serves_nothing_more(secured):
    """Case 85."""
    with RawClient(secured.ports["SHORT"]) as client:
        assert authenticate(client).session_lifetime_ms > 0
        served = 0
        while client.ask(*METADATA) is not None:
            served += 1
        assert served > 0
        assert client.is_closed()


def test_after_authentication_a_conversation_is_refused_and_the_connection_stays(secured):
    with RawClient(secured.ports["SASL"]) as client:
        assert authenticate(client).error_code == 0
        assert client.ask(*HANDSHAKE).error_code == 34
        refusal = client.ask(SaslAuthenticateRequest(GOOD), 2)
        assert (refusal.error_code, refusal.error_message) == (
            34,
            "SaslAuthenticate request received after successful authentication",
        )
        assert client.ask(*METADATA) is not None


def test_on_a_listener_without_authentication_a_conversation_is_refused(secured):
    with RawClient(secured.ports["PLAINTEXT"]) as client:
        assert client.ask(*HANDSHAKE).error_code == 34
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        assert {17, 36, 50, 51} < {each.api_key for each in client.ask(request, 3).api_keys}


def shown_certificate(secured, listener):
    context = ssl.create_default_context(cafile=secured.authority_path)
    with RawClient(secured.ports[listener]) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        return client.socket.getpeercert(binary_form=True)


def set_key_store(secured, path):
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap})
    name = "listener.name.secure.ssl.keystore.location"
    entry = ConfigEntry(name, path, incremental_operation=AlterConfigOpType.SET)
    changed = admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])])
    for future in changed.values():
        future.result(SECONDS_MAX)


def test_a_certificate_is_renewed_while_the_broker_runs(secured):
    """Setting the same path again reads the file again, and existing connections continue."""
    path = secured.directory / "renewed.pem"
    before = shown_certificate(secured, "SECURE")
    renewed = renewed_certificate(secured, path)
    context = ssl.create_default_context(cafile=secured.authority_path)
    with RawClient(secured.ports["SECURE"]) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        assert authenticate(client).error_code == 0
        set_key_store(secured, str(path))
        assert shown_certificate(secured, "SECURE") == renewed != before
        again = renewed_certificate(secured, path)
        set_key_store(secured, str(path))
        assert shown_certificate(secured, "SECURE") == again != renewed
        path.write_text("damaged")
        with pytest.raises(Exception, match=r"ssl\.keystore\.location"):
            set_key_store(secured, str(path))
        assert shown_certificate(secured, "SECURE") == again
        assert client.ask(*METADATA) is not None


def renewed_certificate(secured, path):
    """Write a key store with another certificate of the same name to a path; return the certificate in DER form."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    store = (secured.directory / "store.pem").read_bytes()
    old = x509.load_pem_x509_certificate(store[store.index(b"-----BEGIN CERT") :])
    authority_key = load_pem_private_key(secured.authority.private_key_pem.bytes(), None)
    builder = x509.CertificateBuilder(
        old.issuer,
        old.subject,
        old.public_key(),
        x509.random_serial_number(),
        old.not_valid_before_utc,
        old.not_valid_after_utc,
        list(old.extensions),
    )
    made = builder.sign(authority_key, hashes.SHA256())
    path.write_bytes(store[: store.index(b"-----BEGIN CERT")] + made.public_bytes(Encoding.PEM))
    return made.public_bytes(Encoding.DER)


def test_a_certificate_of_another_authority_gets_no_one_in(secured, tmp_path):
    issued = trustme.CA().issue_cert("client.test", common_name="duke")
    context = ssl.create_default_context(cafile=secured.authority_path)
    issued.configure_cert(context)
    with RawClient(secured.ports["CERTIFICATE"]) as client:
        client.socket = context.wrap_socket(
            client.socket, server_hostname="127.0.0.1"
        )  # TLS 1.3 reports a refusal after the handshake
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            client.socket.recv(1)
