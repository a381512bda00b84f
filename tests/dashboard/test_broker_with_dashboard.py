"""A broker process with a dashboard: live requests, shutdown with viewers, and invalid options."""

import http.client
import json
import re
import socket
import subprocess
import sys
import time

import pytest

from pipeline_broker.dashboard.history import PATH_COLUMNS
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.apis.wire_client import WireClient

SECONDS_MAX = 20
LINK = re.compile(r"^dashboard on http://(127\.0\.0\.1:\d+)/$", re.MULTILINE)
BATCH = build_batch([NewRecord(b"value", b"key", 1_000)])


def produce(client):
    data = ProduceRequest.PartitionProduceData(0, BATCH)
    request = ProduceRequest(None, -1, 1000, [ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    (topic,) = client.ask(request, ProduceResponse, 9).responses
    assert topic.partition_responses[0].error_code == 0


def watch(authority):
    """Open the live request path."""
    connection = http.client.HTTPConnection(authority, timeout=SECONDS_MAX)
    connection.request("GET", "/events/pipeline")
    return connection, connection.getresponse()


def next_event(response):
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream ended"
    return json.loads(line.removeprefix(b"data: "))


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_requests_are_shown_live_and_a_broker_with_viewers_can_stop(broker_process, mode):
    broker = broker_process(mode=mode, arguments=["--dashboard", "0"])
    (authority,) = LINK.findall(broker.stderr)
    viewer, response = watch(authority)
    with WireClient(broker.host, broker.port) as client:
        client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 5000), CreateTopicsResponse, 7)
        deadline, seen = time.monotonic() + SECONDS_MAX, {}
        shown = next_event(response)  # before the first viewer
        assert shown.keys() == {"ages", *PATH_COLUMNS}
        while not ("Produce" in seen and shown["lanes"] and shown["commits"]["per_s"] and shown["beat"]["commit_us"]):
            assert time.monotonic() < deadline, shown
            for _ in range(5):
                produce(client)
            shown = next_event(response)
            seen = {api["api"]: api for api in shown["apis"]}
    stages = dict(zip(shown["broker"]["stages"], seen["Produce"]["stages"], strict=True))

    assert shown["broker"]["mode"] == mode
    assert stages["commit wait"]["mean_us"] > 0
    assert sum(stage["mean_us"] for stage in stages.values()) == pytest.approx(seen["Produce"]["total_mean_us"], abs=7)
    order_out = [request["out"] for request in shown["lanes"][0]["requests"]]
    assert order_out == list(range(len(order_out)))
    broker.stop()
    viewer.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--dashboard", "x"], "--dashboard: 'x' is not a PORT or HOST:PORT"),
        (["--dashboard-beside", "127.0.0.1:1"], "--dashboard-beside needs --dashboard"),
        (
            ["--dashboard", "0", "--dashboard-beside", "x"],
            "'x' is not the address of a dashboard: give HOST:PORT, or the link",
        ),
    ],
)
def test_invalid_options_are_one_line(tmp_path, arguments, complaint):
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {complaint}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("option", ["--dashboard", "--metrics", "--schema-registry"])
def test_a_taken_port_is_one_line_with_its_option(tmp_path, option):
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = subprocess.run([*command, option, port], capture_output=True, text=True, check=False, timeout=60)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: cannot serve ")
    assert result.stderr.endswith(f" on 127.0.0.1:{port}: Address already in use. Choose another {option}\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("wal", ["disk", "objects"])
def test_requests_to_the_store_and_its_journal_are_shown(broker_process, tmp_path, wal):
    arguments = ["--dashboard", "0", "--store", (tmp_path / "store").as_uri(), "--wal", wal, "--store-delay", "20ms"]
    broker = broker_process(arguments=arguments)
    with WireClient(broker.host, broker.port) as client:
        client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 5000), CreateTopicsResponse, 7)
        produce(client)
    (authority,) = LINK.findall(broker.stderr)
    connection = http.client.HTTPConnection(authority, timeout=SECONDS_MAX)
    connection.request("GET", "/api/store")
    shown = json.loads(connection.getresponse().read())
    connection.close()
    assert (shown["has_store"], shown["is_out"], shown["retries"], shown["reason"]) == (True, False, 0, "")
    kinds = {each["kind"]: each for each in shown["kinds"]}
    assert {"put", "get", "list", "delete"} == kinds.keys()
    assert kinds["put"]["p99_ms"] >= 25
    counts = {(each["operation"], each["outcome"]): each["count"] for each in shown["requests"]}
    assert counts["create", "done"] >= (3 if wal == "objects" else 1)
    assert shown["sent_bytes"] > 0
    if wal == "disk":
        assert shown["journal"] is None
        return
    assert (shown["journal"]["generation"], shown["journal"]["is_fenced"]) == (1, False)
    assert shown["journal"]["slots"] >= 2
    assert shown["journal"]["lease"]["is_held"]
    assert shown["journal"]["lease"]["age_seconds"] < SECONDS_MAX
