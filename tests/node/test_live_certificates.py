"""Certificates of a listener are read again at run time."""

import socket
import ssl

import pytest
import trustme

from tests.apis.wire_client import WireClient
from tests.free_ports import free_port
from tests.node.listener_clients import alter_names, configs_of, ports_of

LOCATION = "listener.name.safe.ssl.keystore.location"


@pytest.fixture
def authority():
    return trustme.CA()


def write_store(path, authority, *names, common_name="broker"):
    issued = authority.issue_cert(*names, common_name=common_name, organization_unit_name="unit")
    path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def shown_by(authority, port):
    """Return the certificate that the broker presents."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        return secure.getpeercert(binary_form=True)


def test_a_location_that_is_set_again_is_read_again_and_invalid_files_are_refused(broker_process, authority, tmp_path):
    store = tmp_path / "store.pem"
    first = write_store(store, authority, "127.0.0.1")
    broker = broker_process(
        settings=[
            "listeners=PLAINTEXT://127.0.0.1:0,SAFE://127.0.0.1:0",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SSL",
            "ssl.keystore.type=PEM",
            f"{LOCATION}={store}",
        ]
    )
    with WireClient(broker.host, broker.port) as client:
        port = ports_of(client)["SAFE"]
        assert shown_by(authority, port) == first
        second = write_store(store, authority, "127.0.0.1")
        assert shown_by(authority, port) == first
        assert alter_names(client, {LOCATION: str(store)}) is None
        assert shown_by(authority, port) == second

        write_store(store, authority, "127.0.0.1", common_name="somebody else")
        assert "ssl.allow.dn.changes" in alter_names(client, {LOCATION: str(store)})
        store.write_text("nonsense")
        assert "listener" not in (alter_names(client, {"num.io.threads": "9"}) or "")
        assert alter_names(client, {LOCATION: str(store)}).startswith(
            "Invalid value org.apache.kafka.common.config.ConfigException: ssl.keystore.location"
        )
        assert alter_names(client, {LOCATION: "/nowhere"}) is not None
        assert configs_of(client, LOCATION)[LOCATION].value == str(store)
        assert shown_by(authority, port) == second


def test_a_listener_with_tls_is_added_while_the_broker_runs(broker_process, authority, tmp_path):
    store = tmp_path / "store.pem"
    certificate = write_store(store, authority, "127.0.0.1")
    port = free_port()
    broker = broker_process(settings=["listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SSL"])
    with WireClient(broker.host, broker.port) as client:
        changes = {
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SAFE://127.0.0.1:{port}",
            "listener.name.safe.ssl.keystore.type": "PEM",
        }
        assert "ssl.keystore" in alter_names(client, changes)
        assert alter_names(client, {**changes, LOCATION: str(store)}) is None
        configs_of(client, "listeners")  # one round trip after the change
    assert shown_by(authority, port) == certificate
