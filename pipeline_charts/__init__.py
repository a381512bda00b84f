"""The unmodified files of uPlot 1.6.32, the chart library of the dashboard and the report.

This is a package of its own because the dashboard and the report share nothing else. The files are those of the npm
registry (`npm pack uplot@1.6.32`); a test compares their checksums.
"""

from importlib import resources

__all__ = ["FILES", "SCRIPT", "STYLE", "read_chart_file"]

SCRIPT, STYLE = "uPlot.iife.min.js", "uPlot.min.css"
FILES = (SCRIPT, STYLE, "uPlot.LICENSE.txt")


def read_chart_file(name: str) -> bytes:
    return (resources.files("pipeline_charts") / name).read_bytes()
