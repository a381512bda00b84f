"""An embedded broker where calls of Linux are missing, played by taking them away before it is imported.

The sockets of the AF_UNIX family stay: Python's own pairs of sockets need them, and have a form without on Windows.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stages import transport_layer
from stages.transport_layer import JOIN_BYTES_MAX, PlaintextTransportLayer

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, socket, sys
import trio

for name in ("RWF_NOWAIT", "O_DIRECTORY", "fdatasync", "preadv", "pwritev", "posix_fadvise", "posix_fallocate",
             "sendfile", "memfd_create", "sched_getaffinity"):
    delattr(os, name)
for name in ("SO_REUSEPORT", "SO_PEERCRED", "TCP_USER_TIMEOUT", "TCP_KEEPIDLE"):
    delattr(socket, name)
mode, directory, system = sys.argv[1:]
if system == "windows":
    sys.modules["fcntl"] = None
    for name in ("pread", "pwrite", "statvfs", "register_at_fork"):
        delattr(os, name)
    socket.SO_EXCLUSIVEADDRUSE = -5

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from stages import transport_layer
transport_layer.HAS_SENDMSG = system != "windows"

def use(broker):
    for number in range(8):
        broker.produce("t", bytes([number]) * 900_000)
    assert [record.value[0] for record in broker.records("t")] == list(range(8))
    host, port = broker.addresses["PLAINTEXT"]
    with socket.create_connection((host, port), timeout=5) as client:
        client.sendall(bytes.fromhex("0000000a0012000000000001ffff"))
        assert client.recv(4)

with EmbeddedBroker(mode=mode) as broker:
    use(broker)
    broker.restore(broker.snapshot())
    broker.advance(8 * 86400)
    assert broker.records("t") == []
try:
    with EmbeddedBroker(mode=mode, data=directory, flush="always") as broker:
        use(broker)
    with EmbeddedBroker(mode=mode, data=directory) as broker:
        print([record.value[0] for record in broker.records("t")])
except EmbeddedBrokerError as error:
    print(error)
"""


def run_where(system, mode, tmp_path):
    """Run the program without the calls that `system` lacks; return its output."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode, str(tmp_path / "data"), system],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_in_memory_it_needs_nothing_that_windows_lacks_and_a_directory_is_refused_in_one_line(mode, tmp_path):
    printed = run_where("windows", mode, tmp_path)
    assert printed.startswith("cannot use the data directory ")
    assert printed.endswith(": directories are kept on Linux and macOS only\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_in_memory_and_in_a_directory_it_needs_no_call_of_linux_alone(mode, tmp_path):
    assert run_where("macos", mode, tmp_path) == f"{list(range(8))}\n"
    assert (tmp_path / "data" / "journal").is_dir()


@pytest.mark.parametrize("first", [b"", b"head"])
def test_parts_are_sent_one_by_one_without_sendmsg(monkeypatch, first):
    monkeypatch.setattr(transport_layer, "HAS_SENDMSG", False)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = PlaintextTransportLayer(ours)
        body = bytes(JOIN_BYTES_MAX + 1)
        sent = transport.send([first, body])
        assert sent > 0
        assert theirs.recv(4) == (first or body[:4])
