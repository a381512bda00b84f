"""Traces and results may be in an object store, with the same content as in a local folder.

The session of all tests gets the connector while it runs. At length (AT_LENGTH=1) a separate process finds it, and the
settings of the store, in a user's spark-defaults.conf.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analysis.__main__ import main
from spark_analysis.errors import SparkError
from spark_analysis.java import find_java
from tests.crashes.lengths import AT_LENGTH
from tests.required import absent
from tests.spark_analysis.s3_server import get, open_s3_server, put, s3a_jars, settings

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
SOURCE = Path(__file__).resolve().parents[2]
ADDRESS = "s3a://traces/out/"
DONE = "report: s3a://traces/out/report.html\n"


@pytest.fixture
def jars():
    try:
        return s3a_jars()
    except SparkError as error:
        absent(str(error))


@pytest.fixture
def store(jars, small):
    """The address of a server with the raw traces."""
    assert jars
    with open_s3_server() as address:
        put(address, "traces")
        for path in sorted((small / "raw").rglob("*")):
            if path.is_file():
                put(address, f"traces/out/{path.relative_to(small)}", path.read_bytes())
        yield address


def check(address, small):
    there = json.loads(get(address, "traces/out/summary.json"))
    assert get(address, "traces/out/report.html").startswith(b"<!doctype html>")
    listed = get(address, "traces?list-type=2&prefix=out/traces/client/").decode()
    assert "out/traces/client/run=1/part-" in listed
    assert "out/traces/client/run=2/part-" in listed
    assert there == json.loads((small / "summary.json").read_text(encoding="utf-8"))


def test_raw_traces_in_an_object_store_are_analysed_there(spark, jars, store, small, capsys):
    machine, hadoop = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    classes = machine.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars.split(","):
        classes.addURL(machine.java.io.File(jar).toURI().toURL())
    for name, value in settings(store).items():
        if name != "spark.jars":
            hadoop.set(name.removeprefix("spark.hadoop."), value)
    assert main([ADDRESS]) == 0
    assert capsys.readouterr().out.endswith(DONE)
    check(store, small)


@pytest.mark.skipif(not AT_LENGTH, reason="another start of Spark: AT_LENGTH=1")
def test_the_settings_of_the_store_come_from_the_users_file(store, small, tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    lines = "".join(f"{name} {value}\n" for name, value in settings(store).items())
    (conf / "spark-defaults.conf").write_text(lines, encoding="utf-8")
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYTHONPATH": str(SOURCE)}
    environment["JAVA_HOME"] = str(find_java())
    command = [sys.executable, "-m", "spark_analysis", ADDRESS, "--master", "local[2]"]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.endswith(DONE)
    check(store, small)
