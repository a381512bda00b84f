"""Analysis of an experiment's traces with Spark, and the report that compares two request paths.

Rules of this package:
* It knows only trace files, and topic records with the same rows (docs/reference/trace-format.md). It imports neither
  `stages` nor `pipeline_broker`.
* Importing it costs nothing: PySpark and PyArrow are imported when a name that needs them is first used.
* Spark does the work that grows with the rows. The rest, a few figures per cell, is plain Python that tests can run
  without Java.
* A problem with the files, Java or Spark is one `AnalysisError` with one line of text. Trace data is never repaired.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_analysis.audit import ordering_audit
    from spark_analysis.errors import TraceError
    from spark_analysis.flow import commit_batches, littles_law, mute_spans
    from spark_analysis.lanes import request_lanes
    from spark_analysis.latency import client_series, end_to_end_latency, latency_by_round
    from spark_analysis.live.stream import stream_stage_latency
    from spark_analysis.live.timelines import request_timelines, topic_records
    from spark_analysis.live.windows import window_stage_latency
    from spark_analysis.quality import trace_quality
    from spark_analysis.run import TraceRun, load_run
    from spark_analysis.series import stage_series
    from spark_analysis.shards import queue_imbalance, shard_latency
    from spark_analysis.stage import stage_latency
    from spark_analysis.store import store_requests
    from spark_analysis.violations import order_violations

__all__ = [
    "TraceError",
    "TraceRun",
    "client_series",
    "commit_batches",
    "end_to_end_latency",
    "latency_by_round",
    "littles_law",
    "load_run",
    "mute_spans",
    "order_violations",
    "ordering_audit",
    "queue_imbalance",
    "request_lanes",
    "request_timelines",
    "shard_latency",
    "stage_latency",
    "stage_series",
    "store_requests",
    "stream_stage_latency",
    "topic_records",
    "trace_quality",
    "window_stage_latency",
]

_MODULES = {
    "TraceError": "spark_analysis.errors",
    "TraceRun": "spark_analysis.run",
    "client_series": "spark_analysis.latency",
    "commit_batches": "spark_analysis.flow",
    "end_to_end_latency": "spark_analysis.latency",
    "latency_by_round": "spark_analysis.latency",
    "littles_law": "spark_analysis.flow",
    "load_run": "spark_analysis.run",
    "mute_spans": "spark_analysis.flow",
    "order_violations": "spark_analysis.violations",
    "ordering_audit": "spark_analysis.audit",
    "queue_imbalance": "spark_analysis.shards",
    "request_lanes": "spark_analysis.lanes",
    "request_timelines": "spark_analysis.live.timelines",
    "shard_latency": "spark_analysis.shards",
    "stage_latency": "spark_analysis.stage",
    "stage_series": "spark_analysis.series",
    "store_requests": "spark_analysis.store",
    "stream_stage_latency": "spark_analysis.live.stream",
    "topic_records": "spark_analysis.live.timelines",
    "trace_quality": "spark_analysis.quality",
    "window_stage_latency": "spark_analysis.live.windows",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
