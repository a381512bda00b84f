"""The errors of the analysis. Every other exception that escapes from it is a bug."""

from __future__ import annotations


class AnalysisError(Exception):
    """The analysis failed. The message is one line that names the file or program and says what to do."""


class TraceError(AnalysisError):
    """A trace is missing, damaged or of another version."""


class SparkError(AnalysisError):
    """Java or Spark did not start, or a Spark job failed."""
