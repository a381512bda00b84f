"""A connection leaves no reference cycles, however it starts and ends: a full collection may be hours away."""

import os
import signal
import socket
import ssl
import struct
import time
from contextlib import suppress

import confluent_kafka
import pytest

from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from tests.bad_input.raw_client import RawClient, frame_of
from tests.conftest import ROOT
from tests.security.conftest import MODES, PASSWORD, SECONDS_MAX, start_secured

pytestmark = pytest.mark.clients
CONNECTIONS = 12
# Objects in cycles from other work at the same time: less than four per connection.
CYCLES_MAX = 40


@pytest.fixture(scope="module", params=MODES)
def secured(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(f"garbage-{request.param}")
    environment = {"GARBAGE_FILE": str(directory / "garbage")}
    program = (str(ROOT / "tests" / "security" / "garbage_broker.py"),)
    with start_secured(directory, mode=request.param, program=program, environment=environment) as broker:
        yield broker


def garbage(secured):
    """Return the findings of the broker's garbage collector."""
    path = secured.directory / "garbage"
    path.unlink(missing_ok=True)
    os.kill(secured.broker.pid, signal.SIGUSR1)
    deadline = time.monotonic() + SECONDS_MAX
    while not (path.exists() and path.read_text(encoding="ascii")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(path.read_text(encoding="ascii"))


def produces(protocol, listener, mechanism=None, user=None):
    proof = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": PASSWORD} if mechanism else {}

    def come_and_go(secured):
        address = {"bootstrap.servers": secured.address(listener), "security.protocol": protocol}
        producer = confluent_kafka.Producer({**address, "ssl.ca.location": secured.authority_path, **proof})
        producer.produce("garbage", b"value")
        assert producer.flush(SECONDS_MAX) == 0

    return come_and_go


def consumes(secured):
    address = {"bootstrap.servers": secured.address("PLAINTEXT"), "group.id": "garbage"}
    consumer = confluent_kafka.Consumer({**address, "auto.offset.reset": "earliest"})
    consumer.subscribe(["garbage"])
    consumer.poll(SECONDS_MAX if not consumer.assignment() else 0)
    consumer.close()


def is_refused(secured):
    with RawClient(secured.ports["SASL"]) as client:
        client.send_frame(frame_of(ApiVersionsRequest(), 3, 1))
        client.receive_frame()
        client.send_frame(b"\0\3\0\1")
        assert client.is_closed()


def sends_nonsense(secured):
    with RawClient(secured.ports["PLAINTEXT"]) as client:
        client.send_frame(b"\xff" * 20)
        assert client.is_closed()


def breaks_off(secured):
    """Disconnect with half of a frame sent."""
    with RawClient(secured.ports["PLAINTEXT"]) as client:
        client.send_frame(frame_of(ApiVersionsRequest(), 3, 1))
        client.send(struct.pack(">i", 1000) + b"\0" * 100)
        client.reset_when_closed()


def is_untrusted(secured):
    """Connect without a certificate to a listener that requires one."""
    context = ssl.create_default_context(cafile=secured.authority_path)
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", secured.ports["CERTIFICATE"]), SECONDS_MAX) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.recv(1)


CLIENTS = {
    "plaintext": produces("PLAINTEXT", "PLAINTEXT"),
    "plain": produces("SASL_PLAINTEXT", "SASL", "PLAIN", "plain-user"),
    "scram": produces("SASL_PLAINTEXT", "SASL", "SCRAM-SHA-256", "scram-user"),
    "tls": produces("SASL_SSL", "SECURE", "PLAIN", "plain-user"),
    "group": consumes,
    "refused": is_refused,
    "nonsense": sends_nonsense,
    "broken-off": breaks_off,
    "untrusted": is_untrusted,
}


@pytest.mark.parametrize("come_and_go", CLIENTS.values(), ids=CLIENTS)
def test_connections_that_ended_leave_no_cycles(secured, come_and_go):
    come_and_go(secured)  # imported modules and compiled patterns stay
    garbage(secured)
    for _ in range(CONNECTIONS):
        come_and_go(secured)
    assert garbage(secured) < CYCLES_MAX
