"""A Spark data source and sink: `format("pipeline-broker")` reads a broker's data directory and writes to its topics.

Rules of this package:
* Spark searches for packages named `pyspark_*` with a `DefaultSource`, so the name must stay.
* Reading uses `pipeline_broker.inspect` only and loads no running broker. Writing is in `sink`, with the client.
* Columns, types and options are those of Spark's Kafka source; docs/guides/spark-source.md lists the differences.
* Imports are lazy, because every Spark session with a Python data source imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_pipeline_broker.source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_pipeline_broker.source import DefaultSource  # noqa: PLC0415 - every Spark session imports this package

    return DefaultSource
