"""A standalone cluster gives the same summary, to the last digit, as Spark in this process does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analysis.__main__ import main
from spark_analysis.java import find_java
from tests.spark_analysis.standalone_cluster import open_cluster, spark_class

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.environ.get("AT_LENGTH") != "1", reason="three more JVMs for a minute: make cluster"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark leaves them to the collector
]
SOURCE = Path(__file__).resolve().parents[2]


def test_master_and_two_workers_give_what_one_process_gives(experiment, spark, tmp_path):
    assert spark is not None
    assert spark_class().exists(), "pyspark brings it"
    assert main([str(experiment)]) == 0
    here = json.loads((experiment / "summary.json").read_text(encoding="utf-8"))
    for name in ("module", "submit"):
        shutil.copytree(experiment / "traces", tmp_path / name / "traces")
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment["JAVA_HOME"] = str(find_java())
    (tmp_path / "cluster").mkdir()
    with open_cluster(tmp_path / "cluster") as master:
        submit = [Path(sys.executable).with_name("spark-submit"), "--master", master, SOURCE / "spark_analysis/job.py"]
        for name, command in (
            ("module", [sys.executable, "-m", "spark_analysis", tmp_path / "module", "--master", master]),
            ("submit", [*submit, tmp_path / "submit"]),
        ):
            answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
            assert answer.returncode == 0, answer.stderr[-2000:]
            assert json.loads((tmp_path / name / "summary.json").read_text(encoding="utf-8")) == here
    finished = (tmp_path / "cluster/master.log").read_text(encoding="utf-8").count("Registered app")
    assert finished == 2, "the cluster did the work, not a session of its own"
