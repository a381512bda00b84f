"""Only processes of the same user talk to a broker as a peer, and only through its Unix socket."""

import contextlib
import json
import os
import socket

import pytest

from pipeline_broker.node.peers import OWN_IDENTITY
from tests.conftest import start_broker
from tests.forks import PROGRAM

ME, NOBODY = os.geteuid(), 65_534
HELLOS = [
    {"client": OWN_IDENTITY},
    {"member": {"node_id": 2, "listeners": {}, "position": 0}},
]
API_VERSIONS = bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, 255, 255])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    supervisor = start_broker(directory, arguments=["--brokers", "2"], program=PROGRAM)
    yield supervisor
    supervisor.stop()
    supervisor.process.stdout.close()


def as_user(user, path, hello):
    """Connect as a user and send a request; return whether it was answered, or the name of the error."""
    os.seteuid(user)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            client.sendall(json.dumps(hello).encode() + b"\n" + API_VERSIONS)
            return "answered" if client.recv(1) else "closed"
    except OSError as error:
        return type(error).__name__
    finally:
        os.seteuid(ME)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("hello", HELLOS, ids=["client", "member"])
def test_another_user_is_no_peer_even_if_the_modes_let_it_in(cluster, hello):
    path = cluster.data / "1.socket"
    assert as_user(NOBODY, path, hello) == "PermissionError"
    opened = [path, *path.parents][:-1]
    modes = [it.stat().st_mode & 0o7777 for it in opened]
    try:
        for it in opened:
            it.chmod(0o777)
        assert as_user(NOBODY, path, hello) in {"closed", "BrokenPipeError", "ConnectionResetError"}
    finally:
        for it, mode in zip(opened, modes, strict=True):
            it.chmod(mode)
    assert as_user(ME, path, HELLOS[0]) == "answered"


@pytest.mark.parametrize("hello", HELLOS, ids=["client", "member"])
def test_the_first_line_of_a_peer_has_no_effect_on_a_listener_for_clients(cluster, hello):
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=10) as client:
        client.sendall(json.dumps(hello).encode() + b"\n")
        assert client.recv(1) == b"", "its first bytes are the size of no request"
    assert "rejected" not in cluster.stderr


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"{", b"[]\n", b"{}\n", b'{"client": 1}\n', b'{"member": {"node_id": "x"}}\n', b"x" * 70_000]
)
def test_an_invalid_first_line_ends_its_connection_alone(cluster, line):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(cluster.data / "1.socket"))
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert as_user(ME, cluster.data / "1.socket", HELLOS[0]) == "answered"
