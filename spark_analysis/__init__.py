"""Reads the traces of an experiment with Spark and writes the report.

Rules of this room:
* It knows trace files only (docs/trace-format.md): it imports neither `stages` nor `pipeline_broker`.
* Importing it costs nothing: PySpark and PyArrow are imported when a name that needs them is first used.
* Spark does what grows with the rows; what is left (a few figures per cell) is plain Python, testable without Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_analysis.audit import ordering_audit
    from spark_analysis.errors import TraceError
    from spark_analysis.run import TraceRun, load_run
    from spark_analysis.stage import stage_latency

__all__ = ["TraceError", "TraceRun", "load_run", "ordering_audit", "stage_latency"]

_HOMES = {
    "TraceError": "spark_analysis.errors",
    "TraceRun": "spark_analysis.run",
    "load_run": "spark_analysis.run",
    "ordering_audit": "spark_analysis.audit",
    "stage_latency": "spark_analysis.stage",
}


def __getattr__(name: str) -> Any:
    """Import the home of a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
