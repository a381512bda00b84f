"""The data source in a Spark session: found by name, read in parallel, and streamed as the directory grows."""

import contextlib
import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import datasource
from pyspark.sql import functions as f

from pyspark_pipeline_broker.source import FORMAT
from pyspark_pipeline_broker.stream_limits import READS_LIMITS
from tests.documents import blocks_run_by
from tests.inspect.data_directory import Data, archived
from tests.pyspark_pipeline_broker.bare_process import output_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

KAFKA_COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
KAFKA_HEADERS = ("headers", "array<struct<key:string,value:binary>>")
"""The columns of `spark.read.format("kafka")` in Spark 4.0."""
STREAM_SECONDS = 60


FILTERS = "spark.sql.python.filterPushdown.enabled"
HAS_FILTERS = hasattr(datasource, "EqualTo")


@contextlib.contextmanager
def setting(spark, name, is_on):
    spark.conf.set(name, str(is_on).lower())
    try:
        yield
    finally:
        spark.conf.unset(name)


def run_to_end(stream, directory, each_batch=lambda _rows, _number: None):
    """Run a job over the existing records; its checkpoint is in the same directory."""
    writer = stream.writeStream.foreachBatch(each_batch).option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_SECONDS)
    return query


def read(spark, directory, **options):
    return spark.read.format(FORMAT).options(**options).load(str(directory))


def test_columns_are_those_of_the_kafka_source(spark, tmp_path):
    Data(tmp_path).close()

    assert read(spark, tmp_path, subscribe="events").dtypes == KAFKA_COLUMNS
    with_headers = read(spark, tmp_path, subscribe="events", includeHeaders="true")
    assert with_headers.dtypes == [*KAFKA_COLUMNS, KAFKA_HEADERS]
    assert with_headers.count() == 0


def test_a_query_has_a_task_for_each_file_of_a_partition_and_its_filters_hold(spark, tmp_path):
    archived(tmp_path, segments=3).close()
    events = read(spark, tmp_path, subscribe="events")

    assert events.rdd.getNumPartitions() == 8
    assert events.agg(f.count("*"), f.sum("offset")).collect() == [(130, sum(range(66)) + sum(range(64)))]
    some = events.where(
        "partition = 1 AND offset BETWEEN 3 AND 60 AND key IS NULL AND timestamp >= timestamp_millis(5)"
    )
    assert [row.offset for row in some.orderBy("offset").collect()] == [*range(5, 60, 2)]


def test_the_program_of_the_document_shows_the_records_in_an_environment_without_settings(tmp_path):
    archived(tmp_path / "data", segments=3).close()
    (block,) = blocks_run_by("tests/pyspark_pipeline_broker/test_source.py")
    shown = output_of(block.text, tmp_path)
    assert "|        0|     0|" in shown
    assert "|        1|   64|" in shown


@pytest.mark.parametrize("is_on", [False, True])
def test_reads_work_with_every_filter_setting_of_spark(spark, tmp_path, is_on):
    archived(tmp_path, segments=3).close()
    with setting(spark, FILTERS, is_on):
        events = read(spark, tmp_path, subscribe="events")
        assert events.where("partition = 1 AND offset >= 60").count() == 4
        assert events.where("offset < 0").collect() == []
        assert read(spark, tmp_path, subscribePattern="^nothing$").collect() == []
        at_5 = '{"events": {"0": 5, "1": 5}}'
        assert read(spark, tmp_path, subscribe="events", startingOffsets=at_5, endingOffsets=at_5).count() == 0


@pytest.mark.skipif(not HAS_FILTERS, reason="filters come with PySpark 4.1")
def test_pushdown_skips_files_and_needs_sparks_setting(spark, tmp_path):
    archived(tmp_path, segments=3).close()
    events = read(spark, tmp_path, subscribe="events", pushdown="true")
    with pytest.raises(PySparkException, match="filterPushdown"):
        events.count()
    with setting(spark, FILTERS, is_on=True):
        assert events.rdd.getNumPartitions() == 8
        for condition, files, offsets in (
            ("partition = 1", 4, list(range(64))),
            ("partition = 1 AND offset >= 60", 2, list(range(60, 64))),
            ("partition = 0 AND offset BETWEEN 3 AND 4", 1, [3, 4]),
            ("topic = 'others'", 0, []),
        ):
            found = read(spark, tmp_path, subscribe="events", pushdown="true").where(condition)
            assert found.rdd.getNumPartitions() == max(files, 1)  # Spark has a task for nothing, too
            assert sorted(row.offset for row in found.collect()) == offsets


def test_a_sql_table_keeps_its_options(spark, tmp_path):
    archived(tmp_path / "a%20b", segments=3).close()
    options = f"path '{tmp_path}/a%20b', subscribe 'events', includeHeaders 'true'"
    spark.sql(f"CREATE TABLE held USING `{FORMAT}` OPTIONS ({options}) COMMENT 'c' TBLPROPERTIES ('p' = 'q')")
    try:
        assert spark.table("held").count() == 130
        assert spark.table("held").dtypes == [*KAFKA_COLUMNS, KAFKA_HEADERS]
        assert spark.sql("SELECT max(offset) FROM held WHERE partition = 1").collect() == [(63,)]
        late = spark.read.option("startingOffsets", '{"events": {"0": 60, "1": 60}}').table("held")
        assert late.count() == 10
    finally:
        spark.sql("DROP TABLE held")


def test_a_wrong_read_is_refused_in_one_line(spark, tmp_path):
    Data(tmp_path).close()

    with pytest.raises(PySparkException, match="unknown options: starting"):
        read(spark, tmp_path, subscribe="events", starting="0").count()
    with pytest.raises(PySparkException, match="has no topic nothing"):
        read(spark, tmp_path, subscribe="nothing").count()
    stream = spark.readStream.format(FORMAT).options(subscribe="events", endingOffsets="latest").load(str(tmp_path))
    with pytest.raises(PySparkException, match=r"ValueError: a stream has no end\. Remove endingOffsets"):
        run_to_end(stream, tmp_path)


@pytest.mark.skipif(READS_LIMITS, reason="this PySpark has limits")
def test_a_limit_is_refused_if_spark_has_none(spark, tmp_path):
    Data(tmp_path).close()
    options = {"subscribe": "events", "maxOffsetsPerTrigger": "3"}
    stream = spark.readStream.format(FORMAT).options(**options).load(str(tmp_path))
    with pytest.raises(PySparkException, match=r"maxOffsetsPerTrigger needs PySpark 4.2"):
        run_to_end(stream, tmp_path)


@pytest.mark.skipif(not READS_LIMITS, reason="limits come with PySpark 4.2")
def test_a_limited_stream_reads_in_steps_shows_its_lag_and_ends_at_the_initial_end(spark, tmp_path):
    data = Data(tmp_path / "data")
    data.fill(8)
    options = {"subscribe": "events", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    stream = spark.readStream.format(FORMAT).options(**options).load(str(tmp_path / "data"))
    sizes = []

    def note(rows, number):
        sizes.append(rows.count())
        if number == 0:
            data.fill(2, start=8)  # is not of this run

    query = run_to_end(stream, tmp_path, note)
    assert sizes == [6, 6, 4]
    first = query.recentProgress[0]["sources"][0]
    assert json.loads(first["endOffset"]) == {"events": {"0": 3, "1": 3}}
    assert json.loads(first["latestOffset"]) == {"events": {"0": 8, "1": 8}}
    run_to_end(stream, tmp_path, note)
    assert sizes == [6, 6, 4, 4]
    data.close()


def test_a_stream_reads_each_record_once_and_resumes_where_it_stopped(spark, tmp_path):
    data = Data(tmp_path / "data")
    data.fill(10)

    def run():
        """Run the job over the existing records, then end it."""
        stream = spark.readStream.format(FORMAT).option("subscribe", "events").option("startingOffsets", "earliest")
        query = (
            stream.load(str(tmp_path / "data"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        assert query.awaitTermination(STREAM_SECONDS)

    run()
    data.fill(10, start=10)
    data.archive_all()
    data.write_in_transaction(9, ends_with=True)
    data.write_in_transaction(8)
    data.fill(4, start=20)
    run()
    out = spark.read.parquet(str(tmp_path / "out"))
    assert [row.offset for row in out.where("partition = 0").orderBy("offset").collect()] == list(range(21))
    assert [row.offset for row in out.where("partition = 1").orderBy("offset").collect()] == list(range(24))
    last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {"events": {"0": 22, "1": 24}}
    data.close()
