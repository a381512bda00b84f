"""`serve --control`: operator commands over HTTP, in a broker process."""

import http.client
import json
import os
import re
import shlex
import socket
import stat
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pipeline_broker.node.admin_socket import ask
from pipeline_broker.node.operator_commands import CommandFailedError
from tests.documents import ROOT, blocks
from tests.forks import run_command

CONTROL_LINE = re.compile(r"^control on (\S+) with the token in (.+)$", re.MULTILINE)
RULE = ["api=Produce", "topic=t", "nth=1", "error=NOT_LEADER_OR_FOLLOWER"]
SECONDS_MAX = 20
TOKEN = "0123456789abcdef"


def control(broker, command, **arguments):
    """Return the status and the answer to a command."""
    url, path = CONTROL_LINE.search(broker.stderr).groups()
    token = Path(path).read_text(encoding="ascii").strip()
    body = json.dumps({"command": command, **arguments}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_broker_serves_no_commands_over_http_unless_asked(broker_process):
    broker = broker_process()
    assert "control" not in broker.stderr
    assert not (broker.data / "control.token").exists()
    with pytest.raises(CommandFailedError, match="unknown command 'reset'; use one of"):
        ask(broker.data, "reset")


def test_both_transports_carry_the_same_commands(broker_process):
    broker = broker_process(arguments=["--control", "0"])
    assert control(broker, "faults add", arguments=RULE)[1]["origin"] == "control"
    assert ask(broker.data, "faults add", arguments=RULE)["origin"] == "command line"
    assert control(broker, "faults list") == (200, ask(broker.data, "faults list"))
    assert control(broker, "compact") == (200, ask(broker.data, "compact"))
    assert control(broker, "timelines status") == (200, ask(broker.data, "timelines status"))
    assert control(broker, "requests", api="Produce") == (200, ask(broker.data, "requests", api="Produce"))
    for command, arguments in (("faults remove", {"number": 9}), ("requests", {"api": "x"}), ("none", {})):
        with pytest.raises(CommandFailedError) as raised:
            ask(broker.data, command, **arguments)
        assert control(broker, command, **arguments) == (400, {"error": str(raised.value)})
    assert ask(broker.data, "reset") == {"rules": 2, "topics": 0}
    assert control(broker, "reset") == (200, {"rules": 0, "topics": 0})


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
@pytest.mark.parametrize("others", [(), ("--metrics", "0")], ids=["alone", "with metrics"])
def test_requests_since_the_startup_are_observed(broker_process, mode, others):
    import confluent_kafka as ck

    broker = broker_process(mode=mode, arguments=["--control", "0", *others])
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "orders"})
    producer.produce("t", b"x")
    assert producer.flush(20) == 0
    status, answer = control(broker, "requests", api="Produce", client_id="orders", topic="t", count=1)
    assert (status, answer["count"], answer["requests"][0]["partitions"]) == (200, 1, [["t", 0]])


def test_the_token_is_only_for_its_owner_and_outlives_the_broker(broker_process):
    broker = broker_process(arguments=["--control", "0"])
    path = broker.data / "control.token"
    token = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    broker.stop()
    broker_process(arguments=["--control", "0"])
    assert path.read_bytes() == token


def test_a_token_of_the_user_may_be_anywhere(broker_process, tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    broker = broker_process(arguments=["--control", "0", "--control-token", str(path)])
    assert CONTROL_LINE.search(broker.stderr)[2] == str(path)
    assert control(broker, "faults list") == (200, {"rules": []})
    assert not (broker.data / "control.token").exists()


def test_a_wait_does_not_delay_the_shutdown(broker_process):
    broker = broker_process(arguments=["--control", "0"])
    ended = []

    def wait():
        try:
            control(broker, "requests", api="Produce", count=1, timeout="60s")
        except (OSError, http.client.HTTPException) as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert control(broker, "faults list")[0] == 200
    broker.stop()
    waiting.join()
    assert len(ended) == 1


def objects(text):
    """Yield JSON objects that follow each other."""
    while text:
        found, end = json.JSONDecoder().raw_decode(text)
        yield found
        text = text[end:]


def test_the_commands_of_the_guide_work(broker_process, tmp_path):
    import confluent_kafka as ck

    start, commands = (block.text for block in blocks(ROOT / "docs/guides/control.md", "sh"))
    assert shlex.split(start) == [*["pipeline-broker", "serve", "--port", "0", "--data", "./data", "--control", "0"]]
    broker = broker_process(data=tmp_path / "data", arguments=["--control", "0"])
    url = CONTROL_LINE.search(broker.stderr)[1]
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap})
    with subprocess.Popen(
        ["bash", "-c", commands], cwd=tmp_path, env=os.environ | {"CONTROL_URL": url}, stdout=subprocess.PIPE, text=True
    ) as shell:
        while shell.poll() is None:
            producer.produce("orders", b"x")
            assert producer.flush(SECONDS_MAX) == 0
        rule, found, reset = objects(shell.stdout.read())
    assert rule["number"] == 1
    assert found["count"] >= 2
    assert reset == {"rules": 1, "topics": 1}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--control", "0.0.0.0:0"], "--control: 0.0.0.0 is not a loopback address. Give the PORT alone"),
        (["--control", "x"], "--control: 'x' is not a PORT or HOST:PORT"),
        (["--control-token", "file"], "--control-token needs --control"),
        (
            ["--control", "0", "--brokers", "2"],
            "--control needs a broker without --brokers: its rules and waits are about one broker",
        ),
    ],
)
def test_options_that_cannot_work_are_one_line(tmp_path, arguments, error):
    done = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), *arguments)
    assert (done.returncode, done.stderr) == (2, f"Error: {error}\n")
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_prevents_the_startup(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--control", str(port))
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: cannot serve the control endpoint on 127.0.0.1:{port}: Address already in use."
        " Choose another --control\n"
    )


def test_a_token_file_that_others_can_read_prevents_the_startup(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    done = run_command(
        "serve", "--port", "0", "--data", str(tmp_path / "data"), "--control", "0", "--control-token", str(path)
    )
    assert done.returncode == 2
    assert f"Error: other users can read the token file {path}. " in done.stderr
