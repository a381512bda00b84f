"""Spark reads back the rows that it wrote to a broker; transactional streams write them once, whenever the driver
dies.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from pyspark_pipeline_broker.source import FORMAT
from spark_analysis.java import find_java
from tests.crashes.lengths import AT_LENGTH
from tests.documents import blocks_run_by
from tests.pyspark_pipeline_broker.bare_process import output_of
from tests.short_java import SHORT_JAVA

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

ROOT = Path(__file__).parents[3]
STREAM_SECONDS = 60
KILLS = 12 if AT_LENGTH else 1
ROWS, FILES = 40, 10
"""In a file, and files: a batch of the stream reads one."""
COPIER = """
import sys
from pyspark.sql import SparkSession

source, servers, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
rows = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", "1").json(source).repartition(2)
sink = rows.writeStream.format("pipeline-broker").option("kafka.bootstrap.servers", servers).option("topic", "copy")
sink = sink.option("transactional.id", "copier").option("checkpointLocation", checkpoint)
query = sink.trigger(availableNow=True).start()
query.awaitTermination()
"""


@pytest.fixture
def broker(broker_process):
    return broker_process(settings=("num.partitions=2",))


def written(frame, broker, **options):
    sink = frame.write.format(FORMAT).mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    return sink.options(**options).save()


def rows_of(spark, broker, topic):
    read = spark.read.format(FORMAT).options(subscribe=topic, includeHeaders="true").load(str(broker.data))
    return read.selectExpr("*", "CAST(value AS STRING) text")


def test_a_batch_is_written_by_its_columns(spark, broker):
    columns = ["'t' || (id % 2) topic", "CAST(id AS STRING) value", "CAST(id % 2 AS INT) partition"]
    columns += [
        "IF(id = 0, NULL, CAST('k' AS BINARY)) key",
        "array(struct('h' AS key, CAST('v' AS BINARY) AS value)) headers",
    ]
    written(spark.range(1000).selectExpr(*columns), broker, **{"kafka.compression.type": "lz4"})
    for number in (0, 1):
        found = rows_of(spark, broker, f"t{number}").orderBy(f.col("text").cast("int")).collect()
        assert [int(row.text) for row in found] == list(range(number, 1000, 2))
        assert {row.partition for row in found} == {number}
        assert [row.key for row in found[1:]] == [b"k"] * 499
        assert found[0].key == (b"k" if number else None)
        assert {(header.key, bytes(header.value)) for row in found for header in row.headers} == {("h", b"v")}


def test_the_program_of_the_document_writes_in_an_environment_without_settings(spark, broker, tmp_path):
    (block,) = blocks_run_by("tests/pyspark_pipeline_broker/sink/test_sink_in_spark.py")
    output_of(block.text.replace("localhost:9092", broker.bootstrap), tmp_path)
    assert sorted(int(row.text) for row in rows_of(spark, broker, "orders").collect()) == list(range(0, 20, 2))


def test_a_wrong_write_is_refused_in_one_line(spark, broker):
    rows = spark.range(1).selectExpr("CAST(id AS STRING) value")
    for frame, options, reason in (
        (rows, {}, "the rows have no topic. Set the option topic"),
        (spark.range(1), {"topic": "t"}, "the rows lack the column value; they have id"),
        (rows, {"topic": "t", "lingerms": "1"}, "unknown option lingerms of a write"),
        (
            rows.selectExpr("value", "7 AS partition"),
            {"topic": "t"},
            "topic t has no partition 7: its partitions are 0 to 1",
        ),
        (rows.selectExpr("value", "CAST(NULL AS STRING) topic"), {}, "a row has no topic"),
    ):
        with pytest.raises(PySparkException, match=reason):
            written(frame, broker, **options)
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        rows.write.format(FORMAT).mode("overwrite").options(topic="t", **{"kafka.bootstrap.servers": "x"}).save()


@pytest.mark.parametrize("options", [{}, {"transactional.id": "tx"}], ids=["at least once", "exactly once"])
def test_a_stream_is_written_batch_by_batch_and_resumes_where_it_stopped(spark, broker, tmp_path, options):
    source = tmp_path / "source"

    def run():
        rows = spark.readStream.schema("value STRING").json(str(source)).repartition(3)
        sink = rows.writeStream.format(FORMAT).option("kafka.bootstrap.servers", broker.bootstrap)
        sink = sink.options(topic="s", checkpointLocation=str(tmp_path / "checkpoint"), **options)
        assert sink.trigger(availableNow=True).start().awaitTermination(STREAM_SECONDS)

    for start in (0, 100):
        spark.range(start, start + 100).selectExpr("CAST(id AS STRING) value").write.mode("append").json(str(source))
        run()
    found = rows_of(spark, broker, "s").collect()
    assert sorted(int(row.text) for row in found) == list(range(200))


@pytest.mark.timeout(120 * (KILLS + 2))
def test_a_driver_that_is_killed_at_any_time_leaves_each_row_once(spark, broker, tmp_path):
    values = spark.range(ROWS * FILES).selectExpr("CAST(id AS STRING) value")
    values.repartition(FILES).write.json(str(tmp_path / "source"))
    program = [sys.executable, "-c", COPIER, tmp_path / "source", broker.bootstrap, tmp_path / "checkpoint"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths())}
    environment |= {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": SHORT_JAVA}
    log = tmp_path / "log"

    def start():
        with log.open("ab") as output:
            return subprocess.Popen(
                program, env=environment, cwd=tmp_path, stdout=output, stderr=output, start_new_session=True
            )

    for _ in range(KILLS):
        driver = start()
        target = len(committed(tmp_path)) + random.randrange(1, 4)
        while driver.poll() is None and len(committed(tmp_path)) < target:
            time.sleep(0.02)
        time.sleep(random.uniform(0.0, 0.3))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert start().wait() == 0, log.read_text()[-3000:]
    found = rows_of(spark, broker, "copy").collect()
    assert sorted(int(row.text) for row in found) == list(range(ROWS * FILES))


def committed(directory):
    """Return the batches whose commit Spark has recorded."""
    return list((directory / "checkpoint" / "commits").glob("[0-9]*"))


def paths():
    """Return Python's first import paths: the tested PySpark if it is another one, then this repository."""
    return [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT)]
