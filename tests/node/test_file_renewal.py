"""Certificates are read again on SIGHUP and after a change of their files, without a restart."""

import contextlib
import logging
import os
import pty
import signal
import socket
import ssl
import subprocess
import sys
import time

import pytest
import trio
import trio.testing
import trustme

from pipeline_broker.node.file_renewal import CHECK_SECONDS, FileRenewal
from pipeline_broker.security.tls import TlsContexts
from tests.apis.wire_client import WireClient
from tests.free_ports import free_port
from tests.node.listener_clients import ports_of
from tests.node.test_live_certificates import shown_by, write_store

SECONDS_MAX = 20.0
CHECKS = 3
SETTINGS = (
    "listeners=PLAINTEXT://127.0.0.1:0,SAFE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SSL",
    "ssl.keystore.type=PEM",
)


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.pem"


def key_store(path):
    return f"listener.name.safe.ssl.keystore.location={path}"


def wait_until(check):
    deadline = time.monotonic() + SECONDS_MAX
    while not check():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.02)


def connect(authority, port, client=None):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
    connection.settimeout(SECONDS_MAX)
    return connection


def is_accepted(authority, port, client):
    """Return whether the broker accepts the certificate of a client, which TLS 1.3 shows with the first read."""
    with connect(authority, port, client) as connection:
        connection.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\x01\0\x01x")  # ApiVersions
        with contextlib.suppress(ssl.SSLError, ConnectionResetError):
            return bool(connection.recv(4))
    return False


def test_sighup_renews_the_certificate_for_new_connections_and_keeps_the_old_ones(broker_process, authority, store):
    first = write_store(store, authority, "127.0.0.1")
    broker = broker_process(settings=[*SETTINGS, key_store(store)])
    with WireClient(broker.host, broker.port) as client:
        port = ports_of(client)["SAFE"]
    with connect(authority, port) as before:
        second = write_store(store, authority, "127.0.0.1")
        assert shown_by(authority, port) == first
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: shown_by(authority, port) == second)
        before.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\x01\0\x01x")
        assert before.recv(4), "the connection with the previous certificate continues"


def test_a_damaged_file_is_refused_with_one_line_and_the_previous_certificate_stays(broker_process, authority, store):
    first = write_store(store, authority, "127.0.0.1")
    store.chmod(0o600)
    broker = broker_process(settings=[*SETTINGS, key_store(store)])
    with WireClient(broker.host, broker.port) as client:
        port = ports_of(client)["SAFE"]
    store.write_text("nonsense")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the previous files stay in use" in broker.stderr)
    assert shown_by(authority, port) == first
    assert broker.stderr.count("\n") == 2  # with the line of the second listener
    second = write_store(store, authority, "127.0.0.1")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: shown_by(authority, port) == second)


def test_sighup_renews_the_trust_store(broker_process, authority, store, tmp_path):
    write_store(store, authority, "127.0.0.1")
    former, present, trusted = trustme.CA(), trustme.CA(), tmp_path / "trusted.pem"
    former.cert_pem.write_to_path(trusted)
    prefix = "listener.name.safe.ssl"
    trust = [
        f"{prefix}.truststore.location={trusted}",
        f"{prefix}.truststore.type=PEM",
        f"{prefix}.client.auth=required",
    ]
    broker = broker_process(settings=[*SETTINGS, key_store(store), *trust])
    with WireClient(broker.host, broker.port) as client:
        port = ports_of(client)["SAFE"]
    of_former, of_present = former.issue_cert("client.test"), present.issue_cert("client.test")
    assert is_accepted(authority, port, of_former)
    assert not is_accepted(authority, port, of_present)
    present.cert_pem.write_to_path(trusted)
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: is_accepted(authority, port, of_present))
    assert not is_accepted(authority, port, of_former)


def test_the_supervisor_of_a_machine_passes_sighup_on_to_every_broker(authority, store, broker_process):
    first, port = write_store(store, authority, "127.0.0.1"), free_port(1, 2, 3)
    settings = [
        f"listeners=PLAINTEXT://127.0.0.1:{port},SAFE://127.0.0.1:{port + 1}",
        *SETTINGS[1:],
        key_store(store),
        "inter.broker.listener.name=PLAINTEXT",
    ]
    broker = broker_process(arguments=["--brokers", "2"], settings=settings)
    ports = [port + 1, port + 3]
    assert [shown_by(authority, each) for each in ports] == [first, first]
    second = write_store(store, authority, "127.0.0.1")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: [shown_by(authority, each) for each in ports] == [second, second])


def test_without_certificates_sighup_changes_nothing(broker_process):
    broker = broker_process()
    broker.process.send_signal(signal.SIGHUP)
    with WireClient(broker.host, broker.port) as client:
        assert ports_of(client)
    assert broker.process.poll() is None


def test_a_broker_ends_with_the_terminal_that_it_was_started_from(tmp_path):
    of_test, of_broker = pty.openpty()
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdin=of_broker, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline().startswith(b"listening on ")
        os.close(of_broker)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        os.close(of_test)
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Renewed:
    """Contexts that count their reloads. A check that finds `changes` left reloads."""

    def __init__(self, changes=0):
        self.changes = changes
        self.reloads = 0

    def reload(self):
        self.reloads += 1

    def reload_changed(self):
        self.changes -= 1
        if self.changes < 0:
            return False
        self.reload()
        return True

    def warning(self, now):
        return None


async def run_at_once(function, *arguments):
    return function(*arguments)


def renewed_for(seconds, contexts, name="listener SAFE", **options):
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(FileRenewal(lambda: {name: contexts}, **options).run)
            await trio.sleep(seconds)
            nursery.cancel_scope.cancel()

    with pytest.MonkeyPatch.context() as patched:
        # The virtual clock would jump while a slow thread still reads files.
        patched.setattr(trio.to_thread, "run_sync", run_at_once)
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_files_are_checked_once_an_interval():
    contexts = Renewed(changes=1000)
    renewed_for(CHECK_SECONDS * (CHECKS + 0.5), contexts)
    assert contexts.reloads == CHECKS


def test_a_changed_file_is_used_after_the_next_check_and_read_once(authority, store):
    write_store(store, authority, "127.0.0.1")
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    contexts = TlsContexts(settings)
    before = contexts.context()
    assert not contexts.reload_changed()
    renewed_for(CHECK_SECONDS * 1.5, contexts)
    assert contexts.context() is before
    write_store(store, authority, "127.0.0.1")
    renewed_for(CHECK_SECONDS * 1.5, contexts)
    assert contexts.context() is not before
    assert not contexts.reload_changed()


def refusals(caplog):
    # Other tests may lower the level, so that renewals are captured too.
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_file_that_cannot_be_used_is_logged_once_until_it_changes(authority, store, caplog):
    write_store(store, authority, "127.0.0.1")
    contexts = TlsContexts({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    before = contexts.context()
    store.write_text("nonsense")
    renewed_for(CHECK_SECONDS * 3.5, contexts)
    (message,) = refusals(caplog)
    assert message.startswith("listener SAFE: the previous files stay in use: ssl.keystore.location")
    assert contexts.context() is before
    store.unlink()
    renewed_for(CHECK_SECONDS * 2.5, contexts)
    assert "cannot read" in refusals(caplog)[1]
    write_store(store, authority, "127.0.0.1")
    renewed_for(CHECK_SECONDS * 1.5, contexts)
    assert len(refusals(caplog)) == 2
    assert contexts.context() is not before


def test_an_object_that_another_process_logs_is_renewed_in_silence(caplog):
    caplog.set_level(logging.INFO)
    for name in ("quiet", "loud"):
        contexts = Renewed(changes=1)
        renewed_for(CHECK_SECONDS * 1.5, contexts, name, logged_elsewhere={"quiet"})
        assert contexts.reloads == 1
    assert {message.partition(":")[0] for message in caplog.messages} == {"loud"}
