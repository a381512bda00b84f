"""The examples work as documented."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from stages.mode import MODES

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("mode", MODES)
def test_the_echo_server_answers_in_order_and_stores_its_responses(mode, tmp_path):
    path = tmp_path / "echo.log"
    command = [sys.executable, str(EXAMPLES / "echo_server.py"), mode, "0", str(path)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline().split()[-1])
            stream = b"".join(struct.pack(">i", 3) + f"{number:03}".encode() for number in range(300))
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(stream)
                received = b""
                while len(received) < len(stream):
                    received += client.recv(65_536)
            assert received == stream
            assert path.read_bytes() == b"".join(f"{number:03}".encode() for number in range(300))
        finally:
            server.kill()


def test_the_echo_server_has_at_most_40_lines():
    assert len((EXAMPLES / "echo_server.py").read_text(encoding="utf-8").splitlines()) <= 40


def test_the_property_test_of_the_example_handler_passes():
    """As a reader would run it: by pytest, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "--capture=no", "-p", "no:cacheprovider", "test_own_handler.py"]
    ended = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(EXAMPLES)],
        cwd=EXAMPLES,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "distinct schedules" in ended.stdout
