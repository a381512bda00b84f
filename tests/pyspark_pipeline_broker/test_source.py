"""The data source in a Spark session: found by its name, read in parallel, and in a stream as the directory grows."""

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from pyspark_pipeline_broker.source import FORMAT
from tests.documents import blocks_run_by
from tests.inspect.data_directory import Data, archived

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark leaves them to the collector
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
"""What `spark.read.format("kafka")` of Spark 4.0 has."""
STREAM_SECONDS = 60


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


@pytest.mark.usefixtures("spark")
def test_the_program_of_the_document_shows_the_records(tmp_path, capsys):
    archived(tmp_path / "data", segments=3).close()
    (block,) = blocks_run_by("tests/pyspark_pipeline_broker/test_source.py")

    exec(block.text.replace('load("data")', f'load("{tmp_path}/data")'), {})

    shown = capsys.readouterr().out
    assert "|        0|     0|" in shown
    assert "|        1|   64|" in shown


def test_what_cannot_be_read_is_said_in_one_line(spark, tmp_path):
    Data(tmp_path).close()

    with pytest.raises(PySparkException, match="unknown options: starting"):
        read(spark, tmp_path, subscribe="events", starting="0").count()
    with pytest.raises(PySparkException, match="has no topic nothing"):
        read(spark, tmp_path, subscribe="nothing").count()


def test_a_stream_reads_each_record_once_while_the_directory_grows_and_goes_on_where_it_stopped(spark, tmp_path):
    data = Data(tmp_path / "data")
    data.fill(10)

    def run():
        """One run of the job: all that there is, then its end."""
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
