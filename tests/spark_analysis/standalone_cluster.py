"""A standalone Spark cluster of a master and workers on 127.0.0.1, started as the page of the trace format shows."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from spark_analysis.java import find_java
from tests.short_java import SHORT_JAVA

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 20.0
SHORT_LIFE = f"{SHORT_JAVA} -XX:+UseSerialGC"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


def spark_class() -> Path:
    return Path(sys.executable).with_name("spark-class")


def wait_for(log: Path, pattern: str, processes) -> re.Match:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert all(process.poll() is None for process in processes), log.read_text(encoding="utf-8")
        if found := re.search(pattern, log.read_text(encoding="utf-8")):
            return found
        time.sleep(0.1)  # the only sign of readiness is a line in the log
    raise AssertionError(f"no {pattern} in {log}:\n{log.read_text(encoding='utf-8')[-2000:]}")


@contextlib.contextmanager
def open_cluster(folder: Path, workers: int):
    """Start master and workers on free ports; yield the address of the master, and end all of them afterwards."""
    environment = {**os.environ, "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIFE,
    }
    environment["PYSPARK_PYTHON"] = sys.executable  # by which spark-class finds Spark
    processes = []

    def start(name, *arguments):
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            command = [spark_class(), *arguments]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
        processes.append(process)
        return log

    try:
        log = start("master", MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = wait_for(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", processes).group(1)
        place = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        logs = [start(f"worker-{number}", WORKER, *place, address) for number in range(workers)]
        for log in logs:
            wait_for(log, "Successfully registered with master", processes)
        yield address
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
