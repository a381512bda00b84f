"""The schema registry in a test process: the guide's test, the fixture and the example."""

import shutil
from pathlib import Path

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
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
