"""Spark's Kafka connector.

Rules: its jars are of Spark's own version (another one is a NoClassDefFoundError in the middle of a job), and complete:
the connector, its provider of tokens, Kafka's client and a pool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from spark_analysis.jars import Jar, fetched_jars

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALA: Final = "2.13"
_CLIENT_VERSION: Final = "3.9.0"
_POOL_VERSION: Final = "2.12.0"


def connector_jars(environment: Mapping[str, str] = os.environ) -> str:
    """The jars as `spark.jars` takes them; see `fetched_jars`."""
    from pyspark.version import __version__ as spark_version  # noqa: PLC0415 - an optional package

    wanted = (
        Jar("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", spark_version),
        Jar("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", spark_version),
        Jar("org.apache.kafka", "kafka-clients", _CLIENT_VERSION),
        Jar("org.apache.commons", "commons-pool2", _POOL_VERSION),
    )
    return fetched_jars(f"spark-kafka-{spark_version}", "Spark's Kafka connector", wanted, environment)
