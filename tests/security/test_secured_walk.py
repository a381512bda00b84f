"""The walk to a secured broker in docs/guides/security.md works as shown, except for the port and the folder."""

import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.conftest import ROOT
from tests.documents import blocks
from tests.required import require_tool

SECONDS_MAX = 20
DOCUMENT = ROOT / "docs/guides/security.md"
WALK = re.search(r"^## A secured broker.*?(?=^## )", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
PROPERTIES, CLIENT = (
    re.search(rf"^```{kind}\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)[1] for kind in ("properties", "text")
)
SHELL, PYTHON = (
    [block.text for block in blocks(DOCUMENT, kind) if block.excuse == "run by tests/security/test_secured_walk.py"]
    for kind in ("sh", "python")
)


def test_the_walk_ends_with_a_record_of_the_user_and_an_unknown_user_is_refused_and_logged(broker_process, tmp_path):
    require_tool("openssl")

    def call(*command):
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    certificates, commands, rights_of_viewers = SHELL
    (program,) = PYTHON
    call("bash", "-ec", certificates)
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES.replace("/etc/kafka", str(tmp_path)), encoding="utf-8")
    (tmp_path / "admin.properties").write_text(CLIENT, encoding="utf-8")
    broker = broker_process(arguments=["--config", str(path), "--metrics", "0"])

    def here(text):
        text = text.replace("127.0.0.1:9092", broker.bootstrap)
        return re.sub(r"\bpipeline-broker ", f"{sys.executable} -m pipeline_broker ", text)

    call("bash", "-ec", f"export PYTHONPATH={ROOT}; {here(commands + rights_of_viewers)}")
    assert call(sys.executable, "-c", here(program)) == "0\n"

    wrong = re.sub("alice-secret", "not-hers", here(program)).replace("{\n", '{"message.timeout.ms": 3000,\n', 1)
    assert "timed out" in call(sys.executable, "-c", wrong)
    assert "failed to authenticate on SASL_SSL as 'alice' by SCRAM-SHA-512: the password is wrong" in broker.stderr
    assert "secret" not in broker.stderr

    distrusts = ssl.create_default_context().wrap_socket
    with socket.create_connection((broker.host, broker.port)) as connection, pytest.raises(ssl.SSLError):
        distrusts(connection, server_hostname="localhost")
    (address,) = re.findall(r"^metrics on (http://\S+)$", broker.stderr, re.MULTILINE)
    handshakes = 'pipeline_broker_failed_logins_total{listener="SASL_SSL",mechanism="TLS"} 1'
    deadline = time.monotonic() + SECONDS_MAX
    while handshakes not in (shown := scrape(address)):
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    assert 'pipeline_broker_failed_logins_total{listener="SASL_SSL",mechanism="SCRAM-SHA-512"} ' in shown


def scrape(address):
    with urllib.request.urlopen(address) as response:
        return response.read().decode()
