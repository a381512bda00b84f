"""The jars of Spark's Kafka connector, in the version of the installed Spark.

With another version, a job fails with NoClassDefFoundError. Maven resolves the versions of Kafka's client and of its
object pool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pyspark.version import __version__ as spark_version

from spark_analysis.jars import Jar, fetched_jars

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALA: Final = "2.13"
_IN_SPARK: Final = (
    "com.google.code.findbugs",
    "com.github.luben",
    "org.apache.hadoop",
    "org.lz4",
    "at.yawk.lz4",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.xerial.snappy",
)
"""Dependencies that Spark itself contains."""


def connector_jars(environment: Mapping[str, str] = os.environ) -> str:
    wanted = Jar("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", spark_version, _IN_SPARK)
    return fetched_jars(f"spark-kafka-{spark_version}", "Spark's Kafka connector", (wanted,), environment)
