"""An embedded broker in memory where calls of Linux are missing, played by taking them away before it is imported.

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

WINDOWS = """
import os, socket, sys
import trio

sys.modules["fcntl"] = None
for name in ("RWF_NOWAIT", "O_DIRECTORY", "fdatasync", "pread", "preadv", "pwrite", "pwritev", "posix_fadvise",
             "statvfs", "memfd_create", "sched_getaffinity", "register_at_fork"):
    delattr(os, name)
socket.SO_EXCLUSIVEADDRUSE = -5

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from stages import transport_layer
transport_layer.HAS_SENDMSG = False

with EmbeddedBroker() as broker:
    for number in range(8):
        broker.produce("t", bytes([number]) * 900_000)
    assert [record.value[0] for record in broker.records("t")] == list(range(8))
    broker.restore(broker.snapshot())
    broker.advance(8 * 86400)
    assert broker.records("t") == []
    host, port = broker.addresses["PLAINTEXT"]
    with socket.create_connection((host, port), timeout=5) as client:
        client.sendall(bytes.fromhex("0000000a0012000000000001ffff"))
        assert client.recv(4)
try:
    EmbeddedBroker(data=sys.argv[1]).start()
except EmbeddedBrokerError as error:
    print(error)
"""


def test_in_memory_it_needs_nothing_that_linux_alone_has_and_a_directory_is_refused_in_one_line(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", WINDOWS, str(tmp_path / "data")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("cannot use the data directory ")
    assert result.stdout.endswith(": directories are kept on Linux and macOS only\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", [b"", b"head"])
def test_parts_are_sent_one_by_one_where_they_cannot_be_sent_together(monkeypatch, first):
    monkeypatch.setattr(transport_layer, "HAS_SENDMSG", False)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = PlaintextTransportLayer(ours)
        body = bytes(JOIN_BYTES_MAX + 1)
        sent = transport.send([first, body])
        assert sent > 0
        assert theirs.recv(4) == (first or body[:4])
