"""Apache Kafka beside our brokers: its settings, and errors if it cannot be started."""

import time

import pytest

from pipeline_broker.measure.experiment.broker_process import ExperimentError, running
from pipeline_broker.measure.experiment.kafka_process import VERSION, KafkaSettings, fetch_jars, free_ports
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from tests.kafka_tools import require_kafka, short_java

LED_SECONDS_MAX = 30.0


def test_kafka_is_one_node_with_default_settings(tmp_path):
    lines = KafkaSettings("kafka", tmp_path).properties(5, 6).splitlines()
    assert "listeners=PLAINTEXT://127.0.0.1:5,CONTROLLER://127.0.0.1:6" in lines
    assert not any(line.startswith("log.flush") for line in lines)


def test_a_further_broker_joins_the_controller_of_the_first(tmp_path):
    lines = KafkaSettings("kafka", tmp_path, node_id=2, controller="127.0.0.1:7").properties(5, 6).splitlines()
    assert {"process.roles=broker", "node.id=2", "listeners=PLAINTEXT://127.0.0.1:5"} <= set(lines)
    assert "controller.quorum.bootstrap.servers=127.0.0.1:7" in lines


def test_kafka_synced_flushes_every_message(tmp_path):
    assert "log.flush.interval.messages=1" in KafkaSettings("kafka", tmp_path, is_synced=True).properties(5, 6)


def test_free_ports_are_different():
    assert len(set(free_ports(5))) == 5


@pytest.mark.parametrize(("present", "missing"), [((), "Java"), (("java",), "Maven")])
def test_a_missing_program_gives_a_one_line_error_with_an_alternative(present, missing, tmp_path, monkeypatch):
    for name in present:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ExperimentError, match=f"{missing}.*--against HOST:PORT") as caught:
        fetch_jars()
    assert "\n" not in str(caught.value)


def test_a_failed_download_leaves_no_files(tmp_path, monkeypatch):
    for name, script in (("java", "#!/bin/sh\n"), ("mvn", "#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n")):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ExperimentError, match="no such artifact"):
        fetch_jars()
    assert list((tmp_path / "cache" / "pipeline-broker").iterdir()) == []


def test_kafka_is_driven_by_the_same_client(tmp_path, monkeypatch):
    require_kafka()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", short_java())
    with running([KafkaSettings("kafka", tmp_path / "data")]) as (kafka,):
        deadline = time.monotonic() + LED_SECONDS_MAX
        while errors_of(run_load(LoadOptions(kafka.host, kafka.port, seconds=0.1, warmup_s=0))) != {0}:
            assert time.monotonic() < deadline, "its topic takes a moment to be led"
        result = run_load(LoadOptions(kafka.host, kafka.port, in_flight=5, seconds=0.2, warmup_s=0.05))
    assert errors_of(result) == {0}, VERSION


def errors_of(result):
    return {row.error for row in result.rows}
