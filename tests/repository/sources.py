"""The source files that the rules of the repository are about."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipeline_broker", "pipeline_charts", "pyspark_pipeline_broker", "spark_analysis", "stages")


def source_files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
