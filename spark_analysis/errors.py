"""The one error of this room.

Rules: whatever is wrong with the files, with Java or with Spark becomes one `AnalysisError`, whose text is one line
that names the file or the program and says what to do. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations


class AnalysisError(Exception):
    """The analysis cannot be done; the text is one line for the person at the terminal."""


class TraceError(AnalysisError):
    """A trace is missing, damaged or of another version."""


class SparkError(AnalysisError):
    """Java or Spark cannot be started, or a Spark job failed."""
