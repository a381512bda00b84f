"""A standalone cluster gives the same summary, to the last digit, as Spark in this process.

`make cluster` runs these tests: four virtual machines and more take a minute of processor time for one report.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analysis.java import find_java
from tests.conftest import LITTLE_TO_READ
from tests.crashes.lengths import AT_LENGTH
from tests.spark_analysis.standalone_cluster import SHORT_LIFE, open_cluster, spark_class

pytestmark = [
    pytest.mark.skipif(not AT_LENGTH, reason="a Spark cluster: make cluster"),
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from spark_analysis.__main__ import main
from spark_analysis.session import spark_session

with spark_session(sys.argv[1]) as spark:
    code = main([sys.argv[2]])
    wanted = ("spark.driver.memory", "spark.executor.memory", "spark.master", "spark.driver.bindAddress")
    print(json.dumps({name: spark.sparkContext.getConf().get(name) for name in wanted}))
sys.exit(code)
"""


@pytest.fixture
def cluster(tmp_path):
    """The master's address; the user's settings are in `conf`."""
    assert spark_class().exists(), "pyspark brings it"
    (tmp_path / "conf").mkdir()
    settings = LITTLE_TO_READ | {
        "spark.executor.memory": "500m",
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": SHORT_LIFE,
        "spark.executor.extraJavaOptions": SHORT_LIFE,
    }
    lines = [f"{name} {value}" for name, value in settings.items()]
    (tmp_path / "conf/spark-defaults.conf").write_text("\n".join(lines))
    (tmp_path / "cluster").mkdir()
    with open_cluster(tmp_path / "cluster", workers=2) as master:
        yield master


def environment(tmp_path):
    found = {**os.environ, "PYTHONPATH": str(SOURCE), "JAVA_HOME": str(find_java())}
    found |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {**found, "SPARK_CONF_DIR": str(tmp_path / "conf")}


def answer_of(command, tmp_path):
    answer = subprocess.run(
        command, capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return answer.stdout


def summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def applications(tmp_path):
    """Return the number of sessions that the master has seen."""
    return (tmp_path / "cluster/master.log").read_text(encoding="utf-8").count("Registered app")


def submit(cluster, directory):
    """Run spark-submit, which starts the JVM, with the script's path, from another folder."""
    program = Path(sys.executable).with_name("spark-submit")
    assert program.exists(), "pyspark brings it"
    return [program, "--master", cluster, SOURCE / "spark_analysis/job.py", directory]


def test_executors_decode_and_compute_under_spark_submit_what_one_process_does(cluster, small, tmp_path):
    there = tmp_path / "there"
    shutil.copytree(small / "raw", there / "raw")
    said = answer_of(submit(cluster, there), tmp_path)
    assert said.endswith(f"report: {there}/report.html\n")
    assert summary(there) == summary(small)
    assert applications(tmp_path) == 1, "the cluster did the work, not a session of its own"


def test_a_session_of_ours_at_a_cluster_does_the_same(cluster, small, tmp_path):
    """Its executors have the memory that the user gave them."""
    there = tmp_path / "there"
    shutil.copytree(small / "raw", there / "raw")
    said = answer_of([sys.executable, "-c", PROGRAM, cluster, there], tmp_path)
    assert summary(there) == summary(small)
    settings = json.loads(said.splitlines()[-1])
    assert settings == {
        "spark.driver.memory": "600m",
        "spark.executor.memory": "500m",
        "spark.master": cluster,
        "spark.driver.bindAddress": None,  # Spark takes SPARK_LOCAL_IP, or the address of the machine
    }
    assert applications(tmp_path) == 1, "the cluster did the work, not a session of its own"


def test_a_whole_experiment_by_module_and_by_spark_submit(cluster, reported, tmp_path):
    experiment = reported.directory
    for name in ("module", "submit"):
        shutil.copytree(experiment / "traces", tmp_path / name / "traces")
    answer_of([sys.executable, "-m", "spark_analysis", tmp_path / "module", "--master", cluster], tmp_path)
    answer_of(submit(cluster, tmp_path / "submit"), tmp_path)
    assert summary(tmp_path / "module") == summary(tmp_path / "submit") == summary(experiment)
    assert applications(tmp_path) == 2, "the cluster did the work, not a session of its own"
