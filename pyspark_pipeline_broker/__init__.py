"""A data source for Spark: `spark.read.format("pipeline-broker")` reads topics from the data directory of a broker.

Rules of this room:
* Its name is what makes Spark find it: packages called `pyspark_*` that have a `DefaultSource`.
* It reads by what `pipeline_broker.inspect` has for reading: no broker runs, and nothing of one is loaded that runs.
* Columns, types and options are those of Spark's own Kafka source; docs/spark-source.md lists where they differ.
* Lazy: every Spark session with a Python data source imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_pipeline_broker.source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_pipeline_broker.source import DefaultSource  # noqa: PLC0415 - see the rules

    return DefaultSource
