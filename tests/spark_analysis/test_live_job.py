"""The job of the guide of live stages on a real broker; AT_LENGTH=1 kills and restarts it in the middle.

It needs Spark's Kafka connector from Maven. Without Maven, or without a network and a cache, the test skips with the
reason, and fails under REQUIRE_TOOLS=1.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.node.admin_socket import ask
from pipeline_broker.node.timelines import PUBLISH_SECONDS
from spark_analysis.errors import SparkError
from spark_analysis.live.connector import connector_jars
from tests.required import absent
from tests.short_java import SHORT_JAVA

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
WAIT_SECONDS = 240.0


@pytest.fixture
def connector():
    try:
        return connector_jars()
    except SparkError as error:
        absent(str(error))


def start(broker, directory, log, *options):
    command = [sys.executable, "-m", "spark_analysis.live", broker.bootstrap, str(directory), *options]
    with log.open("ab") as output:
        temporary = str(log.parent)  # the files of a killed job are deleted with the test
        environment = {**os.environ, "JDK_JAVA_OPTIONS": SHORT_JAVA, "TMPDIR": temporary}
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment)


def total(directory):
    """Return the Produce requests in all windows. The job may replace windows during this read."""
    with contextlib.suppress(FileNotFoundError):
        windows = pq.ParquetDataset(directory / "windows")
        if windows.files:
            rows = windows.read(columns=["requests", "stage"]).to_pylist()
            return sum(row["requests"] for row in rows if row["stage"] == "Total")
    return 0


def load(broker, seconds):
    """Produce for some seconds and return the number of answered requests."""
    result = run_load(LoadOptions(broker.host, broker.port, in_flight=5, connections=2, seconds=seconds, warmup_s=0))
    assert {row.error for row in result.rows} == {0}
    return len(result.rows)


def test_a_job_reads_all_partitions_of_a_broker_and_prints_its_windows(connector, broker_process, tmp_path):
    broker = broker_process(settings=["pipeline.timelines=true", "pipeline.queues=4"])
    directory, log = tmp_path / "out", tmp_path / "job.log"
    answered = 0
    for _ in range(6):  # a publication a time, each to the next partition
        answered += load(broker, 0.1)
        time.sleep(PUBLISH_SECONDS)
    ask(broker.data, "timelines off")
    assert start(broker, directory, log, "--once").wait(WAIT_SECONDS) == 0, log.read_text(encoding="utf-8")
    assert total(directory) == answered
    assert any("pipelined" in line for line in log.read_text(encoding="utf-8").splitlines())


@pytest.mark.skipif(os.environ.get("AT_LENGTH") != "1", reason="three starts of Spark: make live-kill")
def test_a_job_that_is_killed_twice_counts_each_request_once(connector, broker_process, tmp_path):
    broker = broker_process(settings=["pipeline.timelines=true"])
    directory, log = tmp_path / "out", tmp_path / "job.log"
    answered = load(broker, 0.5)
    for _ in range(2):
        before = total(directory) if directory.exists() else 0
        job = start(broker, directory, log)
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while (total(directory) if directory.exists() else 0) == before:
                assert job.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                answered += load(broker, 0.2)
        finally:
            job.kill()
            job.wait()
    answered += load(broker, 0.2)
    ask(broker.data, "timelines off")
    assert start(broker, directory, log, "--once", "--late", "10").wait(WAIT_SECONDS) == 0, log.read_text(
        encoding="utf-8"
    )
    assert total(directory) == answered
    lines = log.read_text(encoding="utf-8").splitlines()
    assert any("pipelined" in line for line in lines)
    assert json.loads((directory / "live.json").read_text())["window_seconds"] == 10
