"""The schema registry in a test process: the guide's test, the fixture and the example."""

import json
import shutil
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from pipeline_broker import EmbeddedBroker, EmbeddedCluster
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from tests.documents import blocks_run_by
from tests.plugin_runs import run_pytest

ROOT = Path(__file__).parents[2]


def test_the_test_in_the_guide_passes(tmp_path):
    (block,) = blocks_run_by("tests/embedded/test_schema_registry.py")
    (tmp_path / "test_it.py").write_text(block.text, encoding="utf-8")
    result = run_pytest(tmp_path, "-q")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_fixture_keeps_its_url_when_the_broker_is_restored_or_restarted(tmp_path):
    (tmp_path / "test_it.py").write_text(
        """
import json
import urllib.request

urls = set()


def subjects(url):
    urls.add(url)
    with urllib.request.urlopen(url + "/subjects") as answer:
        return json.loads(answer.read())


def register(url, subject):
    body = json.dumps({"schema": '"int"'}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/subjects/{subject}/versions", body)).close()


def test_first(kafka_schema_registry):
    register(kafka_schema_registry, "kept")


def test_that_goes_on_in_time(kafka_broker, kafka_schema_registry):
    kafka_broker.advance(1)
    register(kafka_schema_registry, "put-back")
    assert subjects(kafka_schema_registry) == ["kept", "put-back"]


def test_that_closes_it(kafka_broker, kafka_schema_registry):
    assert subjects(kafka_schema_registry) == ["kept"]
    kafka_broker.close()


def test_last(kafka_broker, kafka_schema_registry):
    assert subjects(kafka_schema_registry) == ["kept"]
    assert kafka_broker.schema_registry_url == kafka_schema_registry
    assert len(urls) == 1
""",
        encoding="utf-8",
    )
    result = run_pytest(tmp_path, "-q")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_example_passes_in_a_folder_of_its_own(tmp_path):
    folder = shutil.copytree(
        ROOT / "examples/orders_avro", tmp_path / "my orders", ignore=shutil.ignore_patterns("__pycache__")
    )
    result = run_pytest(folder, "-q")
    assert "3 passed" in result.stdout, result.stdout + result.stderr


def test_a_stopped_broker_has_no_registry():
    broker = EmbeddedBroker(schema_registry=True)
    with pytest.raises(EmbeddedBrokerError, match="not started"):
        _ = broker.schema_registry_url
    with broker:
        assert broker.schema_registry_url.startswith("http://127.0.0.1:")
    with pytest.raises(EmbeddedBrokerError, match="closed"):
        _ = broker.schema_registry_url


VALIDATION = {"confluent.value.schema.validation": "true"}


def register(broker, subject):
    request = urllib.request.Request(
        f"{broker.schema_registry_url}/subjects/{subject}/versions", b'{"schema": "\\"int\\""}'
    )
    with urllib.request.urlopen(request) as answer:
        return b"\0" + json.load(answer)["id"].to_bytes(4)


def is_refused(broker, topic, value):
    errors = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error and error.code()))
    assert producer.flush(30) == 0
    return errors == [KafkaError.INVALID_RECORD]


def test_a_topic_that_validates_schemas_refuses_other_ids_in_every_run_of_the_broker():
    with EmbeddedBroker(schema_registry=True) as broker:
        broker.create_topic("t", configs=VALIDATION)
        known, unknown = register(broker, "t-value"), b"\0\0\0\0\7"
        assert not is_refused(broker, "t", known)
        assert is_refused(broker, "t", unknown)
        saved = broker.snapshot()
        broker.reset()
        broker.create_topic("t", configs=VALIDATION)
        assert is_refused(broker, "t", known)
        broker.restore(saved)
        assert not is_refused(broker, "t", known)
        assert is_refused(broker, "t", unknown)
        assert len(broker.records("t")) == 2


def test_a_registry_that_starts_later_validates_too_and_without_one_the_error_names_it():
    with EmbeddedBroker() as broker:
        with pytest.raises(RefusedError, match="in Python and pytest, read its schema_registry_url first"):
            broker.create_topic("t", configs=VALIDATION)
        known = register(broker, "t-value")
        broker.create_topic("t", configs=VALIDATION)
        assert not is_refused(broker, "t", known)
        assert is_refused(broker, "t", b"int")
        with pytest.raises(RefusedError, match="INVALID_RECORD: the value has no schema id"):
            broker.produce("t", "int")


def test_a_broker_with_a_directory_validates_after_a_restart(tmp_path):
    with EmbeddedBroker(data=tmp_path, schema_registry=True) as broker:
        broker.create_topic("t", configs=VALIDATION)
        known = register(broker, "t-value")
    with EmbeddedBroker(data=tmp_path, schema_registry=True) as broker:
        assert not is_refused(broker, "t", known)
        assert is_refused(broker, "t", b"int")


def test_in_a_cluster_the_validation_is_refused():
    with EmbeddedCluster(brokers=2) as cluster:
        register(cluster, "t-value")
        with pytest.raises(
            RefusedError,
            match=r"a cluster cannot .* Use one broker: .* in pytest kafka_broker\)$",
        ):
            cluster.create_topic("t", configs=VALIDATION)
