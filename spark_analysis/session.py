"""Starts and ends the one Spark session of a run.

Rules: on a terminal there is no line of Spark's own; what the JVM writes goes to a temporary file, from which the
reason is taken when it fails. Under `spark-submit` the JVM exists already and its master and settings are the user's:
nothing is overridden. No Python worker is ever needed (there are no Python functions in the queries), so a cluster
needs no package of ours.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import tempfile
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_analysis.errors import SparkError
from spark_analysis.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_STOP_SECONDS_MAX: Final = 10
_PARTITION_BYTES: Final = 8 << 20  # of compressed Parquet: some hundred thousand rows, sorted in memory by one task
_PARTITIONS_MAX: Final = 2000
_NO_SETTINGS: Final[Mapping[str, str]] = {}
_LOG_TAIL_BYTES: Final = 64 << 10
_LOCAL_SETTINGS: Final = {
    "spark.app.name": "pipeline-broker report",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # A few million rows: more partitions than cores only add tasks of milliseconds.
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.sql.session.timeZone": "UTC",
    # The queries are few and each runs once: the optimising compiler costs more than it saves (measured: 13 s, not 11).
    # Without it Java reserves 48 MB for code, which a session of many reports, or a long live one, fills and fails.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC",
}


def under_spark_submit() -> bool:
    """Whether spark-submit has started this process and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextlib.contextmanager
def spark_session(master: str | None = None, settings: Mapping[str, str] = _NO_SETTINGS) -> Iterator[SparkSession]:
    """A session that ends, with its JVM, at the end of the block; one that is active already is used and left alone.

    Args:
        master: where to run; `local[*]` unless given. Under spark-submit the master is the one given there.
        settings: of a session that is started here, over those of this file.

    Raises:
        SparkError: PySpark or Java is missing, Spark does not start, or a job inside the block fails.
    """
    try:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional package, and 0.3 s to import
        from pyspark.sql import SparkSession as Session  # noqa: PLC0415 - see above
    except ImportError as error:
        raise SparkError(f"{error}; install the extra 'spark' (pip install 'pipeline-broker[spark]')") from None
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs each call that fails while a JVM goes away
    failures: tuple[type[Exception], ...] = (PySparkException, *_java_errors())
    with tempfile.TemporaryDirectory(prefix="spark-analysis-") as scratch:
        if active := Session.getActiveSession():
            spark, close = active, _leave
        elif under_spark_submit():
            spark = Session.builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            close = spark.stop
        else:
            spark, close = _start(master or "local[*]", scratch, settings)
        try:
            yield spark
        except failures as error:
            raise SparkError(f"a Spark job failed: {one_line(str(error))}") from error
        finally:
            with contextlib.suppress(*_java_errors(), OSError):
                close()


def spread(spark: SparkSession, traces: Path) -> None:
    """Make a shuffle as wide as the traces are large; never narrower than it was set.

    Args:
        spark: the session, whose number of shuffle partitions is raised.
        traces: the folder of the Parquet tables.
    """
    size = sum(path.stat().st_size for path in traces.glob("*/*.parquet"))
    wanted = min(_PARTITIONS_MAX, size // _PARTITION_BYTES)
    name = "spark.sql.shuffle.partitions"
    if wanted > int(spark.conf.get(name) or 0):
        spark.conf.set(name, str(wanted))


def _leave() -> None:
    """Leave a session of somebody else as it is."""


def _java_errors() -> tuple[type[Exception], ...]:
    error: type[Exception] = import_module("py4j.protocol").Py4JError  # comes with PySpark
    return (error,)


def _start(master: str, scratch: str, more: Mapping[str, str]) -> tuple[SparkSession, Any]:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see spark_session
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see spark_session
    from pyspark.sql import SparkSession as Session  # noqa: PLC0415 - see spark_session

    os.environ["JAVA_HOME"] = str(find_java())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns about the name of this machine
    settings = {**_LOCAL_SETTINGS, **more, "spark.master": master, "spark.local.dir": scratch}
    settings["spark.sql.warehouse.dir"] = os.path.join(scratch, "warehouse")  # noqa: PTH118 - Spark wants text
    settings["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={_log_settings()}"
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    log_path = os.path.join(scratch, "spark.log")  # noqa: PTH118 - see above
    with open(log_path, "wb") as log:  # noqa: PTH123 - see above
        gateway: Any = None
        failures: tuple[type[Exception], ...] = (PySparkException, OSError, *_java_errors())
        try:
            gateway = import_module("pyspark.java_gateway").launch_gateway(
                conf, {"stdout": log, "stderr": log, "cwd": scratch}
            )
            context = SparkContext(gateway=gateway, conf=conf)
        except failures as error:
            if gateway is not None:
                _end_jvm(gateway)
            raise SparkError(f"Spark does not start: {_reason(log_path, error)}") from None
    context.setLogLevel("ERROR")
    spark = Session(context)

    def close() -> None:
        spark.stop()
        _end_jvm(gateway)

    return spark, close


def _log_settings() -> str:
    """The address of the file, without a blank: Spark splits the options of Java at each of them."""
    return Path(str(files("spark_analysis") / "log4j2.properties")).as_uri()


def _end_jvm(gateway: Any) -> None:
    """End the JVM: it lives as long as its standard input is open."""
    from pyspark import SparkContext  # noqa: PLC0415 - see spark_session

    with contextlib.suppress(OSError, *_java_errors()):
        gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001 - otherwise the next session would talk to a JVM that is gone
    SparkContext._jvm = None  # noqa: SLF001 - see above
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(log_path: str, error: Exception) -> str:
    """The line of the JVM's output that tells most: the first that speaks of an error, else the last."""
    with open(log_path, "rb") as log:  # noqa: PTH123 - see _start
        text = log.read(_LOG_TAIL_BYTES).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    telling = [line for line in lines if re.search(r"error|exception|unable|could not|not found", line, re.IGNORECASE)]
    return one_line((telling or lines or [str(error)])[0])


def one_line(text: str, length_max: int = 300) -> str:
    """The first line with something in it, cut to a readable length."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return line if len(line) <= length_max else line[: length_max - 3] + "..."
