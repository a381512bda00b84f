"""The example of tests with Spark: its Kafka connector reads and writes the broker of the fixtures.

Without that connector (from Maven) or a Java, the test skips with the reason, and fails under REQUIRE_TOOLS=1.
"""

import shutil

import pytest

from spark_analysis.errors import SparkError
from spark_analysis.java import find_java
from spark_analysis.live.connector import connector_jars
from tests.documents import ROOT
from tests.plugin_runs import run_pytest
from tests.required import absent
from tests.short_java import SHORT_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.clients]

# PySpark never closes the socket of a `collect`.
NOT_OURS = ("-W", "ignore::ResourceWarning")


@pytest.fixture
def connector():
    try:
        return find_java(), connector_jars()
    except SparkError as error:
        absent(str(error))


def test_spark_reads_and_writes_in_batches_and_in_streams(connector, tmp_path, monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", SHORT_JAVA)
    shutil.copy(ROOT / "examples/test_with_spark.py", tmp_path)
    result = run_pytest(tmp_path, "-q", *NOT_OURS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout
