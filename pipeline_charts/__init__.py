"""uPlot 1.6.32, which draws the charts of the dashboard and of the report, unchanged.

The two share these files and nothing else, so they are a package of their own. They are those of the npm registry
(`npm pack uplot@1.6.32`); a test compares them with the checksums there.
"""

from importlib import resources

__all__ = ["FILES", "SCRIPT", "STYLE", "read_chart_file"]

SCRIPT, STYLE = "uPlot.iife.min.js", "uPlot.min.css"
FILES = (SCRIPT, STYLE, "uPlot.LICENSE.txt")


def read_chart_file(name: str) -> bytes:
    """Return the content of one of `FILES`."""
    return (resources.files("pipeline_charts") / name).read_bytes()
