"""The Spark session of an analysis.

The JVM writes to a temporary file instead of the terminal; if it fails, the reason is taken from that file. The user's
settings win (`user_settings`, and everything under `spark-submit`, which has started the JVM); the settings here fill
the gaps. Settings of a session in this process, such as the loopback address, are only for local masters: executors
elsewhere must reach the driver. Workers need PyArrow to decode raw traces, but not this package.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_analysis.errors import SparkError
from spark_analysis.java import find_java
from spark_analysis.user_settings import has_java_options, user_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STOP_SECONDS_MAX: Final = 10
_NO_SETTINGS: Final[Mapping[str, str]] = {}
_LOG_TAIL_BYTES: Final = 64 << 10
_SETTINGS: Final = {
    "spark.app.name": "pipeline-broker report",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    # A table has a folder per run. The driver lists hundreds of folders faster than a job for that would start.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Otherwise PySpark sends the Python line of each expression to the JVM, a thousand times per report.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # With a few million rows, more partitions than cores only add tasks of milliseconds.
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
}
# PySpark looks up these classes in the JVM for each expression. A short name makes it search all jars.
_OFTEN_NAMED: Final = ("functions", "PythonUtils", "org.apache.spark.sql.functions")
_JAVA_OPTIONS: Final = "-XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC"
# Queries that read little are faster without the optimising compiler (measured: 11 s instead of 13 s). Without it Java
# reserves only 48 MB for code, which many reports in one session, or a long live job, would fill; so the size of the
# code cache is set above.
_NO_OPTIMISING: Final = "-XX:TieredStopAtLevel=1"
# Size of the files up to which the compiler is off. With 200 MB of Parquet it saves a third to two thirds of the time
# of the heavy jobs.
_LITTLE_BYTES_MAX: Final = 64 << 20


def under_spark_submit() -> bool:
    """Return whether spark-submit has started this process and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextlib.contextmanager
def spark_session(
    master: str | None = None, settings: Mapping[str, str] = _NO_SETTINGS, *, input_bytes: int | None = 0
) -> Iterator[SparkSession]:
    """Yield a session that ends, with its JVM, at the end of the block. An active session is used and left running.

    The arguments have no effect on an active session or under spark-submit.

    Args:
        master: the Spark master; by default that of spark-submit or `spark-defaults.conf`, else `local[*]`.
        settings: settings of a new session, which override those of this module and the user's.
        input_bytes: approximate size of the input; None for a large one.

    Raises:
        SparkError: Java is missing, Spark does not start, or a job inside the block fails.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs each call that fails while a JVM ends
    failures: tuple[type[Exception], ...] = (PySparkException, *_java_errors())
    with tempfile.TemporaryDirectory(prefix="spark-analysis-") as scratch:
        if active := SparkSession.getActiveSession():
            spark, close = active, _keep_running
        elif under_spark_submit():
            spark = SparkSession.builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            close = spark.stop
        else:
            spark, close = _start(effective_settings(master, scratch, settings, input_bytes=input_bytes), scratch)
        try:
            yield spark
        except failures as error:
            raise SparkError(f"a Spark job failed: {one_line(str(error))}") from error
        finally:
            # An error of closing must not hide the error of the block.
            with contextlib.suppress(*_java_errors(), OSError):
                close()


def _keep_running() -> None:
    """Do not close an active session: it belongs to the caller."""


def _java_errors() -> tuple[type[Exception], ...]:
    error: type[Exception] = import_module("py4j.protocol").Py4JError  # comes with PySpark
    return (error,)


def effective_settings(
    master: str | None,
    scratch: str,
    more: Mapping[str, str] = _NO_SETTINGS,
    environment: Mapping[str, str] = os.environ,
    *,
    input_bytes: int | None = 0,
) -> dict[str, str]:
    """Return the settings for a new session, except those that the user has set.

    Args:
        master: the Spark master; None for the user's, else `local[*]`.
        scratch: a local folder for Spark's spilled data.
        more: settings that override all others except the master.
        environment: supplies the user's settings.
        input_bytes: see `spark_session`.
    """
    users = user_settings(environment)
    master = master or users.get("spark.master") or "local[*]"
    java = [_log_option()]
    if not has_java_options(users, environment):
        is_little = input_bytes is not None and input_bytes <= _LITTLE_BYTES_MAX
        java += [_JAVA_OPTIONS, *([_NO_OPTIMISING] if is_little else [])]
    ours = {**_SETTINGS, "spark.driver.defaultJavaOptions": " ".join(java)}
    if is_local(master):
        warehouse = f"{scratch}/warehouse"
        ours |= {**_LOCAL_SETTINGS, "spark.local.dir": scratch, "spark.sql.warehouse.dir": warehouse}
    return {**{name: value for name, value in ours.items() if name not in users}, **more, "spark.master": master}


def is_local(master: str) -> bool:
    """Return whether Spark runs on this machine only: `local[2]`, and also `local-cluster`."""
    return master.startswith("local")


def _start(settings: Mapping[str, str], scratch: str) -> tuple[SparkSession, Any]:
    os.environ["JAVA_HOME"] = str(find_java())
    if is_local(settings["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Java resolves this machine's name
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages of this process
    # `loadDefaults` would start a JVM of its own.
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    log_path = Path(scratch) / "spark.log"
    with log_path.open("wb") as log:
        gateway: Any = None
        failures: tuple[type[Exception], ...] = (PySparkException, OSError, *_java_errors())
        try:
            gateway = import_module("pyspark.java_gateway").launch_gateway(conf, {"stdout": log, "stderr": log})
            context = SparkContext(gateway=gateway)  # with the settings that spark-submit has read
        except failures as error:
            if gateway is not None:
                _end_jvm(gateway)
            raise SparkError(f"Spark does not start: {_reason(log_path, error)}") from None
    context.setLogLevel("ERROR")
    for name in _OFTEN_NAMED:
        setattr(context._jvm, name, getattr(context._jvm, name))  # noqa: SLF001 - no public way
    spark = SparkSession(context)

    def close() -> None:
        spark.stop()
        _end_jvm(gateway)

    return spark, close


def _log_option() -> str:
    # As a URI, because Spark splits Java's options at blanks.
    return f"-Dlog4j2.configurationFile={Path(str(files('spark_analysis') / 'log4j2.properties')).as_uri()}"


def _end_jvm(gateway: Any) -> None:
    # The JVM runs as long as its standard input is open.
    with contextlib.suppress(OSError, *_java_errors()):
        gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001 - otherwise the next session would use the ended JVM
    SparkContext._jvm = None  # noqa: SLF001 - see above
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(log_path: Path, error: Exception) -> str:
    """Return the most useful line of the JVM's output: an exception, else the first line about an error."""
    with log_path.open("rb") as log:
        text = log.read(_LOG_TAIL_BYTES).decode(errors="replace")
    written = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in written if line != "Error occurred during initialization of VM"]  # the next line names it
    exceptions = [
        match[1] for line in lines if (match := re.search(r"\b(?:\w+\.)+\w*(?:Exception|Error): (.*\S)", line))
    ]
    telling = [line for line in lines if re.search(r"error|exception|unable|could not|not found", line, re.IGNORECASE)]
    return one_line((exceptions or telling or lines or [str(error)])[0])


def one_line(text: str, length_max: int = 300) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return line if len(line) <= length_max else line[: length_max - 3] + "..."
