"""Spark's Kafka connector: where its jars are, or how they come.

Rules: they are of Spark's own version (another one is a NoClassDefFoundError in the middle of a job), and complete: the
connector, its provider of tokens, Kafka's client and a pool. They come by Maven, which follows the mirrors that it is
told of, once, into the user's cache: all of them or none. What is missing is one line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_analysis.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Mapping

FETCH_SECONDS_MAX: Final = 600
_SCALA: Final = "2.13"
_CLIENT_VERSION: Final = "3.9.0"
_POOL_VERSION: Final = "2.12.0"


def connector_jars(environment: Mapping[str, str] = os.environ) -> str:
    """The jars as `spark.jars` takes them.

    Args:
        environment: where PATH, HOME and XDG_CACHE_HOME are looked up.

    Raises:
        SparkError: they are not in the cache, and Maven is missing or could not get them.
    """
    from pyspark.version import __version__ as spark_version  # noqa: PLC0415 - an optional package

    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment["HOME"]) / ".cache") / "pipeline-broker"
    jars = cache / f"spark-kafka-{spark_version}"
    if not jars.is_dir():
        _fetch(jars, spark_version, environment)
    return ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def _fetch(jars: Path, spark_version: str, environment: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environment.get("PATH", ""))
    if maven is None:
        raise SparkError("Spark's Kafka connector comes by Maven: install the Debian package maven, or put mvn on PATH")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=jars.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_project(spark_version), encoding="utf-8")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own Maven
                command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False, env=dict(environment)
            )
        except subprocess.TimeoutExpired:
            raise SparkError(f"Maven did not get Spark's Kafka connector within {FETCH_SECONDS_MAX} s") from None
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise SparkError(f"Maven could not get Spark's Kafka connector: {lines[0] if lines else done.returncode}")
        with contextlib.suppress(OSError):  # somebody else was as fast
            (Path(work) / "jars").rename(jars)


def _project(spark_version: str) -> str:
    """A project with the jars alone: Spark's own names further repositories, which need not be reachable."""
    wanted = (
        ("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", spark_version),
        ("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", spark_version),
        ("org.apache.kafka", "kafka-clients", _CLIENT_VERSION),
        ("org.apache.commons", "commons-pool2", _POOL_VERSION),
    )
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{alone}</dependency>"
        for group, artifact, version in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>connector</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
