"""Guesses of passwords and slow handshakes at the HTTP ports of a broker."""

import base64
import concurrent.futures
import http.client
import re
import socket
import ssl
import time

import pytest
import trustme

from pipeline_broker.web.tls_stream import HANDSHAKE_SECONDS
from pipeline_broker.web.user_guard import REFUSAL_SECONDS

GUESSES = 15
SECONDS_MAX = 30.0
SILENT = 100
"""More than a port has slots."""


@pytest.fixture
def metrics(broker_process, tmp_path):
    """Provide a context that trusts the broker, and the address of its metrics."""
    authority, context = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "store.pem")
    (tmp_path / "users").write_text("ada:secret\n")
    files = ["--http-certificate", str(tmp_path / "store.pem"), "--http-users", str(tmp_path / "users")]
    broker = broker_process(arguments=["--metrics", "0", *files])
    (address,) = re.findall(r"^metrics on https://(\S+)/metrics$", broker.stderr, re.MULTILINE)
    return context, address


def status_of(context, address, password):
    connection = http.client.HTTPSConnection(address, timeout=SECONDS_MAX, context=context)
    credentials = base64.b64encode(f"ada:{password}".encode()).decode()
    connection.request("GET", "/metrics", headers={"Authorization": f"Basic {credentials}"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_guesses_on_many_connections_are_answered_at_a_bounded_rate_and_the_user_at_once(metrics):
    with concurrent.futures.ThreadPoolExecutor(GUESSES) as threads:
        began = time.monotonic()
        guesses = [threads.submit(status_of, *metrics, f"guess {number}") for number in range(GUESSES)]
        assert status_of(*metrics, "secret") == 200
        assert {guess.result() for guess in guesses} == {401}
    assert time.monotonic() - began >= GUESSES * REFUSAL_SECONDS


def test_silent_connections_neither_lock_a_user_out_nor_stay_longer_than_a_handshake_may_take(metrics):
    host, _, port = metrics[1].partition(":")
    silent = [socket.create_connection((host, int(port)), SECONDS_MAX) for _ in range(SILENT)]
    began = time.monotonic()
    assert status_of(*metrics, "secret") == 200
    for each in silent:
        with each:
            try:
                assert each.recv(1) == b""
            except ConnectionResetError:
                continue
    assert time.monotonic() - began < HANDSHAKE_SECONDS + 5
