"""The schema registry of a broker: over HTTP, after restarts and kills, and with hostile schemas."""

import gc
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.node import schema_registry
from pipeline_broker.node.schema_registry import BODY_BYTES_MAX
from tests.forks import run_command
from tests.tables import each_row

URL = re.compile(r"^schema registry on http://(127\.0\.0\.1:\d+)$", re.MULTILINE)
FIRST = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
SECONDS_MAX = 30


def ask(url, method, path, body=None, **headers):
    """Return the status and JSON of an answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=SECONDS_MAX)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, content, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def register(url, subject, text, **more):
    return ask(url, "POST", f"/subjects/{subject}/versions", {"schema": text, **more})


@pytest.fixture(scope="module")
def embedded():
    with EmbeddedBroker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def url(embedded):
    embedded.reset()
    return embedded.schema_registry_url


def test_answers_have_the_content_type_of_confluent(url):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=SECONDS_MAX)
    connection.request("GET", "/subjects")
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "application/vnd.schemaregistry.v1+json"
    assert response.read() == b"[]"
    connection.close()


@each_row(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=["host", "origin", "null", "site"],
)
def test_requests_of_foreign_pages_are_refused(headers):
    with EmbeddedBroker(schema_registry=True) as broker:
        assert ask(broker.schema_registry_url, "PUT", "/mode", {"mode": "READONLY"}, **headers)[0] == 403
        assert ask(broker.schema_registry_url, "GET", "/mode") == (200, {"mode": "READWRITE"})


def test_a_body_above_the_limit_is_refused_and_one_at_the_limit_answered(url):
    assert ask(url, "POST", "/subjects/a/versions", b"x" * (BODY_BYTES_MAX + 1))[0] == 413
    text = json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 500_000})
    assert register(url, "a", text) == (200, {"id": 1})


def test_the_topic_is_created_with_the_first_schema_and_compacted(embedded, url):
    assert "_schemas" not in embedded.topics()
    register(url, "a", FIRST)
    assert embedded.topics()["_schemas"] == 1
    assert embedded.on_loop(lambda it: it.broker.topics.get("_schemas").configs) == {"cleanup.policy": "compact"}
    assert len(embedded.records("_schemas")) == 1


def test_records_of_other_writers_apply_and_invalid_ones_are_ignored(embedded, url, caplog):
    register(url, "a", FIRST)
    embedded.produce("_schemas", "{", key="{")
    embedded.produce("_schemas", None, key='{"keytype":"NOOP","magic":0}')
    value = '{"subject":"other","version":3,"id":90,"schema":"\\"int\\"","deleted":false}'
    embedded.produce("_schemas", value, key='{"keytype":"SCHEMA","subject":"other","version":3,"magic":1}')

    assert ask(url, "GET", "/subjects") == (200, ["a", "other"])
    assert ask(url, "GET", "/schemas/ids/90") == (200, {"schema": '"int"'})
    assert register(url, "b", '"long"') == (200, {"id": 91})
    assert "the record at offset 1 is ignored" in caplog.text


def test_deleting_the_topic_deletes_all_schemas(embedded, url):
    register(url, "a", FIRST)
    embedded.delete_topic("_schemas")
    assert ask(url, "GET", "/subjects") == (200, [])
    assert register(url, "b", FIRST) == (200, {"id": 1})


def test_a_restored_broker_serves_the_schemas_of_the_snapshot_at_the_same_url(embedded, url):
    register(url, "a", FIRST)
    snapshot = embedded.snapshot()
    register(url, "b", FIRST)
    embedded.restore(snapshot)

    assert ask(embedded.schema_registry_url, "GET", "/subjects") == (200, ["a"])
    assert embedded.schema_registry_url == url


def test_concurrent_changes_get_distinct_versions_and_ids(url):
    ask(url, "PUT", "/config", {"compatibility": "NONE"})
    answers = []

    def work(number):
        answers.append(register(url, "a", json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer["id"] for _, answer in answers) == list(range(1, 17))
    assert ask(url, "GET", "/subjects/a/versions") == (200, list(range(1, 17)))


def union(letter, count):
    fields = [{"name": f"{letter}{number}", "type": "int"} for number in range(3)]
    return json.dumps([{"type": "record", "name": f"R{number}", "fields": fields} for number in range(count)])


def nested(count):
    schema = {"type": "string"}
    for _ in range(count):
        schema = {"anyOf": [schema, {"not": schema}]}
    return json.dumps(schema)


# the error that ends the work may be raised in Hypothesis' callback of the garbage collector, which only reports it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@each_row(
    "kind, first, second",
    [
        ("AVRO", union("a", 700), union("b", 700)),
        ("JSON", nested(12), nested(13)),
        ("JSON", json.dumps({"patternProperties": {"(a+)+$": {}}}), json.dumps({"properties": {"a" * 50 + "!": {}}})),
        ("PROTOBUF", 'syntax = "proto3";' + "message M {" * 20_000, ""),
        ("AVRO", "[" * 500_000, ""),
    ],
    ids=["unions", "sums", "pattern", "messages", "brackets"],
)
def test_a_hostile_schema_ends_in_time_and_delays_no_client(kind, first, second):
    """While a comparison that would take minutes runs, each turn of the event loop starts within 250 ms of CPU time."""
    before = schema_registry.WORK_SECONDS_MAX
    schema_registry.WORK_SECONDS_MAX = 1.0
    gc.collect()
    gc.freeze()  # for good: a collection of all that the other tests of this process hold takes as long as the bound
    try:
        with EmbeddedBroker(schema_registry=True) as broker:
            lags = watch_lags(broker)
            url = broker.schema_registry_url
            register(url, "a", first, schemaType=kind)
            began = time.monotonic()
            status, _ = register(url, "a", second or first, schemaType=kind)
            assert time.monotonic() - began < SECONDS_MAX
            assert status in (200, 409, 422, 500)
            assert ask(url, "GET", "/schemas/types")[0] == 200
            assert max(lags()) < 0.25
    finally:
        schema_registry.WORK_SECONDS_MAX = before


def watch_lags(broker):
    """Record the CPU time of the process between turns of the broker's event loop; other processes use the CPU, too."""
    import trio

    async def watch(found):
        while True:
            began = time.process_time()
            await trio.sleep(0.005)
            found.append(time.process_time() - began)

    found = [0.0]
    broker.on_loop(lambda _: trio.lowlevel.spawn_system_task(watch, found))
    return lambda: list(found)


def test_schemas_survive_a_kill_and_ids_continue(broker_process):
    broker = broker_process(arguments=["--schema-registry", "0"])
    (authority,) = URL.findall(broker.stderr)
    assert register(authority, "a", FIRST) == (200, {"id": 1})
    assert ask(authority, "PUT", "/config/a", {"compatibility": "FULL"})[0] == 200
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait()

    again = broker_process(arguments=["--schema-registry", "0"])
    (authority,) = URL.findall(again.stderr)
    assert ask(authority, "GET", "/subjects/a/versions/1")[1]["schema"] == FIRST
    assert ask(authority, "GET", "/config/a") == (200, {"compatibilityLevel": "FULL"})
    assert register(authority, "b", '"int"') == (200, {"id": 2})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--schema-registry", "x"], "--schema-registry: 'x' is not a PORT or HOST:PORT")],
)
def test_a_registry_that_cannot_start_is_one_line(tmp_path, arguments, complaint):
    result = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {complaint}")


def test_a_port_in_use_is_one_line(tmp_path, embedded):
    place = embedded.schema_registry_url.removeprefix("http://")
    result = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--schema-registry", place)
    assert result.returncode == 2
    assert f"cannot serve the schema registry on {place}" in result.stderr


def test_a_missing_package_is_named_at_startup(monkeypatch):
    monkeypatch.setitem(schema_registry.PACKAGES, "not_installed_anywhere", "some-package")
    from pipeline_broker.embedded.errors import EmbeddedBrokerError

    with pytest.raises(
        EmbeddedBrokerError, match=r"some-package is missing. Run pip install 'pipeline-broker\[schema-registry\]'"
    ):
        EmbeddedBroker(schema_registry=True).start()


def test_a_broker_without_a_registry_imports_none_of_it():
    program = (
        "import sys\nfrom pipeline_broker import EmbeddedBroker\n"
        "with EmbeddedBroker() as broker:\n    broker.produce('t', 'x')\n"
        "print(*[name for name in sys.modules if 'schema_registry' in name or name.split('.')[0] in "
        "('avro', 'jsonschema', 'grpc_tools', 'h11')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == ""
