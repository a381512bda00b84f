"""All that the edges may keep is filled at once: the memory of the broker is what it declares, and returns."""

import json
import re
import socket
from pathlib import Path

import pytest

from pipeline_broker.node.schema_registry import BODY_BYTES_MAX
from pipeline_broker.node.schema_registry import LIMITS as REGISTRY
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.schema_registry.state import TEXT_BYTES_MAX
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.registry import ApiKey
from pipeline_broker.worker.child import MEMORY_BYTES_MAX
from tests.bad_input.conftest import PRODUCE_VERSION, running
from tests.bad_input.raw_client import RawClient, batch_of, create_topic, produce_request
from tests.crashes.lengths import drawn

MEGABYTE = 1 << 20
EDGE_BYTES = 64 * MEGABYTE
BESIDE_BYTES = 64 * MEGABYTE
"""What the process may take beside the bytes that it declares."""
CLIENT_ID_BYTES = 32_000
URL = re.compile(r"^schema registry on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


@pytest.fixture(params=drawn("pipelined", "classic"))
def subject(request, tmp_path):
    settings = [f"pipeline.edge.bytes={EDGE_BYTES}", "log.retention.ms=-1"]
    with running(tmp_path, request.param, ["--flush", "os", "--schema-registry", "0"], settings) as subject:
        yield subject


def schema_records(count):
    """Versions with texts of nearly a mebibyte, which are small when they are compressed."""
    for number in range(1, count + 1):
        text = json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"], "doc": "x" * (MEGABYTE - 1_000)})
        key = {"keytype": "SCHEMA", "subject": f"s{number}", "version": 1, "magic": 1}
        value = {"subject": f"s{number}", "version": 1, "id": number, "schema": text, "deleted": False}
        yield build_batch([NewRecord(json.dumps(value).encode(), json.dumps(key).encode(), 0)], compression=1)


def get(port, path):
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        data = b""
        while part := connection.recv(1 << 16):
            data += part
    return data


def half_bodies(port):
    """Bodies of which all but the last byte is sent, one of each connection that the registry has."""
    head = f"POST /subjects/a/versions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {BODY_BYTES_MAX}\r\n\r\n".encode()
    sockets = []
    for _ in range(REGISTRY.connections_max):
        connection = socket.create_connection(("127.0.0.1", port), 60)
        connection.sendall(head + b"x" * (BODY_BYTES_MAX - 1))
        sockets.append(connection)
    return sockets


def clients_of_many_names(port):
    """Connections that each produce under as many client ids as the broker might remember of one."""
    body = b"".join(encode(produce_request((0, batch_of(b"x"))), PRODUCE_VERSION))
    clients = []
    for number in range(10):
        client = RawClient(port)
        for name in range(EDGE_BYTES // 8 // CLIENT_ID_BYTES + 20):
            header = encode_request_header(
                RequestHeader(ApiKey.PRODUCE, PRODUCE_VERSION, 1, f"{number}-{name:0{CLIENT_ID_BYTES}d}")
            )
            assert client.ask_raw(header + body) is not None
        clients.append(client)
    return clients


@pytest.mark.faults
def test_the_memory_of_a_broker_whose_edges_are_full_is_what_it_declares(subject):
    (registry,) = map(int, URL.findall(subject.process.stderr))
    subject.stderr_seen = len(subject.process.stderr)
    get(registry, "/subjects")
    create_topic(subject.port, "_schemas")
    before = subject.memory_at_rest()
    subject.reset_memory_peak()
    count = TEXT_BYTES_MAX // MEGABYTE + 6
    for batch in schema_records(count):
        subject.healthy.ask(produce_request((0, batch), topic="_schemas"), PRODUCE_VERSION)
    kept = get(registry, "/subjects").count(b'"s')
    assert TEXT_BYTES_MAX // MEGABYTE - 2 <= kept < count, "the others found no room"
    clients = clients_of_many_names(subject.port)
    bodies = half_bodies(registry)
    (worker,) = workers_of(subject.process.pid)
    assert peak_bytes(worker) < MEMORY_BYTES_MAX
    grown = subject.memory_bytes("VmHWM") - before
    assert EDGE_BYTES // 2 + TEXT_BYTES_MAX // 2 < grown < EDGE_BYTES + TEXT_BYTES_MAX + BESIDE_BYTES
    for each in bodies:
        each.close()
    for client in clients:
        client.socket.close()
    subject.wait_for_memory(before + TEXT_BYTES_MAX + BESIDE_BYTES // 2)


def workers_of(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += (task / "children").read_text().split()
    return [int(child) for child in found if b"worker.child" in Path(f"/proc/{child}/cmdline").read_bytes()]


def peak_bytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
